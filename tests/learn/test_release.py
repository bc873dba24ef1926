"""Client-level differential privacy: norms, noise, and epsilon against closed forms and the library itself."""

import math
import warnings

import numpy as np
import pytest
import small_points
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from fedsim.core.errors import ScenarioError
from fedsim.learn.algorithm import Reply
from fedsim.learn.engine import tree
from fedsim.learner import accountant
from fedsim.learner.accountant import Accountant
from fedsim.learner.gaussian_mechanism import GaussianMechanism
from fedsim.point.checks import check
from fedsim.scenario.learning import Privacy
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

DELTA = 1e-5
SIZES = {"traffic": {"down": 1, "up": 1}}  # options that an algorithm needs


def replies(*updates, weights=None):
    weights = weights or [1.0] * len(updates)
    return [
        Reply(client, 0, {}, {"update": update, "samples": 10 * client + 1}, weight)
        for client, (update, weight) in enumerate(zip(updates, weights, strict=True))
    ]


def vector(*values):
    return {"w": torch.tensor(values), "b": [torch.zeros(1)]}


def released(given, clip, noise=0.0, count=None, seed=0):
    (only,) = GaussianMechanism(clip, noise, DELTA, count or len(given), False, np.random.default_rng(seed)).release(
        given
    )
    assert only.upload["samples"] == 1
    return only.upload["update"]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=2), min_size=1, max_size=5),
    st.floats(0.01, 10),
)
def test_one_client_moves_the_sum_by_the_clip_at_most(values, clip):
    updates = [vector(*pair) for pair in values]
    with_all, without = (released(replies(*some), clip, count=10) for some in (updates, updates[1:] or [vector(0, 0)]))
    norm_of = math.sqrt(sum(float(leaf.double().square().sum()) for leaf in tree.leaves(tree.sub(with_all, without))))
    assert 10 * norm_of <= clip * (1 + 1e-5) + 1e-5


def test_what_is_shorter_than_the_clip_stays_and_what_is_longer_keeps_its_direction():
    assert torch.equal(released(replies(vector(0.3, 0.4)), 1.0)["w"], torch.tensor([0.3, 0.4]))
    assert torch.allclose(released(replies(vector(30.0, 40.0)), 1.0)["w"], torch.tensor([0.6, 0.8]))


def test_clients_count_equally_discounted_for_staleness_over_a_fixed_number():
    given = replies(vector(1.0, 0.0), vector(0.0, 2.0), weights=[1.0, 0.5])
    assert torch.allclose(released(given, 1e9, count=4)["w"], torch.tensor([0.25, 0.25]))


def test_the_noise_has_the_deviation_that_is_said():
    noise = released(replies({"w": torch.zeros(200_000)}), clip=2.0, noise=0.7, count=5)["w"]
    assert float(noise.std()) == pytest.approx(0.7 * 2.0 / 5, rel=0.01)
    assert float(noise.mean()) == pytest.approx(0.0, abs=0.002)


def test_an_update_that_is_not_finite_is_reported():
    with pytest.raises(ScenarioError, match=r"training\.lr: the update of client 0 is not finite"):
        released(replies(vector(math.nan, 0.0)), 1.0)


def analytic(noise, releases=1):
    """Epsilon of Gaussian releases of one participation: Balle and Wang, ICML 2018, Theorem 8."""
    m = math.sqrt(releases) / noise

    def over(epsilon):
        return norm.cdf(m / 2 - epsilon / m) - math.exp(epsilon) * norm.cdf(-m / 2 - epsilon / m) - DELTA

    return brentq(over, 0, 300)


@pytest.mark.parametrize("noise", [0.8, 2.0, 10.0])
@pytest.mark.parametrize("releases", [1, 30])
def test_epsilon_of_known_participants_is_a_tight_bound_of_the_closed_form(noise, releases):
    here = Accountant(noise, DELTA)
    for _ in range(releases):
        here.unsampled([3])
    best = analytic(noise, releases)
    assert best <= here.epsilon() <= 1.12 * best


def test_the_client_that_took_part_most_often_decides_and_one_in_twice_counts_double():
    one, two, twice = (Accountant(4.0, DELTA) for _ in range(3))
    for clients in ([0, 1], [0, 2], [0, 3]):
        one.unsampled(clients)
    for _ in range(3):
        two.unsampled([7])
    assert one.epsilon() == two.epsilon()
    twice.unsampled([5, 5])
    assert twice.epsilon() >= analytic(2.0)


def test_epsilon_with_sampling_is_the_librarys():
    from opacus.accountants import RDPAccountant

    here, library = Accountant(1.1, DELTA), RDPAccountant()
    for _ in range(40):
        here.sampled(0.1)
        library.step(noise_multiplier=1.1, sample_rate=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert here.epsilon() == pytest.approx(library.get_epsilon(delta=DELTA, alphas=accountant.ORDERS))
    assert here.epsilon() < analytic(1.1, 40)


def test_without_noise_there_is_no_bound_and_without_a_release_nothing_is_spent():
    here = Accountant(0.0, DELTA)
    assert here.epsilon() == 0
    here.sampled(0.5)
    assert here.epsilon() == math.inf


SAME = {"data__partition": "random", "data__stream": "static", "clients__count": 4}
DEADLINE = {"name": "deadline", "rounds": 4, "clients": 2, "wait": "1 min"}
ALL = {"name": "sync", "rounds": 4, "participation": 1.0}


def test_without_noise_and_with_room_a_run_is_the_one_without(tmp_path):
    """Of 160 nodes each of four clients has forty, so that their weights are equal anyway."""
    plain = small_points.run_in(tmp_path / "plain", **SAME, protocol=ALL)
    wide = small_points.run_in(tmp_path / "wide", **SAME, protocol=ALL, privacy={"clip": 1e9})
    assert (wide["score"], wide["bytes_up"], wide["sim_seconds"]) == (
        plain["score"],
        plain["bytes_up"],
        plain["sim_seconds"],
    )
    assert (plain["epsilon"], wide["epsilon"]) == (None, math.inf)


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        (ALL, lambda: 4 * accountant.renyi(1.0, 2.0)),
        ({"name": "sync", "rounds": 4, "clients": 2}, lambda: 4 * accountant.renyi(0.5, 2.0)),
        (DEADLINE, lambda: 4 * accountant.renyi(0.5, 2.0)),
        ({"name": "one_shot"}, lambda: accountant.renyi(1.0, 2.0)),
    ],
    ids=["all", "half", "deadline", "one_shot"],
)  # fmt: skip
def test_epsilon_follows_from_who_is_drawn(protocol, expected, tmp_path):
    quick = {"clients__speed": "1 GFLOP/s"}
    privacy = {"clip": 1.0, "noise": 2.0, "delta": DELTA}
    row = small_points.run_in(tmp_path / "run", **SAME, **quick, protocol=protocol, privacy=privacy)
    from opacus.accountants.analysis import rdp

    assert row["epsilon"] == pytest.approx(
        rdp.get_privacy_spent(orders=accountant.ORDERS, rdp=expected(), delta=DELTA)[0]
    )
    told = [update["epsilon"] for update in small_points.table(tmp_path / "run", "updates")]
    assert told == sorted(told)
    assert told[-1] == row["epsilon"]


def test_nothing_is_gained_by_sampling_where_participation_is_not_by_chance(tmp_path):
    privacy = {"clip": 1.0, "noise": 2.0, "delta": DELTA}
    for name, changes in {
        "buffered": {"protocol": {"name": "buffered", "rounds": 6, "clients": 3, "buffer": 2}},
        "in turn": {"protocol": {"name": "sync", "rounds": 6, "clients": 2}, "clients__sampler": "round_robin"},
    }.items():
        row = small_points.run_in(tmp_path / name, **SAME, **changes, privacy=privacy)
        replied = [one for one in small_points.table(tmp_path / name, "transfers") if one["dst"] == -1]
        counts = np.bincount([one["src"] for one in replied if one["fate"] == "delivered"])
        here = Accountant(2.0, DELTA)
        for _ in range(counts.max()):
            here.unsampled([0])
        assert row["epsilon"] >= here.epsilon()
        assert row["epsilon"] == pytest.approx(here.epsilon()) or name == "buffered"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"algorithm": "fedgta"}, "privacy.clip"),
        ({"algorithm": "power"}, "privacy.clip"),
        ({"protocol": {"name": "isolated", "rounds": 3, "participation": 1.0}}, "privacy.clip"),
        ({"protocol": {"name": "buffered", "rounds": 3, "clients": 3, "buffer": 2, "rate": 2.0}}, "privacy.clip"),
        ({"protocol": {"name": "one_shot", "late": "fold"}}, "privacy.clip"),
    ],
)
def test_what_noise_does_not_cover_is_refused_before_the_run(changes, key):
    point = small_points.point(privacy={"clip": 1.0, "noise": 1.0}, **changes)
    assert [problem.key for problem in check.points([point], whole=True)] == [key]


def test_noise_without_a_clip_is_refused():
    with pytest.raises(ValueError, match="there is no clip"):
        Privacy(noise=1.0)


def test_algorithms_that_are_covered_are_those_that_send_a_difference_alone():
    covered = {
        name
        for name in find.names("algorithm")
        if find.find("algorithm", Part(name=name), name)(**SIZES.get(name, {})).averages
    }
    assert covered == {"fedavg", "fedprox", "fed_ergnn", "fed_dslr", "fed_twp", "fgssl"}
    assert find.build("algorithm", Part(name="power", options={"transfer": False})).averages

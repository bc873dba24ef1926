"""Median and trimmed mean against numpy and scipy, what they withstand, and where the option is refused."""

import numpy as np
import pytest
import small_points
import torch
from contexts import within
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from algorithms.fed_gcn import FedGCN
from algorithms.fed_nova import FedNova
from algorithms.fedavg import FedAvg
from algorithms.fedprox import FedProx
from fedsim.core.errors import ScenarioError
from fedsim.learn.aggregations.mean import Mean
from fedsim.learn.aggregations.median import Median
from fedsim.learn.aggregations.trimmed_mean import TrimmedMean
from fedsim.learn.algorithm import Reply
from fedsim.point.checks import check
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

# Few distinct values, so that there are ties; float64, so that only rounding differs.
values = st.lists(st.lists(st.integers(-4, 4), min_size=6, max_size=6), min_size=1, max_size=9)


def trees(rows):
    """Each row as a tree of two tensors."""
    tensors = [torch.tensor(row, dtype=torch.float64) for row in rows]
    return [{"w": one[:4].reshape(2, 2), "deep": {"b": one[4:]}} for one in tensors]


def flat(tree):
    return torch.cat([tree["w"].flatten(), tree["deep"]["b"]]).numpy()


@settings(deadline=None)
@given(rows=values, percent=st.integers(0, 49), data=st.data())
def test_they_are_numpys_and_scipys(rows, percent, data):
    trim = percent / 100
    factors = data.draw(st.lists(st.sampled_from([0.25, 0.5, 1.0]), min_size=len(rows), max_size=len(rows)))
    scaled = np.array(rows) * np.array(factors)[:, np.newaxis]
    assert flat(Median().combine(trees(rows), [], factors)) == pytest.approx(np.median(scaled, axis=0))
    trimmed = flat(TrimmedMean(trim).combine(trees(rows), [], factors))
    assert trimmed == pytest.approx(stats.trim_mean(scaled, trim, axis=0), abs=1e-12)


@settings(deadline=None)
@given(st.integers(3, 25), st.floats(1, 1e6), st.integers(0, 99))
def test_attackers_values_stay_within_the_honest_ones_as_long_as_they_are_few(clients, size, seed):
    rng = np.random.default_rng(seed)
    honest, attackers = rng.normal(size=(clients, 6)), (clients - 1) // 2
    honest[:attackers] *= -size
    least, most = honest[attackers:].min(0), honest[attackers:].max(0)
    trim = attackers / clients  # exactly as many as are forged are left out at either end
    for found in (
        Median().combine(trees(honest), [], [1.0] * clients),
        TrimmedMean(trim).combine(trees(honest), [], [1.0] * clients),
    ):
        assert (flat(found) >= least - 1e-9).all()
        assert (flat(found) <= most + 1e-9).all()


def test_nothing_trimmed_is_the_mean_and_a_half_is_refused():
    rows = [[1, 2, 3, 4, 5, 6], [3, 4, 5, 6, 7, 8]]
    for trim in (0.0, 0.1, 0.49):
        assert flat(TrimmedMean(trim).combine(trees(rows), [], [1.0, 1.0])).tolist() == [2, 3, 4, 5, 6, 7]
    with pytest.raises(ScenarioError, match=r"aggregation\.trim: 0\.5: must be less than 0\.5"):
        find.build("aggregation", Part(name="trimmed_mean", options={"trim": 0.5}))
    assert flat(Mean().combine(trees(rows), [3, 1], [1.0, 1.0])).tolist() == [1.5, 2.5, 3.5, 4.5, 5.5, 6.5]


def reply(client, value, samples, weight=1.0, **more):
    return Reply(client, 0, None, {"update": {"w": torch.tensor([value])}, "samples": samples, **more}, weight)


def moved(algorithm, replies, aggregation=None):
    algorithm = within(algorithm, None, local_steps=2, aggregation=aggregation)
    state = algorithm.update({"model": {"w": torch.tensor([10.0])}}, replies, "train")
    return state["model"]["w"].item() - 10


def test_fedavg_takes_the_average_that_it_is_told_discounts_first_and_weights_aside():
    replies = [reply(0, 1.0, 100), reply(1, 2.0, 1), reply(2, 4.0, 1), reply(3, -50.0, 1), reply(4, 5.0, 1, weight=0.5)]
    assert moved(FedAvg(), replies, Median()) == pytest.approx(2.0)
    assert moved(FedAvg(), replies, TrimmedMean(0.2)) == pytest.approx((1 + 2 + 2.5) / 3)
    assert moved(FedAvg(), replies, TrimmedMean()) == pytest.approx((1 + 2 + 4 - 50 + 2.5) / 5)  # 10 % of 5
    assert moved(FedAvg(), replies, Mean()) == moved(FedAvg(), replies)
    assert moved(FedAvg(), replies) == pytest.approx((100 * 1 + 2 + 4 - 50 + 2.5) / 104)
    assert moved(FedProx(), replies, Median()) == pytest.approx(2.0)
    alike = [reply(k, value, 1, length=2.0) for k, value in enumerate([1.0, 3.0, -9.0])]
    assert moved(FedNova(), alike, Median()) == pytest.approx(1.0)


def test_ordering_takes_the_server_longer():
    replies = [reply(k, 1.0, 1) for k in range(8)]
    plain = FedAvg().server_flops({}, replies, "train")
    assert within(FedAvg(), None, aggregation=Median()).server_flops({}, replies, "train") == 3 * plain
    only_keeps_rows = within(FedGCN(), None, aggregation=Median()).server_flops({}, replies, "collect")
    assert only_keeps_rows == plain


def problems(**changes):
    return check.points([*small_points.scenario(**changes).points()], whole=True)


def test_with_an_algorithm_that_would_ignore_it_it_is_refused():
    follow = {"fedavg", "fedprox", "fed_ergnn", "fed_dslr", "fed_twp", "fgssl", "fed_nova", "fed_ego", "fed_gcn"}
    follow |= {"fed_opt", "fed_tad", "fedsage_plus", "dg_colearn", "power"}
    follow |= {"glfc", "lander", "llcg", "target"}
    for name in find.names("algorithm"):
        options = {"down": 0, "up": 0} if name == "traffic" else {}
        algorithm = find.build("algorithm", Part(name=name, options=options))
        assert algorithm.aggregates == (name in follow)
    assert not problems(aggregation="median")
    (problem,) = problems(algorithm="fedgta", aggregation="median")
    assert (problem.key, "does not average differences" in problem.message) == ("aggregation", True)


@pytest.mark.parametrize(
    "changes",
    [
        {"protocol": {"name": "gossip", "rounds": 1}, "network__topology": {"name": "peers", "graph": "ring"}},
        {"protocol": {"name": "isolated", "rounds": 1, "clients": 1}},
    ],
)
def test_where_replies_are_folded_one_by_one_it_is_refused(changes):
    assert not problems(**changes)
    (problem,) = problems(**changes, aggregation="median")
    assert (problem.key, "folds one by one" in problem.message) == ("aggregation", True)


@pytest.mark.parametrize("name", ["median", "trimmed_mean"])
@pytest.mark.parametrize("privacy", [{"clip": 1.0, "noise": 1.0}, {"secure_aggregation": True}])
def test_where_the_server_has_no_single_difference_it_is_refused(privacy, name):
    key = next(iter(privacy))
    if key == "clip":
        pytest.importorskip("opacus")
    changes = {"protocol": {"name": "sync", "rounds": 1, "clients": 2}, "privacy": privacy}
    assert not problems(**changes)
    assert not problems(**changes, aggregation="mean")
    (problem,) = problems(**changes, aggregation=name)
    assert problem.key == "aggregation"
    assert f"{name!r} needs each client's difference" in problem.message
    assert f"leave out aggregation or privacy.{key}" in problem.message


def test_the_former_options_name_the_new_key():
    for option in ("aggregation", "trim"):
        (problem,) = find.check("algorithm", Part(name="fedavg", options={option: "median"}))
        assert (problem.key, "aggregation: " in problem.message) == (f"algorithm.{option}", True)

"""Who is asked: laws of the draws, who comes first, and tables that are wrong."""

import time
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.clock import sampler
from fedsim.clock.samplers.availability import Availability
from fedsim.clock.samplers.fixed import Fixed
from fedsim.clock.samplers.rates import Rates
from fedsim.clock.samplers.round_robin import RoundRobin
from fedsim.clock.samplers.uniform import Uniform
from fedsim.clock.samplers.weighted import Weighted
from fedsim.core.errors import ScenarioError, UserError
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


@dataclass
class Columns:
    """What a sampler looks at."""

    training_nodes: np.ndarray
    last_asked: np.ndarray
    there: np.ndarray = field(default_factory=lambda: np.ones(0))

    def availability(self):
        return self.there


def columns(count, nodes=None, last_asked=None, there=None):
    return Columns(
        np.asarray(np.ones(count, int) if nodes is None else nodes),
        np.asarray(np.zeros(count, int) if last_asked is None else last_asked),
        np.asarray(np.ones(count) if there is None else there, float),
    )


def shares(chooser, free, count, seen, draws=6000):
    """How often each client is chosen, as a share of the draws."""
    rng, hits = np.random.default_rng(1), np.zeros(len(seen.last_asked))
    for _ in range(draws):
        hits[chooser.choose(np.asarray(free), count, seen, rng)] += 1
    return hits / draws


def table(tmp_path, text):
    path = tmp_path / "rates.csv"
    path.write_text(text)
    return path


def test_one_is_drawn_in_proportion_to_training_nodes():
    got = shares(Weighted(), [0, 2, 3], 1, columns(4, nodes=[1, 50, 3, 6]))
    assert got == pytest.approx([0.1, 0, 0.3, 0.6], abs=0.03)


def test_two_are_drawn_one_after_the_other_in_proportion():
    weights = np.array([1.0, 3.0, 6.0])
    first = weights / 10
    both = [first[k] + sum(first[j] * weights[k] / (10 - weights[j]) for j in range(3) if j != k) for k in range(3)]
    assert shares(Weighted(), [0, 1, 2], 2, columns(3, nodes=[1, 3, 6])) == pytest.approx(both, abs=0.03)


def test_clients_without_training_nodes_are_asked_only_when_nobody_else_is_left():
    seen, rng = columns(5, nodes=[0, 4, 0, 2, 0]), np.random.default_rng(0)
    for _ in range(50):
        assert {1, 3} <= set(Weighted().choose(np.arange(5), 3, seen, rng).tolist())
    assert shares(Weighted(), range(5), 3, seen) == pytest.approx([1 / 3, 1, 1 / 3, 1, 1 / 3], abs=0.03)


def test_those_who_are_often_or_seldom_there_are_preferred():
    seen = columns(3, there=[0.1, 0.3, 0.6])
    assert shares(Availability(prefer="often"), range(3), 1, seen) == pytest.approx([0.1, 0.3, 0.6], abs=0.03)
    inverse = np.array([1 / 0.1, 1 / 0.3, 1 / 0.6])
    assert shares(Availability(), range(3), 1, seen) == pytest.approx(inverse / inverse.sum(), abs=0.03)
    squared = np.array([0.1, 0.3, 0.6]) ** 2
    got = shares(Availability(prefer="often", exponent=2.0), range(3), 1, seen)
    assert got == pytest.approx(squared / squared.sum(), abs=0.03)
    assert shares(Availability(exponent=0.0), range(3), 1, seen) == pytest.approx(1 / 3, abs=0.03)


def test_who_has_just_come_for_the_first_time_is_the_most_seldom_of_all():
    seen = columns(4, there=[0.5, 0.0, 0.9, 0.0])
    assert shares(Availability(), range(4), 1, seen, 2000) == pytest.approx([0, 0.5, 0, 0.5], abs=0.05)
    assert shares(Availability(prefer="often"), range(4), 2, seen, 50).tolist() == [1, 0, 1, 0]


def test_turns_go_round():
    seen, rng = columns(7), np.random.default_rng(0)
    asked, turn = [], 0
    for _ in range(7):
        cohort = RoundRobin().choose(np.arange(7), 3, seen, rng)
        asked.append(cohort.tolist())
        for client in cohort:
            turn += 1
            seen.last_asked[client] = turn
    assert asked == [[0, 1, 2], [3, 4, 5], [0, 1, 6], [2, 3, 4], [0, 1, 5], [2, 3, 6], [0, 1, 4]]
    assert rng.random() == np.random.default_rng(0).random()  # nothing was drawn


def test_who_waits_longest_is_next_whoever_is_free():
    seen = columns(5, last_asked=[4, 1, 3, 0, 2])
    assert RoundRobin().choose(np.array([0, 2, 4]), 2, seen, np.random.default_rng(0)).tolist() == [2, 4]
    assert RoundRobin().choose(np.array([0, 3, 1]), 1, seen, np.random.default_rng(0)).tolist() == [3]


def test_the_same_are_asked_again_and_others_only_in_their_place():
    seen, rng = columns(5, last_asked=[9, 8, 0, 0, 0]), np.random.default_rng(0)
    assert [Fixed().choose(np.arange(5), 2, seen, rng).tolist() for _ in range(3)] == 3 * [[0, 1]]
    assert Fixed().choose(np.array([1, 3, 4]), 2, seen, rng).tolist() == [1, 3]


def test_each_volunteers_at_its_own_rate_independently(tmp_path):
    chooser = Rates(table(tmp_path, "client,rate\n0,0.2\n2,0.5\n3,0\n"), default=0.9)
    got = shares(chooser, range(4), 4, columns(4))
    nobody = 0.8 * 0.1 * 0.5  # such draws are drawn again
    assert got == pytest.approx(np.array([0.2, 0.9, 0.5, 0]) / (1 - nobody), abs=0.03)
    rng, together = np.random.default_rng(3), 0
    for _ in range(6000):
        together += {0, 2} <= set(chooser.choose(np.arange(4), 4, columns(4), rng).tolist())
    assert together / 6000 == pytest.approx(0.1 / (1 - nobody), abs=0.02)


def test_when_volunteers_are_rare_the_first_draw_has_the_law_of_drawing_again(tmp_path):
    chooser = Rates(table(tmp_path, "client,rate\n0,1e-9\n1,0\n2,3e-9\n"), default=0.0)
    assert shares(chooser, range(4), 4, columns(4)) == pytest.approx([0.25, 0, 0.75, 0], abs=0.03)


def test_of_the_volunteers_as_many_as_wanted_are_taken_by_equal_chances(tmp_path):
    chooser = Rates(table(tmp_path, "client,rate\n1,0\n"))
    assert shares(chooser, range(5), 2, columns(5)) == pytest.approx([0.5, 0, 0.5, 0.5, 0.5], abs=0.03)


def test_nobody_is_asked_where_nobody_free_would_take_part(tmp_path):
    chooser = Rates(table(tmp_path, "client,rate\n0,0\n1,0\n"))
    assert chooser.choose(np.array([0, 1]), 2, columns(3), np.random.default_rng(0)).tolist() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("client,rate\n0,1.5\n", r"line 2: column 'rate': 1\.5 is out of range"),
        ("client,rate\n0,0.5\n1,0.1\n0,0.7\n", "line 4: client 0 is listed a second time"),
        ("client,share\n0,0.5\n", "there is no column 'share'"),
    ],
)
def test_a_table_that_is_wrong_is_reported_before_the_run(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        find.build("sampler", Part(name="rates", options={"table": str(table(tmp_path, text))}))


def test_a_table_of_nobody_and_of_clients_that_there_are_not(tmp_path):
    path = table(tmp_path, "client,rate\n7,0\n")
    with pytest.raises(ScenarioError, match="no client would ever take part"):
        find.build("sampler", Part(name="rates", options={"table": str(path), "default": 0}))
    with pytest.raises(UserError, match=r"lists client 7, but there are 5.*raise clients\.count"):
        Rates(path).choose(np.arange(5), 2, columns(5), np.random.default_rng(0))


@pytest.mark.parametrize("options", [{"exponent": -1.0}, {"exponent": float("inf")}, {"prefer": "never"}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ScenarioError, match=rf"clients\.sampler.*{next(iter(options))}"):
        find.build("sampler", Part(name="availability", options=options))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 9), st.integers(0, 50), st.floats(0, 1)), min_size=1, max_size=20),
    st.integers(0, 25),
    st.integers(0, 5),
    st.sampled_from([Uniform(), Weighted(), RoundRobin(), Fixed(), Availability(), Availability("often", 3.0)]),
)
def test_a_cohort_is_ascending_free_and_as_large_as_can_be(clients, count, seed, chooser):
    there, nodes, turns, online = (np.array(column) for column in zip(*clients, strict=True))
    free, seen = np.flatnonzero(there), columns(len(clients), nodes, turns, online)
    before = (seen.training_nodes.copy(), seen.last_asked.copy(), free.copy())
    drawn = [chooser.choose(free, count, seen, np.random.default_rng(seed)) for _ in range(2)]
    assert drawn[0].tolist() == drawn[1].tolist() == sorted(set(drawn[0].tolist()))
    assert len(drawn[0]) == min(count, len(free))
    assert set(drawn[0].tolist()) <= set(free.tolist())
    assert all(
        (new == old).all() for new, old in zip((seen.training_nodes, seen.last_asked, free), before, strict=True)
    )


def test_all_weights_alike_is_uniform():
    rng, hits = np.random.default_rng(0), np.zeros(6)
    for _ in range(6000):
        hits[sampler.draw(np.arange(6), 2, np.full(6, 1e-300), rng)] += 1
    assert hits / 6000 == pytest.approx(1 / 3, abs=0.03)


def test_a_hundred_thousand_clients_are_no_trouble(tmp_path):
    count, rng = 100_000, np.random.default_rng(0)
    listed = "\n".join(f"{client},{rate:.3f}" for client, rate in enumerate(rng.random(count)))
    choosers = [Uniform(), Weighted(), RoundRobin(), Availability(), Rates(table(tmp_path, f"client,rate\n{listed}\n"))]
    seen = columns(count, rng.integers(0, 100, count), rng.permutation(count), rng.random(count))
    for chooser in choosers:
        start = time.perf_counter()
        for _ in range(5):
            assert len(chooser.choose(np.arange(count), 1000, seen, rng)) == 1000
        assert time.perf_counter() - start < 2.5, chooser  # one by one it would take many times that

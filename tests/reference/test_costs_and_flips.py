"""What 90 % of the best costs, and whether halved links change who leads: made-up courses and a brute-force search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up_tables import seeds, tables

from fedsim.reference.cell import SHARES, Budget, BudgetShare, Contender
from fedsim.reference.findings import findings

PLACE = "campus/digits/static"
BUDGETS = {("campus", "digits", "static"): Budget(1000.0, 50.0)}
A, B, C = (Contender(name, "sync") for name in "abc")


@given(st.integers(0, 2**32 - 1))
def test_costs_are_means_over_the_runs_that_reach_the_target(number):
    rng = np.random.default_rng(number)
    runs = {}
    for name in "abc":
        for seed in range(5):
            scores = rng.random(int(rng.integers(1, 6)))
            runs[f"{PLACE}/{name}/sync/given/{seed}"] = [
                (float(at + 1 - rng.random()), float(10 * at + rng.random()), float(score))
                for at, score in enumerate(scores)
            ]
    (one,) = findings(tables(runs), BUDGETS).outcomes
    finals = {name: np.mean([runs[f"{PLACE}/{name}/sync/given/{seed}"][-1][2] for seed in range(5)]) for name in "abc"}
    assert one.target == pytest.approx(0.9 * max(finals.values()))
    for name in "abc":
        there = []
        for seed in range(5):
            course = runs[f"{PLACE}/{name}/sync/given/{seed}"]
            there += [row for row in course if row[2] >= one.target][:1]
        cost = one.costs[Contender(name, "sync")]
        assert (cost.reached, cost.seeds) == (len(there), 5)
        if there:
            assert (cost.seconds, cost.bytes) == pytest.approx(tuple(np.mean(there, axis=0)[:2]))
        else:
            assert math.isnan(cost.bytes)


def links(given, halved):
    """Runs of A and B with either links: their five final scores, reached at the first budget of bytes."""
    found = {}
    for name, kind, scores in (("a", "given", given[0]), ("b", "given", given[1]), ("a", "halved", halved[0]),
                               ("b", "halved", halved[1])):  # fmt: skip
        found |= seeds(f"{PLACE}/{name}/sync/{kind}", scores, moved=10.0, seconds=5.0)
    return found


HIGH, LOW = (0.80, 0.81, 0.82, 0.81, 0.80), (0.70, 0.72, 0.71, 0.70, 0.72)
MIXED = (0.84, 0.78, 0.85, 0.79, 0.80)  # on average above HIGH, and not significantly


def test_a_change_is_another_leader_and_significant_if_the_old_one_is_below():
    found = findings(tables(links((HIGH, LOW), (LOW, HIGH))), BUDGETS)
    assert [str(one.budget) for one in found.halved] == [
        str(share) for share in SHARES if share != BudgetShare("seconds", 0.01)
    ]
    assert all(one.changes and one.significant for one in found.halved)
    assert {(one.given, one.halved) for one in found.changes} == {(A, B)}


def test_a_change_within_the_noise_is_not_significant():
    found = findings(tables(links((HIGH, LOW), (HIGH, MIXED))), BUDGETS)
    assert found.changes == list(found.halved)
    assert not any(one.significant for one in found.changes)


def test_the_same_leader_is_no_change():
    found = findings(tables(links((HIGH, LOW), (HIGH, LOW))), BUDGETS)
    assert len(found.halved) == 5
    assert found.changes == []


def test_only_contenders_with_both_links_are_compared():
    runs = links((HIGH, LOW), (HIGH, LOW)) | seeds(f"{PLACE}/c/sync/given", (0.9,) * 5, moved=10.0, seconds=5.0)
    found = findings(tables(runs), BUDGETS)
    assert found.outcomes[0].final.leader == C
    assert {one.given for one in found.halved} == {A}
    assert found.changes == []

"""Leaders and who is tied with them, against statistics taken from scipy; pairs, and Holm's correction."""

import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from fedsim.reference.cell import Contender
from fedsim.reference.comparisons import holm, pairs, standings
from fedsim.reference.scores import FINAL

A, B, C, D = (Contender(name, "sync") for name in "abcd")


def runs(scores):
    rows = [(*name, seed, score) for name, own in scores.items() for seed, score in own.items()]
    return pd.DataFrame(rows, columns=["method", "protocol", "seed", FINAL])


def five(*scores):
    return dict(enumerate(scores))


@st.composite
def drawn(draw):
    """Up to six contenders with five seeds each; means lie near or far."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    count, noise = draw(st.integers(2, 6)), draw(st.sampled_from([0.001, 0.03]))
    return {
        Contender(name, "sync"): dict(enumerate((0.5 + 0.05 * rng.random() + noise * rng.normal(size=5)).tolist()))
        for name in "abcdef"[:count]
    }


@given(drawn())
def test_the_leader_has_the_best_mean_and_the_tied_ones_a_paired_interval_around_zero(scores):
    found = standings(runs(scores), FINAL)
    best = max(scores, key=lambda name: np.mean(list(scores[name].values())))
    assert found.leader == best
    for name in scores:
        if name != best:
            test = stats.ttest_rel(list(scores[name].values()), list(scores[best].values()))
            assert found.of(name).status == ("tied" if test.pvalue >= 0.05 else "below")
            low, high = test.confidence_interval(0.95)
            assert (found.of(name).difference.low, found.of(name).difference.high) == pytest.approx((low, high))
    means = [row.score.mean for row in found.rows]
    assert means == sorted(means, reverse=True)


@given(drawn())
def test_pairs_are_compared_by_paired_tests(scores):
    found = pairs(runs(scores), FINAL, [*scores])
    assert [(pair.first, pair.second) for pair in found] == [*combinations(scores, 2)]
    for pair in found:
        test = stats.ttest_rel(list(scores[pair.first].values()), list(scores[pair.second].values()))
        assert pair.p == pytest.approx(test.pvalue)
        assert pair.significant == (test.pvalue < 0.05)
        assert not (pair.holm and not pair.significant)


def test_a_few_seeds_do_not_lead_and_are_not_compared():
    found = standings(
        runs({A: five(0.5, 0.6, 0.5, 0.6, 0.5), B: dict(list(five(0.9, 0.9, 0.9, 0.9, 0.9).items())[:4])}), FINAL
    )
    assert found.leader == A
    assert [(row.contender, row.status, row.seeds) for row in found.rows] == [(B, "untested", 4), (A, "leader", 5)]


def test_nobody_leads_where_everybody_lacks_a_seed():
    found = standings(runs({A: {0: 0.5, 1: math.nan}, B: {0: math.nan, 1: 0.7}}), FINAL, [C])
    assert found.leader is None
    assert math.isnan(found.best)
    assert {row.contender: row.status for row in found.rows} == {A: "untested", B: "untested", C: "unscored"}


def test_equal_scores_are_tied_and_the_first_name_leads():
    same = five(0.5, 0.6, 0.7, 0.8, 0.9)
    found = standings(runs({B: same, A: same}), FINAL)
    assert (found.leader, found.tied) == (A, [B])


def test_a_constant_difference_is_significant():
    one, other = five(0.5, 0.625, 0.75, 0.5, 0.625), five(0.25, 0.375, 0.5, 0.25, 0.375)
    (pair,) = pairs(runs({A: one, B: other}), FINAL, [A, B])
    assert pair.significant
    assert pair.p == 0.0
    (pair,) = pairs(runs({A: one, B: one}), FINAL, [A, B])
    assert not pair.significant
    assert pair.p == 1.0


def test_a_pair_without_common_seeds_is_not_tested():
    (pair,) = pairs(runs({A: {0: 0.5}, B: {1: 0.5}}), FINAL, [A, B])
    assert not pair.tested
    assert not pair.significant
    assert math.isnan(pair.p)


@given(st.lists(st.floats(0, 1), max_size=7))
def test_holm_rejects_what_its_adjusted_p_values_say(values):
    order = sorted(range(len(values)), key=lambda at: values[at])
    adjusted, highest = {}, 0.0
    for step, at in enumerate(order):
        highest = max(highest, min(1.0, values[at] * (len(values) - step)))
        adjusted[at] = highest
    for at, rejected in enumerate(holm(values)):
        if not math.isclose(adjusted[at], 0.05, rel_tol=1e-9):
            assert rejected == (adjusted[at] <= 0.05)


def test_holm_leaves_out_what_was_not_tested():
    assert holm([0.04, math.nan]) == [True, False]
    assert holm([0.04, 0.9]) == [False, False]

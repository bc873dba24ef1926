import math

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.axes import is_replicate, replicates
from analysis.statistics.intervals import Interval, counted, interval, t_interval

T4 = 2.7764451052  # the 97.5 % quantile of Student's t for 4 degrees of freedom, from a table
ORDER = "data.split.numpy_seed"


def runs(scores):
    """Rows of (order, seed, am)."""
    return pd.DataFrame(scores, columns=[ORDER, "seed", "am"])


NESTED = [("1", "0", 0.4), ("1", "1", 0.6), ("2", "0", 0.6), ("2", "1", 0.8), ("3", "0", 0.8), ("3", "1", 1.0)]
FIVE = [*NESTED, ("4", "0", 0.6), ("4", "1", 0.8), ("5", "0", 0.5), ("5", "1", 0.9)]


def test_which_axes_are_replicates():
    assert [is_replicate(axis) for axis in ("seed", ORDER, "data.seeded", "seed.rate")] == [True, True, False, False]
    assert replicates(["run", "seed", "network.latency", ORDER]) == [ORDER, "seed"]


def test_seeds_are_averaged_within_orders_first():
    found = interval(runs(FIVE), "am")  # orders 0.5, 0.7, 0.9, 0.7, 0.7: deviation sqrt(0.02)
    half = T4 * math.sqrt(0.02 / 5)
    assert (found.mean, found.low, found.high) == pytest.approx((0.7, 0.7 - half, 0.7 + half))


def test_a_single_order_has_an_interval_over_its_seeds():
    found = interval(runs([("1", str(seed), am) for seed, am in enumerate((0.4, 0.6, 0.5, 0.3, 0.7))]), "am")
    half = T4 * math.sqrt(0.025 / 5)
    assert (found.mean, found.low, found.high) == pytest.approx((0.5, 0.5 - half, 0.5 + half))


def test_fewer_than_five_units_have_no_interval_but_are_kept():
    found = interval(runs(NESTED), "am")
    assert found.mean == pytest.approx(0.7)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert found.excludes_zero is None
    assert found.few == pytest.approx([0.5, 0.7, 0.9])
    assert interval(runs(FIVE), "am").few == []
    assert interval(runs(NESTED[:1]), "am").few == []


def test_orders_count_alike_however_many_seeds_they_have():
    found = interval(runs([("1", str(seed), 0.2) for seed in range(9)] + [("2", "0", 0.4)]), "am")
    assert found.mean == pytest.approx(0.3)
    assert found.few == pytest.approx([0.2, 0.4])


def test_a_single_unit_has_no_interval_and_none_no_mean():
    one, none = interval(runs(NESTED[:1]), "am"), interval(runs([("1", "0", math.nan)]), "am")
    assert one.mean == 0.4
    assert math.isnan(one.low)
    assert one.excludes_zero is None
    assert math.isnan(none.mean)
    assert [Interval(1, *ends).excludes_zero for ends in ((0.1, 2), (-0.1, 2), (-2, -0.1))] == [True, False, True]


def test_missing_runs_are_left_out():
    assert interval(runs([*FIVE, ("6", "0", math.nan)]), "am") == interval(runs(FIVE), "am")


def test_of_two_outer_replicates_the_one_with_fewer_values_is_the_unit():
    frame = runs(NESTED).assign(**{"data.partition.seed": ["7", "8"] * 3})
    found = interval(frame, "am")  # 7: 0.4, 0.6, 0.8; 8: 0.6, 0.8, 1.0
    assert found.few == pytest.approx([0.6, 0.8])


def test_what_the_runs_are_in_words():
    assert counted(runs(NESTED)) == "3 orders x 2 seeds"
    assert counted(runs(NESTED[:5])) == "3 orders, 5 runs"
    assert counted(runs(NESTED[:1])) == "1 order x 1 seed"
    assert counted(runs(NESTED[:2]).drop(columns=ORDER)) == "2 seeds"
    assert counted(runs(NESTED[:2]).rename(columns={ORDER: "data.partition.seed"})) == "1 partition.seed x 2 seeds"


@settings(max_examples=20)
@given(st.lists(st.floats(0, 1), min_size=5, max_size=8), st.floats(0.1, 10))
def test_an_interval_scales_with_its_values(values, factor):
    one, other = t_interval(values), t_interval(factor * value for value in values)
    assert [factor * end for end in (one.mean, one.low, one.high)] == pytest.approx([other.mean, other.low, other.high])

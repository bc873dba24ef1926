"""Exponential intervals, looked up instead of run: their law; neither looks nor others change anybody's times."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.net.presence.offline_intervals import ExponentialIntervals


def changes(looks, count=50, between=10.0, spell=30.0, seed=0, now=0.0):
    """Return all changes up to the last look, ordered by thing: (times, whose, steps), and the spells."""
    spells = ExponentialIntervals(now, np.arange(count), between, spell, np.random.default_rng(seed))
    parts = [part for look in looks for part in spells.passed(look)]
    times, who, steps = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(who, kind="stable")
    return times[order], who[order], steps[order], spells


def test_spells_and_what_lies_between_are_exponential_with_their_means():
    """Means within 5 sigma, and by Kolmogorov and Smirnov (a chance of 1e-6)."""
    times, who, steps, _ = changes([20_000.0])
    same = who[1:] == who[:-1]
    lengths, begun = np.diff(times)[same], steps[:-1][same]
    assert (begun != steps[1:][same]).all()
    for step, mean in ((1, 30.0), (-1, 10.0)):
        own = np.sort(lengths[begun == step])
        assert own.mean() == pytest.approx(mean, rel=5 / math.sqrt(len(own)))
        gap = np.abs(np.arange(len(own)) / len(own) - -np.expm1(-own / mean)).max()
        assert gap < math.sqrt(math.log(2e6) / 2 / len(own)) + 1 / len(own)


@pytest.mark.parametrize("time", [1e-9, 3.0, 200.0])
def test_the_share_in_a_spell_is_that_of_the_long_run_at_any_time(time):
    spells = ExponentialIntervals(0.0, np.arange(20_000), 10.0, 30.0, np.random.default_rng(1))
    inside = spells.inside.astype(int)
    for _, who, steps in spells.passed(time):
        np.add.at(inside, who, steps)
    assert set(inside.tolist()) == {0, 1}
    assert inside.mean() == pytest.approx(0.75, abs=5 * math.sqrt(0.1875 / 20_000))


def test_things_are_independent_of_one_another_and_of_their_own_past():
    """Correlations of a length with the next one, and with the next thing's (5 sigma)."""
    times, who, _, _ = changes([3000.0], count=2000, between=10.0, spell=10.0)
    lengths = [np.diff(own)[:100] for own in np.split(times, np.flatnonzero(np.diff(who)) + 1)]
    table = np.array([own for own in lengths if len(own) == 100])
    for one, other in ((table[:, :-1], table[:, 1:]), (table[:-1], table[1:])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / math.sqrt(one.size)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0.01, 300.0), max_size=30), st.integers(1, 200))
def test_how_often_anybody_looks_changes_nothing(looks, count):
    often, once = changes([*sorted(looks), 300.0], count), changes([300.0], count)
    for one, other in zip(often[:3], once[:3], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(often[3].until, once[3].until)
    assert often[3].next == once[3].next == once[3].until.min() > 300.0


def test_a_things_times_do_not_depend_on_how_many_others_there_are():
    few, many = changes([500.0], count=3), changes([500.0], count=5000)
    own = many[1] < 3
    for one, other in zip(few[:3], many[:3], strict=True):
        np.testing.assert_array_equal(one, other[own])
    assert not np.array_equal(few[0], changes([500.0], count=3, seed=1)[0])


def test_what_has_passed_comes_once_in_order_and_not_before_its_time():
    spells = ExponentialIntervals(100.0, np.arange(20), 1.0, 2.0, np.random.default_rng(0))
    assert spells.passed(100.0) == []
    seen = [100.0]
    for look in (101.0, 101.0, 160.0, 400.0):
        for times, _, _ in spells.passed(look):
            assert (np.diff(times) >= 0).all()
            assert seen[-1] < times[0] <= times[-1] <= look
            seen += times.tolist()
    assert len(seen) > 1000

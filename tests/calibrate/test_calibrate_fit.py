"""The link of one client is what its messages came from, or it is said that they do not tell."""

from dataclasses import replace

import numpy as np
import pytest
from fitted_links import EXCHANGE, FRESH, KEPT, moved, together, with_seconds
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.calibrate import fit
from fedsim.calibrate.fit import DOWN, RTT, UP

FREE = np.full(3, np.nan)
LINK = (0.06, 5e6, 20e6)
SEVERAL = (500, 100_000, 2_000_000)


def problem(messages, forward=FRESH):
    return fit.problem(forward, messages, np.zeros(len(messages), dtype=bool))


def told(given_, fixed=FREE):
    link = fit.solve(given_, fixed)
    return link, [fit.is_identifiable(given_, link, fixed, which) for which in (RTT, UP, DOWN)]


links = (
    st.tuples(
        st.floats(np.log(0.005), np.log(0.4)), st.floats(np.log(3e5), np.log(1e8)), st.floats(np.log(3e5), np.log(1e8))
    )
    .map(lambda logs: tuple(np.exp(logs).tolist()))
    .filter(lambda link: 1 / 40 < link[1] / link[2] < 40)
)


@settings(max_examples=40)
@given(links, st.sampled_from([FRESH, EXCHANGE]))
def test_messages_of_several_sizes_tell_the_link(link, forward):
    found, sure = told(problem(moved(link, (500, 60_000, 8_000_000), forward), forward))
    assert found.error < 2e-3
    for value, true, certain in zip(found.values, link, sure, strict=True):
        assert not certain or value == pytest.approx(true, rel=0.01)


@settings(max_examples=20)
@given(links)
def test_what_is_told_apart_does_not_hang_on_where_the_search_begins(link):
    """Rates low enough for eight megabytes to be long are always identifiable, the round trip by the short messages."""
    link = (link[0], min(link[1], 2e7), min(link[2], 2e7))
    _, sure = told(problem(moved(link, (500, 60_000, 8_000_000))))
    assert sure == [True, True, True]


@pytest.mark.parametrize("forward", [FRESH, EXCHANGE, KEPT])
def test_every_kind_of_connection(forward):
    found, sure = told(problem(moved(LINK, SEVERAL, forward), forward))
    assert sure == [True, True, True]
    assert found.values == pytest.approx(LINK, rel=1e-3)


def test_a_few_messages_that_were_held_up_change_little():
    late = np.ones(10)
    late[[3, 8]] = 5.0, 3.0
    found = fit.solve(problem(moved(LINK, SEVERAL, repeats=10, late=late)), FREE)
    assert found.values == pytest.approx(LINK, rel=0.02)


def test_noise_of_some_percent_costs_some_percent():
    late = np.exp(np.random.default_rng(1).normal(0, 0.03, 120))
    found, sure = told(problem(moved(LINK, SEVERAL, repeats=20, late=late)))
    assert found.values == pytest.approx(LINK, rel=0.03)
    assert sure == [True, True, True]


def test_one_size_does_not_tell_a_long_round_trip_from_a_low_rate():
    given_ = problem(moved(LINK, [5_000]))
    link, sure = told(given_)
    assert link.error < 1e-6
    assert not sure[RTT]
    assert LINK[RTT] < fit.longest_rtt(given_) < 1.5 * LINK[RTT]


def test_what_half_explains_as_well_is_not_told_apart():
    """Twice the true round trip is more than the messages took; half of it, at lower rates, is not."""
    given_ = problem(moved(LINK, [5_000]))
    true = replace(fit.solve(given_, FREE), values=np.array(LINK), error=0.0)
    assert not fit.is_identifiable(given_, true, FREE, RTT)


def test_a_few_messages_of_another_size_are_heard_among_many():
    many = moved(LINK, [1_000_000], repeats=300)
    few = moved(LINK, [200], repeats=1)
    given_ = problem(together(many, replace(few, sent=few.sent + 1e6, arrived=few.arrived + 1e6)))
    link, sure = told(given_)
    assert sure == [True, True, True]
    assert link.values == pytest.approx(LINK, rel=0.01)


def test_short_messages_say_nothing_of_rates():
    link, sure = told(problem(moved((0.06, 1e9, 1e9), [100, 300, 900])))
    assert sure == [True, False, False]
    assert link.values[RTT] == pytest.approx(0.06, rel=0.01)


def test_a_known_round_trip_makes_one_size_enough():
    fixed = np.array([LINK[RTT], np.nan, np.nan])
    given_ = problem(moved(LINK, [100_000]))
    link = fit.solve(given_, fixed)
    assert link.values == pytest.approx(LINK, rel=1e-4)
    assert fit.is_identifiable(given_, link, fixed, UP)


def test_a_direction_without_messages_stays_unknown():
    link = fit.solve(problem(moved(LINK, SEVERAL, ways=[True])), FREE)
    assert link.values[:2] == pytest.approx(LINK[:2], rel=1e-3)
    assert np.isnan(link.values[DOWN])


def test_a_value_moves_as_far_as_the_messages_allow():
    given_ = problem(moved((0.06, 1e9, 5e6), [100, 900, 500_000]))
    link = fit.solve(given_, FREE)
    moved_on = fit.nearest(given_, link, FREE, UP, 1e3)
    assert 1e3 < moved_on.values[UP] < link.values[UP]
    logs = np.log(moved_on.values)
    assert given_.error(logs) <= fit.SLACK * 1.01
    logs[UP] -= 0.5
    assert given_.error(logs) > fit.SLACK
    assert fit.nearest(given_, link, FREE, UP, 8e8).values[UP] == pytest.approx(8e8)


def test_messages_that_did_not_arrive_or_were_held_up_are_not_fitted():
    messages = moved(LINK, SEVERAL)
    broken = np.arange(len(messages)) % 5 == 0
    wrong = with_seconds(messages, np.where(broken, 77.0, messages.seconds))
    assert fit.solve(problem(replace(wrong, whole=~broken)), FREE).values == pytest.approx(LINK, rel=1e-3)
    assert fit.solve(fit.problem(FRESH, wrong, broken), FREE).values == pytest.approx(LINK, rel=1e-3)
    assert fit.problem(FRESH, wrong, np.ones(len(wrong), dtype=bool)) is None

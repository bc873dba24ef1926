"""Nightly absences match the measured ones, in any order of queries, by local time, with and without groups.

Churn uses the same groups.
"""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.errors import UserError
from fedsim.net.effect import Traits, unknown
from fedsim.net.effects.churn import Churn
from fedsim.net.effects.nights import Nights
from fedsim.net.measurements import days, measured
from fedsim.net.presence.offline_intervals import MeasuredIntervals

DAY, HOUR = 86_400.0, 3600.0


def states(plan, times):
    """Who is online at these ascending times, (times, K), as its absences say."""
    away, found = plan.inside.copy(), []
    for time in times:
        for _, who, steps in plan.passed(time):
            odd = np.bincount(who, minlength=len(away)) % 2 == 1
            assert set(steps.tolist()) <= {-1, 1}
            away ^= odd
        found.append(~away)
    return np.array(found)


def people(labels):
    """Clients that each hold ten examples of one label, in no country."""
    return Traits(np.full(len(labels), ""), lambda: 10 * np.eye(4, dtype=np.int64)[labels])


def test_the_share_of_time_is_the_measured_one_hour_by_hour_and_a_third_never_comes():
    """8.4 % of 440 phones' time, and the share of each hour, from 10,000 clients over four days (5 sigma)."""
    table = days.measured()
    there = np.zeros((days.PHONES, 144))
    for day, (first, begin, end) in enumerate(zip(table.first, table.starts, table.starts[1:], strict=False)):
        edges = np.append(table.changes[begin:end], DAY) / 1800
        state, at = first, 0
        for edge in edges.astype(int):
            there[day // 3, 48 * (day % 3) + at : 48 * (day % 3) + edge] = state
            state, at = not state, edge
    shares = there.mean(axis=1)
    assert shares.mean() == pytest.approx(0.08445, abs=1e-5)
    assert (shares == 0).sum() == 146
    times = np.arange(0.25, 96, 0.5) * HOUR
    seen = states(Nights().absences(0.0, unknown(10_000), 1, 2), times)
    own = seen.mean(axis=0)
    assert own.mean() == pytest.approx(shares.mean(), abs=5 * own.std() / 100)
    assert (own == 0).mean() >= 146 / 440 - 5 * np.sqrt(0.22 / 10_000)
    by_hour = seen.mean(axis=1).reshape(4, 48).mean(axis=0)
    expected = np.roll(there.mean(axis=0).reshape(3, 48).mean(axis=0), 30)  # days begin at 15 h
    earlier = (expected + np.roll(expected, -1)) / 2  # by a quarter of an hour on average
    assert np.abs(by_hour - earlier).max() < 5 * np.sqrt(0.1 / 10_000)
    assert by_hour[6:9].mean() > 2 * by_hour[26:30].mean()  # at four in the night, in the early afternoon


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**62), st.floats(0, 20 * DAY), st.booleans())
def test_spells_are_ordered_and_disjoint_and_follow_one_phone(count, seed, start, never):
    plan = Nights(start=start % DAY, never=never).absences(start, unknown(count), seed, seed + 1)
    parts = plan.passed(start + 8 * DAY)
    if parts:
        times, who, steps = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        assert (np.diff(times) >= 0).all()
        assert times.min() > start
        for client in range(count):
            own = steps[who == client]
            assert (np.diff(times[who == client]) > 0).all()
            assert (own[1:] == -own[:-1]).all()
            assert not len(own) or own[0] == (-1 if plan.inside[client] else 1)
    assert (plan.until > start + 8 * DAY).all()
    assert never or np.isfinite(plan.until).all()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.floats(0, 6 * DAY), max_size=20), st.integers(1, 100))
def test_neither_looks_nor_other_clients_change_anybodys_times(looks, count):
    times = np.sort([*looks, 6 * DAY])
    often = states(Nights().absences(0.0, unknown(count), 3, 4), times)
    once = states(Nights().absences(0.0, unknown(count + 40), 3, 4), times[-1:])
    np.testing.assert_array_equal(often[-1:], once[:, :count])


def test_each_day_is_one_of_the_phones_own():
    """Of a phone that comes on one day of three from 16 to 17 h: one stretch on a third of the days, and whole."""
    table = days.Days(np.array([False] * 3), np.array([0, 2, 2, 2]), np.array([HOUR, 2 * HOUR]), np.array([0]))
    zeros = np.zeros(400, dtype=np.int64)
    plan = MeasuredIntervals(0.0, table, zeros, np.arange(400), zeros + 0.0, 5)
    times, who, steps = (np.concatenate(columns) for columns in zip(*plan.passed(30 * DAY), strict=True))
    placed = np.lexsort((times, who))
    on, off = times[placed][steps[placed] == -1], times[placed][steps[placed] == 1]
    assert off - on == pytest.approx(np.full(len(on), HOUR))
    assert len(on) == pytest.approx(400 * 10, abs=5 * np.sqrt(400 * 30 * 2 / 9))
    assert 15.5 * HOUR <= (on % DAY).min() < (on % DAY).max() <= 16 * HOUR  # half an hour earlier at most


def test_nights_come_by_local_time():
    """India is 5.5 hours ahead of Britain and 10.5 of New York: the same phones, as much earlier."""
    times = np.arange(12, 60, 0.5) * HOUR
    seen = {
        code: states(Nights().absences(0.0, Traits(np.full(3000, code)), 1, 2), times) for code in ("GB", "IN", "US")
    }
    curves = {code: each.mean(axis=1) for code, each in seen.items()}
    for code, hours in (("IN", 5.5), ("US", -5.0)):
        lags = np.arange(-20, 21)
        fits = [np.corrcoef(np.roll(curves["GB"], -lag)[21:-21], curves[code][21:-21])[0, 1] for lag in lags]
        assert lags[np.argmax(fits)] / 2 == pytest.approx(hours, abs=1)
    later = states(Nights(start=5.5 * HOUR).absences(0.0, Traits(np.full(300, "GB")), 1, 2), times)
    np.testing.assert_array_equal(later, states(Nights().absences(0.0, Traits(np.full(300, "IN")), 1, 2), times))


def test_there_is_a_clock_for_every_country_with_links():
    assert set(days.ahead()) == set(measured.countries())
    assert [days.ahead()[code] / HOUR for code in ("US", "IN", "NP", "DE")] == [-5, 5.5, 5.75, 1]


LABELS = np.arange(400) % 4
HOURS = np.arange(0.5, 72, 0.5) * HOUR


def test_at_strength_0_clients_are_independent_and_at_1_groups_coincide():
    alone, loose, tied = (
        states(nights.absences(0.0, people(LABELS), 1, 2), HOURS)
        for nights in (
            Nights(never=False),
            Nights(never=False, groups="labels", strength=0.0),
            Nights(never=False, groups="labels"),
        )
    )
    np.testing.assert_array_equal(loose, alone)
    groups = [tied[:, label == LABELS] for label in range(4)]
    assert all((own == own[:, :1]).all() and own.any() for own in groups)
    assert len(np.unique([own[:, 0] for own in groups], axis=0)) == 4


def test_clients_of_one_label_are_awake_at_the_same_times_wherever_they_live():
    countries = Traits(np.array(["IN", "US", "GB", ""] * 100), people(np.zeros(400, int)).held)
    seen = states(Nights(never=False, groups="labels").absences(0.0, countries, 1, 2), HOURS)
    assert (seen == seen[:, :1]).all()
    assert seen.any()


def test_who_follows_at_a_low_strength_does_so_at_a_higher_one_and_the_others_keep_their_times():
    plans = [
        states(Nights(groups="labels", strength=strength, never=False).absences(0.0, people(LABELS), 1, 2), HOURS)
        for strength in (0.0, 0.3, 0.6, 1.0)
    ]
    follows = [(plan == plans[-1]).all(axis=0) for plan in plans]
    assert [each.mean() for each in follows] == pytest.approx([0, 0.3, 0.6, 1], abs=5 * 0.5 / 20)
    for less, more in pairwise(follows):
        assert not (less & ~more).any()
    for plan, each in zip(plans, follows, strict=True):
        np.testing.assert_array_equal(plan[:, ~each], plans[0][:, ~each])


def test_tied_or_not_a_client_is_available_as_long():
    """Over 1,000 groups of three clients each (5 sigma); only the mean of a group varies more."""
    labels = np.repeat(np.arange(1000), 3)
    traits = Traits(np.full(3000, ""), lambda: np.eye(1000, dtype=np.int64)[labels])
    spread = []
    for strength in (0.0, 1.0):
        plan = Nights(groups="labels", strength=strength).absences(0.0, traits, 1, 2)
        groups = states(plan, HOURS).mean(axis=0).reshape(-1, 3).mean(axis=1)
        assert groups.mean() == pytest.approx(0.0845, abs=5 * groups.std() / np.sqrt(1000))
        spread.append(groups.std())
    assert spread[1] == pytest.approx(np.sqrt(3) * spread[0], rel=0.15)


def churned(labels, strength, seed=3):
    """Who is online over 2,000 times that are far apart, by a churn of three tenths of the time."""
    plans, env = [], simpy.Environment()
    nodes = type("Nodes", (list,), {"presence": SimpleNamespace(follow=lambda _, plan: plans.append(plan))})(labels)
    churn = Churn(online=3.0, offline=7.0, groups="labels", strength=strength)
    network = SimpleNamespace(nodes=nodes, traits=people(labels))
    env.process(churn.drive(env, network, np.random.default_rng(seed)))
    env.run(until=1.0)
    return states(plans[0], np.arange(1, 2001) * 50.0)


def test_churn_of_groups_ties_those_of_one_label_and_leaves_each_its_share_of_time():
    labels = np.tile(np.arange(4), 10)
    loose, half, tied = (churned(labels, strength) for strength in (0.0, 0.5, 1.0))
    for seen in (loose, half, tied):
        assert seen.mean(axis=0) == pytest.approx(np.full(40, 0.3), abs=5 * np.sqrt(0.21 / 2000))
    assert all((tied[:, labels == label] == tied[:, [label]]).all() for label in range(4))
    assert len(np.unique(tied[:, :4], axis=1).T) == 4
    assert len(np.unique(loose, axis=1).T) == 40
    assert 4 < len(np.unique(half, axis=1).T) < 40


def test_churn_of_a_table_has_no_groups(tmp_path):
    (tmp_path / "online.csv").write_text("client,on_s,off_s\n0,1,2\n")
    with pytest.raises(ValueError, match="leave means and 'groups' out"):
        Churn(table=tmp_path / "online.csv", groups="labels")


def test_a_country_is_awake_together_in_its_own_night():
    traits = Traits(np.array(["IN", "US", "IN", "US", ""] * 20))
    seen = states(Nights(groups="country", never=False).absences(0.0, traits, 1, 2), HOURS)
    for code in ("IN", "US"):
        own = seen[:, traits.country == code]
        assert (own == own[:, :1]).all()
        assert own.any()
    assert len(np.unique(seen[:, traits.country == ""], axis=1).T) > 10


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strength": 0.5}, "option 'strength' is about groups; give 'groups: labels' or 'groups: country'"),
        ({"groups": "country", "classes": (1,)}, "'classes' needs 'groups: labels'"),
        ({"groups": "labels", "classes": ()}, "list classes, which count from 0"),
        ({"groups": "labels", "holding": 0.2}, "give 'classes'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        Nights(**options)


def test_groups_of_classes_are_those_who_hold_mostly_these():
    held = np.array([[8, 2, 0], [2, 8, 0], [5, 0, 5], [0, 0, 0]])
    traits = Traits(np.full(4, ""), lambda: held)
    assert Nights(groups="labels").members(traits).tolist() == [0, 1, 0, -1]
    assert Nights(groups="labels", classes=(1, 2)).members(traits).tolist() == [-1, 0, 0, -1]
    assert Nights(groups="labels", classes=(2,), holding=0.6).check_groups(traits) is None
    for options, words in (
        (
            {"classes": (2,), "holding": 0.6},
            r"no client has 60 % of its training nodes of the classes .2.; take a lower",
        ),
        ({"classes": (3,)}, "there is no class 3 in 'classes'; they go from 0 to 2"),
    ):
        with pytest.raises(UserError, match=words):
            Nights(groups="labels", **options).members(traits)
    with pytest.raises(UserError, match="these data have none; take 'groups: country'"):
        Nights(groups="labels").members(Traits(np.full(4, ""), lambda: 0 * held))
    with pytest.raises(UserError, match=r"needs the clients' countries; give network\.profile"):
        Nights(groups="country").check_groups(traits)

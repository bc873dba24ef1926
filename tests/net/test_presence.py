"""Presence: read late or notified at the moment, the times are the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from netlab import CountingEnvironment, down, world

from fedsim.net.effects.churn import Churn
from fedsim.net.presence.offline_intervals import ExponentialIntervals
from fedsim.net.presence.presence import Presence

COUNT = 40


def presence(plans=((8.0, 4.0),), count=COUNT, notified=None):
    env, found = CountingEnvironment(), []
    moves = found if notified is None else notified
    here = Presence(count, lambda client, online: moves.append((env.now, client, online)))
    here.start(env)
    for seed, (between, spell) in enumerate(plans):
        here.follow(env, ExponentialIntervals(env.now, np.arange(count), between, spell, np.random.default_rng(seed)))
    return env, here, moves


def look(env, here, times):
    for time in times:
        env.run(until=time)
        here.online()


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.01, 59.0), max_size=20, unique=True),
    st.lists(st.tuples(st.floats(0.01, 60.0), st.integers(0, COUNT - 1), st.integers(0, 30)), max_size=8),
    st.sampled_from([((8.0, 4.0),), ((8.0, 4.0), (2.0, 0.5))]),
)
def test_looking_late_and_being_notified_all_at_once_agree(looks, naps, plans):
    """With one plan and with two, and clients that another cause keeps asleep for a while."""

    def run(often):
        env, here, moves = presence(plans)
        for start, client, length in naps:
            env.timeout(start).callbacks.append(lambda _, client=client: here.keep(client, asleep=True))
            env.timeout(start + length).callbacks.append(lambda _, client=client: here.keep(client, asleep=False))
        if often:
            here.notify_all()
        look(env, here, [60.0] if often else [*sorted(looks), 60.0])
        return here, moves

    late, _ = run(often=False)
    once, moves = run(often=True)
    for one, other in zip(late.stretches(), once.stretches(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(late.share(), once.share())
    np.testing.assert_array_equal(late.online(), once.online())
    clients, _, ends = once.stretches()
    over = ends < 60.0
    came = [(client, time) for time, client, online in moves if online]
    assert sorted(came) == sorted(zip(clients[over].tolist(), ends[over].tolist(), strict=True))


def test_stretches_and_shares_tell_the_same_time():
    env, here, _ = presence()
    look(env, here, [500.0])
    clients, starts, ends = here.stretches()
    away = np.bincount(clients, ends - starts, minlength=COUNT)
    np.testing.assert_allclose(here.share(), 1 - away / 500.0, rtol=1e-12)
    assert (starts < ends).all()
    assert (np.diff(ends) >= 0).all()
    assert here.share().mean() == pytest.approx(2 / 3, abs=0.05)


def test_a_client_that_is_attended_to_is_notified_at_its_moment_and_no_other_is():
    env, here, moves = presence()
    env.timeout(25.0).callbacks.append(lambda _: here.attend(3))
    env.timeout(25.0).callbacks.append(lambda _: here.attend(4))
    env.timeout(60.0).callbacks.append(lambda _: here.dismiss(4))
    look(env, here, [100.0])
    clock, notified_of_all, heard = presence()
    notified_of_all.notify_all()
    look(clock, notified_of_all, [100.0])
    assert moves == [move for move in heard if (move[1] == 3 and move[0] > 25) or (move[1] == 4 and 25 < move[0] < 60)]
    assert len(moves) > 10


def test_who_is_attended_to_again_is_notified_again():
    env, here, moves = presence(count=1)
    for start in range(0, 100, 10):
        env.timeout(start).callbacks.append(lambda _: here.attend(0))
        env.timeout(start + 5).callbacks.append(lambda _: here.dismiss(0))
    env.run(until=100.0)
    _, starts, ends = here.stretches()
    times = {time for pair in zip(starts, ends, strict=True) for time in pair if 0 < time < 100 and time % 10 < 5}
    assert {time for time, _, _ in moves} == times
    assert len(times) > 3


def test_waiting_for_anybody_ends_at_the_moment_at_which_the_first_one_comes():
    env, here, _ = presence(count=5, plans=((0.1, 100.0),))
    came = []
    here.came = lambda: came.append(env.now)
    here.expect()
    env.run(until=1000.0)
    _, _, ends = here.stretches()
    assert came[0] == ends[0] < 1000.0


def test_idle_clients_schedule_nothing():
    env, here, _ = presence(count=1000)
    env.run(until=1000.0)
    idle = CountingEnvironment()
    idle.run(until=1000.0)
    assert env.scheduled == idle.scheduled
    assert len(here.stretches()[0]) > 50_000


def test_a_look_at_one_client_is_as_good_as_one_at_all():
    env, here, _ = presence()
    clock, other, _ = presence()
    for time in np.arange(0.5, 40.0, 0.5):
        env.run(until=time)
        clock.run(until=time)
        assert [other.is_online(client) for client in range(COUNT)] == here.online().tolist()


def test_without_a_clock_it_is_always_the_beginning():
    here = Presence(2, lambda client, online: None)
    here.keep(1, asleep=True)
    assert here.online().tolist() == [True, False]
    assert here.share().tolist() == [1.0, 1.0]


def test_a_plan_that_begins_late_starts_then():
    env, here, _ = presence(plans=())
    env.run(until=50.0)
    here.attend(0)
    here.follow(env, ExponentialIntervals(env.now, np.arange(COUNT), 1.0, 1.0, np.random.default_rng(0)))
    env.run(until=100.0)
    assert here.stretches()[1].min() == 50.0
    assert here.share().mean() == pytest.approx(0.75, abs=0.05)


def test_churn_cuts_at_the_moment_and_not_when_somebody_looks():
    """The network attends to clients that send or receive, so that the row has the client's own second."""
    here = world(clients=30, effects=[Churn(online=20.0, offline=20.0)])
    there = np.flatnonzero(here.nodes.online).tolist()
    for client in there:
        here.network.send(down(client, 10**9))
    here.env.run(until=500.0)
    clients, starts, _ = here.nodes.presence.stretches()
    first = {client: min(starts[clients == client]) for client in there}
    assert {row.dst: row.arrived for row in here.rows} == first
    assert all(row.fate in ("cut", "lost") for row in here.rows)

"""An alarm rings once, at the earliest time set, and never after it."""

import math

import pytest
import simpy
from hypothesis import given
from hypothesis import strategies as st

from fedsim.net.presence.agenda import Agenda


def alarm_of(env, call):
    """An alarm on this clock, without clients."""
    agenda = Agenda(0, call)
    agenda.start(env)
    return agenda


MOMENTS = st.floats(0, 1e6, allow_subnormal=False)


@given(st.floats(0, 1e6), st.lists(MOMENTS, min_size=1, max_size=6))
def test_it_rings_at_the_earliest_time_and_never_late(now, times):
    env, rang = simpy.Environment(now), []
    alarm = alarm_of(env, lambda: rang.append(env.now))
    for time in times:
        alarm.set(now + time)
    env.run()
    assert len(rang) == 1
    assert rang[0] <= now + min(times)
    assert rang[0] == pytest.approx(now + min(times), rel=1e-12)


def test_it_rings_again_only_when_it_is_set_again():
    env, rang = simpy.Environment(), []
    alarm = alarm_of(env, lambda: (rang.append(env.now), alarm.set(3.0 if len(rang) == 1 else math.inf)))
    alarm.set(2.0)
    alarm.set(1.0)
    alarm.set(math.inf)
    env.run()
    assert rang == [1.0, 3.0]


def test_a_time_that_has_passed_rings_at_once():
    env, rang = simpy.Environment(5.0), []
    alarm_of(env, lambda: rang.append(env.now)).set(2.0)
    env.run()
    assert rang == [5.0]

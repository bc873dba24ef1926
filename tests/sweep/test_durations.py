"""The longest point first: predicted from counts of the scenario, and from points alike that have ended."""

import math
from dataclasses import dataclass, replace

import pytest
import small_points

from fedsim.sweep.engines.durations import Durations, work_of
from fedsim.sweep.engines.queue import Queue


@dataclass(frozen=True)
class Ended:
    row: dict


def point(id, learning_key="", **changes):
    return replace(small_points.point(**changes), id=id, learning_key=learning_key)


def protocol(**options):
    return {"name": "sync", **options}


@pytest.mark.parametrize(
    ("options", "asked"),
    [({"participation": 0.5}, 0.5), ({"participation": "50 %"}, 0.5), ({"clients": 2}, None), ({}, 1.0)],
)
def test_work_is_rounds_times_clients_asked_times_local_steps(options, asked):
    given = point("a", protocol=protocol(rounds=7, **options), training__local_steps=3)
    clients = 2 if asked is None else given.scenario.clients.count * asked
    assert work_of(given.scenario) == 7 * clients * 3


def test_kinds_that_nobody_has_measured_come_first_then_the_longest():
    durations, one = Durations(), point("a", protocol=protocol(rounds=10, participation=1.0))
    other = point("b", protocol=protocol(rounds=20, participation=1.0))
    assert durations.rank(one, False)[0] == math.inf
    durations.ended(one, {"real_seconds": 5.0, "followed": ""})
    assert durations.rank(other, False)[0] == pytest.approx(10.0)
    assert durations.rank(other, True)[0] == math.inf  # following is another kind of work
    durations.ended(one, {"real_seconds": 1.0, "followed": "c"})
    assert durations.rank(other, True)[0] == pytest.approx(2.0)
    for nothing in (None, {}, {"real_seconds": 0.0}):
        durations.ended(one, nothing)
    assert durations.rank(one, False)[0] == pytest.approx(5.0)


def test_the_queue_hands_out_the_longest_and_learns_from_those_that_end():
    quick = [point(f"q{rounds}", protocol=protocol(rounds=rounds, participation=1.0)) for rounds in (8, 9)]
    slow = [
        point(f"s{rounds}", algorithm={"name": "fedprox"}, protocol=protocol(rounds=rounds, participation=1.0))
        for rounds in (3, 4, 5)
    ]
    queue = Queue([*quick, *slow])
    first = queue.next()  # nothing is known: most work first
    assert first.id == "q9"
    queue.ended(first, Ended({"real_seconds": 1.0, "followed": ""}))
    second = queue.next()  # a kind that is not known yet
    assert second.id == "s5"
    queue.ended(second, Ended({"real_seconds": 50.0, "followed": ""}))
    assert [queue.next().id for _ in range(3)] == ["s4", "s3", "q8"]


def test_leaders_come_before_followers_however_short_they_are():
    long = [point(f"l{n}", learning_key="l", protocol=protocol(rounds=90, participation=1.0)) for n in range(2)]
    queue = Queue([*long, point("s", learning_key="s", protocol=protocol(rounds=1, participation=1.0))])
    first = queue.next()
    assert first.id == "l0"
    queue.ended(first, None)
    assert [queue.next().id, queue.next().id] == ["s", "l1"]

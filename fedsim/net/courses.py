"""Courses: rates that are known beforehand to change at certain times, and who follows one and how far it has come.

Where a rate stands follows from the time alone, so that whoever follows a course can skip any number of its changes at
once.  Seconds are added up as a clock that stepped from change to change would add them, so that both agree to the
last bit.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Course:
    """`rates` (bit/s), each from its time on (s after the beginning, increasing) until the next.

    After `period` seconds the course starts over; infinity: its last rate holds for good.
    """

    times: Sequence[float]
    rates: Sequence[float]
    period: float = math.inf


class Follower:
    """Somebody's place on a course that began at second `start`: the rate that holds now, `since` when, until when.

    `up` and `down` tell which of a client's directions go by it.
    """

    __slots__ = ("_course", "_place", "_start", "down", "next", "since", "up")

    def __init__(self, course: Course, start: float, now: float, *, up: bool, down: bool) -> None:
        """Stand where the course has come to by now, or before its first rate."""
        self._course, self._start, self._place = course, start, -1
        self.up, self.down = up, down
        self.since, self.next = -math.inf, start + course.times[0]
        self.skip(now)

    @property
    def rate(self) -> float:
        """The rate that holds from `since` to `next`; only where the course has begun."""
        return self._course.rates[self._place]

    @property
    def begun(self) -> bool:
        """Whether its first rate has come."""
        return self._place >= 0

    def skip(self, now: float) -> bool:
        """Go to the rate that holds now; return whether that is another than before."""
        if self.next > now:
            return False
        course, times = self._course, self._course.times
        while (over := self._start + course.period) <= now and len(times) > 1:
            self._start, self._place = over, 0
        place = max(self._place, bisect_right(times, now - self._start) - 1, 0)
        while place > self._place + 1 and self._start + times[place] > now:  # rounding: what counts is the sum
            place -= 1
        while place + 1 < len(times) and self._start + times[place + 1] <= now:
            place += 1
        self._place, self.since = place, self._start + times[place]
        if place + 1 < len(times):
            self.next = self._start + times[place + 1]
        else:
            self.next = self._start + course.period if len(times) > 1 else math.inf
        return True

"""Courses: access rates that change at known times, and each follower's place on its course.

The current rate follows from the time alone, so a follower can skip any number of changes at once.  Times are added up
as a clock that steps from change to change would add them, so that both agree to the last bit.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

MANY = 1e5  # rounds of a course that are added up one by one; more are skipped at once, up to rounding


@dataclass(frozen=True, eq=False)
class Course:
    """`rates` (bit/s), each from its time (s after the start, increasing) until the next.

    After `period` seconds the course starts over; if infinite, the last rate holds for good.
    """

    times: Sequence[float]
    rates: Sequence[float]
    period: float = math.inf


class Follower:
    """A place on a course that began at second `start`: the present rate, `since` when, and until when (`next`).

    `up` and `down` are the directions of the client that follow the course.
    """

    __slots__ = ("_course", "_place", "_start", "down", "next", "since", "up")

    def __init__(self, course: Course, start: float, now: float, *, up: bool, down: bool) -> None:
        """Start at the present place of the course, or before its first rate."""
        self._course, self._start, self._place = course, start, -1
        self.up, self.down = up, down
        self.since, self.next = -math.inf, start + course.times[0]
        self.skip(now)

    @property
    def rate(self) -> float:
        """The rate from `since` to `next`; only valid once the course has begun."""
        return self._course.rates[self._place]

    @property
    def begun(self) -> bool:
        """Whether the course has reached its first rate."""
        return self._place >= 0

    def skip(self, now: float) -> bool:
        """Advance to the present rate; return whether there was a change."""
        if self.next > now:
            return False
        course, times = self._course, self._course.times
        if len(times) > 1 and (rounds := (now - self._start) / course.period) > MANY:  # not to count for hours
            self._start, self._place = self._start + (math.floor(rounds) - 1) * course.period, 0
        while (over := self._start + course.period) <= now and len(times) > 1:
            self._start, self._place = over, 0
        place = max(self._place, bisect_right(times, now - self._start) - 1, 0)
        while place > self._place + 1 and self._start + times[place] > now:  # rounding: the sum decides
            place -= 1
        while place + 1 < len(times) and self._start + times[place + 1] <= now:
            place += 1
        self._place, self.since = place, self._start + times[place]
        if place + 1 < len(times):
            self.next = self._start + times[place + 1]
        else:
            self.next = self._start + course.period if len(times) > 1 else math.inf
        return True

"""The queue of points that wait for a worker, and the retry of those whose worker has died.

A worker may die because of other load on the machine, so its point is tried once more, after all others; a point that
has lost two workers is taken to be the cause.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsim.scenario.schema import Point

TRIES = 2


@dataclass(frozen=True)
class Died:
    """The result of a point whose worker died before the point ended."""

    reason: str


class Queue:
    """Waiting points, in order, and how often each was tried."""

    def __init__(self, points: Sequence[Point]) -> None:
        """Enqueue all points."""
        self._waiting = deque(points)
        self._tried: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Return whether any point waits."""
        return bool(self._waiting)

    def next(self) -> Point:
        """Remove and return the first waiting point, and count one more try of it."""
        point = self._waiting.popleft()
        self._tried[point.id] += 1
        return point

    def ended(self, point: Point, result: Any) -> list[tuple[Point, Any]]:
        """Return the point with its result; return nothing if its worker died and it is queued again."""
        if not isinstance(result, Died):
            return [(point, result)]
        if self._tried[point.id] < TRIES:
            self._waiting.append(point)
            return []
        return [(point, Died(f"tried {TRIES} times: {result.reason}"))]

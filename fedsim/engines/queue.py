"""The points that wait for a worker, and what becomes of those whose worker has died.

A worker may die of what else the machine does, so its point is tried once more, after all others; a point that has
cost two workers is taken to be the reason itself.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsim.scenario import Point

TRIES = 2


@dataclass(frozen=True)
class Died:
    """What comes of a point whose worker ended before the point did."""

    reason: str


class Queue:
    """Points that wait, in order, and how often each was tried."""

    def __init__(self, points: Sequence[Point]) -> None:
        """Let all of them wait."""
        self._waiting = deque(points)
        self._tried: Counter[str] = Counter()

    def __bool__(self) -> bool:
        """Return whether any point waits."""
        return bool(self._waiting)

    def next(self) -> Point:
        """Take the first of those that wait; one more try of it has begun."""
        point = self._waiting.popleft()
        self._tried[point.id] += 1
        return point

    def ended(self, point: Point, result: Any) -> list[tuple[Point, Any]]:
        """Return the point with what came of it, or nothing where its worker has died and it waits again."""
        if not isinstance(result, Died):
            return [(point, result)]
        if self._tried[point.id] < TRIES:
            self._waiting.append(point)
            return []
        return [(point, Died(f"tried {TRIES} times: {result.reason}"))]

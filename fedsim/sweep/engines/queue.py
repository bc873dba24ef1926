"""The queue of points that wait for a worker, and the retry of those whose worker has died.

Points with the same root learn from the same (`point/following.py`): one runs alone, and when it has ended the others
may follow its record.  Waiting points without a root, or of another one, go first meanwhile.  Of those that can run,
the one that is predicted to take longest is next (`durations.py`).

A worker may die because of other load on the machine, so its point is tried once more, after all others; a point that
has lost two workers is taken to be the cause.
"""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fedsim.core.progress import Progress
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.durations import Durations

TRIES = 2


@dataclass(frozen=True)
class Died:
    """The result of a point whose worker died before the point ended."""

    reason: str

    def again(self) -> Progress:
        """Return the progress of its point, which waits to be tried once more, with what to tell."""
        return Progress(0.0, 0.0, None, 0, f"{self.reason}; it is tried once more, after all others")


class Queue:
    """Waiting points, and how often each was tried."""

    def __init__(self, points: Sequence[Point]) -> None:
        """Enqueue all points."""
        self._waiting = deque(points)
        self._tried: Counter[str] = Counter()
        self._leading: dict[str, str] = {}  # the running point of each root of which none has ended
        self._led: set[str] = set()  # roots of which a point has ended
        self._durations = Durations()

    def __bool__(self) -> bool:
        """Return whether any point waits."""
        return bool(self._waiting)

    @property
    def ready(self) -> bool:
        """Whether any point waits that can run now."""
        return any(self._is_ready(point) for point in self._waiting)

    def next(self) -> Point:
        """Remove and return the longest point that can run now, and count one more try of it.

        Those that died before come after all others, then followers; points that are as long keep their order.
        """
        point = min((point for point in self._waiting if self._is_ready(point)), key=self._rank)
        self._waiting.remove(point)
        self._tried[point.id] += 1
        if point.root and point.root not in self._led:
            self._leading[point.root] = point.id
        return point

    def ended(self, point: Point, result: Any) -> list[tuple[Point, Any]]:
        """Return the point with its result; return nothing if its worker died and it is queued again."""
        if self._leading.get(point.root) == point.id:
            del self._leading[point.root]
        if not isinstance(result, Died):
            self._led.add(point.root)
            self._durations.ended(point, getattr(result, "row", None))
            return [(point, result)]
        if self._tried[point.id] < TRIES:
            self._waiting.append(point)
            return []
        return [(point, Died(f"tried {TRIES} times: {result.reason}"))]

    def _rank(self, point: Point) -> tuple[int, bool, float, float]:
        follows = bool(point.root) and point.root in self._led
        seconds, work = self._durations.rank(point, follows)
        return self._tried[point.id], follows, -seconds, -work

    def _is_ready(self, point: Point) -> bool:
        return point.root not in self._leading

"""The queue of points that wait for a worker, and the retry of those whose worker has died.

Points with the same learning key learn the same (`point/resume/following.py`): one runs alone, and when it has ended
the others may reuse its record.  Waiting points without a key, or of another one, go first meanwhile.  Of those that
can run, the one that is predicted to take longest is next (`durations.py`).

A worker may die because of other load on the machine, so its point is tried once more, after all others; a point that
has lost two workers is taken to be the cause.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fedsim.core.progress import BEGUN, Progress, ReportProgress
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.durations import Durations

PointJob = Callable[[Point, ReportProgress], Any]  # module-level, or a partial of such: it travels to the workers
TRIES = 2


@dataclass(frozen=True)
class Died:
    """The result of a point whose worker died before the point ended."""

    reason: str


class Queue:
    """Waiting points, and how often each was tried."""

    def __init__(self, points: Sequence[Point], report: Callable[[Point, Progress], None] | None = None) -> None:
        """Enqueue all points; `report` receives which are tried once more, and why."""
        self._waiting, self._report = deque(points), report
        self._tried: Counter[str] = Counter()
        self._leading: dict[str, str] = {}  # the running point of each key of which none has ended
        self._led: set[str] = set()  # keys of which a point has ended
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
        if point.learning_key and point.learning_key not in self._led:
            self._leading[point.learning_key] = point.id
        return point

    def ended(self, point: Point, result: Any) -> list[tuple[Point, Any]]:
        """Return the point with its result; return nothing if its worker died and it is queued again."""
        if self._leading.get(point.learning_key) == point.id:
            del self._leading[point.learning_key]
        if not isinstance(result, Died):
            self._led.add(point.learning_key)
            self._durations.ended(point, getattr(result, "row", None))
            return [(point, result)]
        if self._tried[point.id] < TRIES:
            self._waiting.append(point)
            if self._report:
                self._report(point, replace(BEGUN, doing=f"{result.reason}; it is tried once more, after all others"))
            return []
        return [(point, Died(f"tried {TRIES} times: {result.reason}"))]

    def _rank(self, point: Point) -> tuple[int, bool, float, float]:
        follows = bool(point.learning_key) and point.learning_key in self._led
        seconds, work = self._durations.rank(point, follows)
        return self._tried[point.id], follows, -seconds, -work

    def _is_ready(self, point: Point) -> bool:
        return point.learning_key not in self._leading

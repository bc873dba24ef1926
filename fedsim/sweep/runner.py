"""Run the unfinished points of a sweep, keeping the folder of results consistent at all times.

A point is run in `.partial-<id>` and renamed when it is done, with its row beside its tables; `summary.csv` is
rewritten from those rows after each point.  So a finished point is a folder named by its id that holds all its files,
and after any interruption the same call continues; an unfinished point resumes from its checkpoint, if there is one
(`point/checkpoint.py`).  A point whose sources have changed runs again (`point/stale.py`), and its old results are
replaced when the new ones are complete.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import Unwritable, replace, reported, write_table
from fedsim.point import check, costing, imports, provenance, stale, stamp
from fedsim.point.attempt import Outcome, Row, Run, attempt
from fedsim.point.folders import PARTIAL, clear, clear_partial, finished, folders, settle
from fedsim.point.following import root_of
from fedsim.point.lock import locked
from fedsim.scenario.schema import Point

RESULTS = [
    "method", "metric", "score", "periods", "am", "la", "fm", "prequential", "sim_seconds", "bytes_up", "bytes_down",
    "bytes_peer", "bytes_wasted", "updates", "updates_per_period", "staleness", "wanted", "asked", "folded", "lost",
    "late", "refused", "worst_decile", "score_jain", "took_part", "upload_jain", "classes_covered", "chance",
    "client_seconds", "server_seconds", "epsilon", "bytes_masking", "target", "target_on",
    "seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first",
    "arrivals", "recovery_seconds", "recovery_at_first", "never_recovered", "real_seconds", "followed",
]  # fmt: skip


class Engine(Protocol):
    """Where points run."""

    def work(
        self, points: Sequence[Point], job: Callable[[Point, Callable[[Progress], None]], Any],
        report: Callable[[Point, Progress], None],
    ) -> Generator[tuple[Point, Any], None, None]:  # fmt: skip
        """Yield each point with what the job returned, or with an object that has a `reason` if its worker died."""


class Watcher(Protocol):
    """Callbacks of a sweep, for whatever shows its progress."""

    def begin(self, points: int, finished: int) -> None:
        """Receive the number of points, and how many were finished before."""

    def progressed(self, point: Point, progress: Progress) -> None:
        """Receive the progress of a running point."""

    def ended(self, point: Point, row: Row, message: str) -> None:
        """Receive the row of a point that has ended; `message` is empty unless it failed."""

    def note(self, text: str) -> None:
        """Receive a line of text to show."""


@dataclass(frozen=True)
class Sweep:
    """The points of a scenario, its text, the folder for results and that of the data."""

    points: list[Point]
    given: str
    out: Path
    data: Path
    following: bool = True  # whether points may take what was learned from the records of others
    plugins: bool = True  # whether the working folder is trusted

    def run(self, run: Run, engine: Engine, watcher: Watcher, fresh: bool = False) -> list[Row]:
        """Run the unfinished points and return every point's row, in the grid's order.

        Raises UserError if the folder cannot be used, or if a point shows a mistake of the user before any has
        finished; then what this call has written is removed.
        """
        with reported(self.out), locked(self.out) as remove:
            settle(self.out)
            if fresh:
                clear(self.out)
            rows, review = self._standing()
            clear_partial(self.out, {point.id for point in self.points} - {*rows})
            for note in (*check.notes(self.points), *review.notes, *self._discard_checkpoints()):
                watcher.note(note)
            self._mention_others(watcher)
            before = (self.out / "scenario.yaml").is_file()
            try:
                replace(self.out / "scenario.yaml", self.given)
                self._run_rest(rows, run, engine, watcher)
            except UserError:
                if not rows and not before:
                    for name in ("scenario.yaml", "summary.csv"):
                        (self.out / name).unlink(missing_ok=True)
                    remove.append(self.out)
                raise
            finally:
                clear_partial(self.out, {point.id for point in self.points} - {*rows})
                settle(self.out)
        return self._ordered(rows)

    def unfinished(self, fresh: bool = False) -> list[Point]:
        """Return the points that `run` would run."""
        with reported(self.out):
            rows = {} if fresh else self._standing()[0]
        return [point for point in self.points if point.id not in rows]

    def _standing(self) -> tuple[dict[str, Row], stale.Review]:
        """Return the rows of finished points that are up to date, and what must run again."""
        rows = {point.id: row for point in self.points if (row := finished(self.out / point.id)) is not None}
        mine = {point.id for point in self.points}
        others = [path for path in folders(self.out) if path.name not in mine] if os.path.isdir(self.out) else []
        review = stale.review(self.out, self.points, rows, others)
        return {id: row for id, row in rows.items() if id not in review.again}, review

    def _discard_checkpoints(self) -> Iterator[str]:
        """Remove the checkpoints whose sources have changed, and yield a line for each reason."""
        begun = {point.id: folder for point in self.points if (folder := self.out / f"{PARTIAL}{point.id}").is_dir()}
        reasons = {id: reason for id, folder in begun.items() if (reason := stale.outdated(folder))}
        for id in reasons:
            shutil.rmtree(begun[id], ignore_errors=True)
        for reason, count in Counter(reasons.values()).items():
            which = "1 interrupted point begins" if count == 1 else f"{count} interrupted points begin"
            yield f"{which} anew: {reason}"

    def _run_rest(self, rows: dict[str, Row], run: Run, engine: Engine, watcher: Watcher) -> None:
        rest = self._rooted([point for point in self.points if point.id not in rows])
        good = len(rows)
        watcher.begin(len(self.points), good)
        self._write_summary(rows)
        # In a stranger's repository git runs programs that its settings name, such as filters.
        places = [*([Path.cwd()] if self.plugins else []), Path(__file__).parent]
        git = provenance.commit(places) if rest else None
        for point in rest[:1]:
            stamp.needs(point.scenario)  # reads most of the sources that all points need, unless points have roots
        place, data = self.out.absolute(), self.data.absolute()  # workers may have another working folder
        job = partial(attempt, run, place, data, git, imports.known())
        with closing(engine.work(rest, job, watcher.progressed)) as results:
            for point, result in results:
                outcome = result if isinstance(result, Outcome) else Outcome(message=result.reason)
                if outcome.mistake and (not good or isinstance(outcome.mistake, Unwritable)):
                    raise outcome.mistake
                good += outcome.row is not None
                rows[point.id] = outcome.row or {"status": "failed"}
                message = self._keep_log(point, outcome)
                self._write_summary(rows)
                watcher.ended(point, self._whole(point, rows[point.id]), message)

    def _rooted(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their roots, the first of each root before all others."""
        if not self.following:
            return [*points]
        rooted = [replaced(point, root=root_of(point.scenario)) for point in points]
        first = {point.root: point.id for point in reversed(rooted) if point.root}
        return sorted(rooted, key=lambda point: first.get(point.root, point.id) != point.id)

    def _keep_log(self, point: Point, outcome: Outcome) -> str:
        log = self.out / f"{point.id}.log"
        if outcome.row is not None:
            log.unlink(missing_ok=True)
            return ""
        replace(log, outcome.traceback or f"{outcome.message}\n")
        return f"{outcome.message} ({outcome.place or log})"

    def _whole(self, point: Point, row: Row) -> Row:
        first = {"point": point.id, "status": row.get("status", "done")}
        return {**first, **point.axes, "seed": point.scenario.seed, **{key: row.get(key) for key in self._results}}

    @property
    def _results(self) -> list[str]:
        """The columns of results: those of costs only if a point has them."""
        return [*RESULTS, *(costing.COLUMNS if any(point.scenario.costs for point in self.points) else ())]

    def _ordered(self, rows: dict[str, Row]) -> list[Row]:
        return [self._whole(point, rows[point.id]) for point in self.points if point.id in rows]

    def _write_summary(self, rows: dict[str, Row]) -> None:
        axes = [axis for axis in self.points[0].axes if axis != "seed"]
        write_table(self.out / "summary.csv", ["point", "status", *axes, "seed", *self._results], self._ordered(rows))

    def _mention_others(self, watcher: Watcher) -> None:
        mine = {point.id for point in self.points}
        others = sum(1 for path in folders(self.out) if path.name not in mine)
        if others:
            were = "point of another version of this scenario is" if others == 1 else "points of other versions are"
            watcher.note(f"{others} {were} in {self.out}: kept, but not listed in summary.csv (--fresh removes them)")
        if begun := len([*self.out.glob(f"{PARTIAL}*")]):
            watcher.note(f"{begun} point{' resumes' if begun == 1 else 's resume'} from an earlier call's checkpoint")

"""Run the unfinished points of a sweep, keeping the folder of results consistent at all times.

A point is run in `.partial-<id>` and moved to its place in `points/` when it is done, with its row beside its tables;
`summary.csv` is rewritten from those rows while points end, and at the end.  So a finished point is a folder that holds
all its files (`point/results/folders.py`), and after any interruption the same call continues; an unfinished point
resumes from its checkpoint, if there is one (`point/resume/checkpoint.py`).  A point whose sources have changed runs
again (`point/results/stale.py`), and its old results are replaced when the new ones are complete.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from dataclasses import replace as replaced
from functools import cached_property, partial
from pathlib import Path

from analysis.read.load import COSTS, RESULTS
from fedsim.core.asking import asking_once
from fedsim.core.errors import UserError
from fedsim.core.progress import Progress
from fedsim.core.whole_files import Unwritable, replace, reported, write_table
from fedsim.point.attempt import PointOutcome, RunPoint, SummaryRow, attempt, commit
from fedsim.point.checks import check
from fedsim.point.results import source_hashes, stale, stamp
from fedsim.point.results.folders import ERROR, PARTIAL, clear, clear_partial, finished, folders, locked, places, settle
from fedsim.point.resume.following import learning_key_of
from fedsim.scenario.schema import Point
from fedsim.sweep.engines.choose import Engine

SUMMARY_EVERY = 1.0  # seconds between two writings of summary.csv


class Watcher:
    """Callbacks of a sweep, for whatever shows its progress; this one shows nothing."""

    def begin(self, points: int, finished: int) -> None:
        """Receive the number of points, and how many were finished before."""

    def progressed(self, point: Point, progress: Progress) -> None:
        """Receive the progress of a running point."""

    def ended(self, point: Point, row: SummaryRow, message: str) -> None:
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

    def run(
        self, run: RunPoint, engine: Engine, watcher: Watcher, fresh: bool = False, notes: Sequence[str] = ()
    ) -> list[SummaryRow]:
        """Run the unfinished points and return every point's row, in the grid's order; `notes` are shown first.

        Raises UserError if the folder cannot be used, or if a point shows a mistake of the user before any has
        finished; then what this call has written is removed.
        """
        with reported(self.out), locked(self.out, self.given) as remove:
            settle(self.out)
            if fresh:
                clear(self.out)
            where = places(self.out, self.points)
            rows, standing = ({}, ()) if fresh else self.standing(where)
            clear_partial(self.out, {point.id for point in self.points} - {*rows})
            of_points = (*check.notes(self.points), *standing, *self._discard_checkpoints())
            for note in (*notes, *of_points, *self._mention_others(where)):
                watcher.note(note)
            before = (self.out / "scenario.yaml").is_file()
            try:
                replace(self.out / "scenario.yaml", self.given)
                self._run_rest(rows, where, run, engine, watcher)
            except UserError:
                if not rows and not before:
                    for name in ("scenario.yaml", "summary.csv"):
                        (self.out / name).unlink(missing_ok=True)
                    remove.append(self.out)
                raise
            finally:
                clear_partial(self.out, {point.id for point in self.points} - {*rows})
                settle(self.out)
        return self._ordered(rows, where)

    def unfinished(self, fresh: bool = False) -> list[Point]:
        """Return the points that `run` would run."""
        with reported(self.out):
            rows = {} if fresh else self.standing(places(self.out, self.points))[0]
        return [point for point in self.points if point.id not in rows]

    @asking_once()
    def standing(self, where: Mapping[str, Path]) -> tuple[dict[str, SummaryRow], tuple[str, ...]]:
        """Return the rows of finished points that are up to date, and notes on what must run again."""
        rows = {id: row for id, folder in where.items() if (row := finished(folder)) is not None}
        review = stale.review(where, self.points, rows, self._others(where))
        return {id: row for id, row in rows.items() if id not in review.again}, review.notes

    def _discard_checkpoints(self) -> Iterator[str]:
        """Remove the checkpoints whose sources have changed, and yield a line for each reason."""
        begun = {point.id: folder for point in self.points if (folder := self.out / f"{PARTIAL}{point.id}").is_dir()}
        reasons = {id: reason for id, folder in begun.items() if (reason := stale.outdated(folder))}
        for id in reasons:
            shutil.rmtree(begun[id], ignore_errors=True)
        for reason, count in Counter(reasons.values()).items():
            which = "1 interrupted run begins" if count == 1 else f"{count} interrupted runs begin"
            yield f"{which} anew: {reason}"

    def _run_rest(
        self, rows: dict[str, SummaryRow], where: Mapping[str, Path], run: RunPoint, engine: Engine, watcher: Watcher
    ) -> None:
        rest = self._with_learning_keys([point for point in self.points if point.id not in rows])
        good = len(rows)
        watcher.begin(len(self.points), good)
        self._write_summary(rows, where)
        # In an untrusted repository git runs programs that its settings name, such as filters.
        repositories = [*([Path.cwd()] if self.plugins else []), Path(__file__).parent]
        git = commit(repositories) if rest else None
        for point in rest[:1]:  # reads most of the sources that all points need, unless points have learning keys
            stamp.needs(point.scenario)
        place, data = self.out.absolute(), self.data.absolute()  # workers may have another working folder
        job = partial(attempt, run, place, data, git, source_hashes.known())
        due = time.monotonic() + SUMMARY_EVERY
        try:
            with closing(engine.work(rest, job, watcher.progressed)) as results:
                for point, result in results:
                    outcome = result if isinstance(result, PointOutcome) else PointOutcome(message=result.reason)
                    if outcome.mistake and (not good or isinstance(outcome.mistake, Unwritable)):
                        raise outcome.mistake
                    good += outcome.row is not None
                    rows[point.id] = outcome.row or {"status": "failed"}
                    message = _keep_log(where[point.id], outcome)
                    if time.monotonic() >= due:  # not after each point: that would take as long as all points have rows
                        self._write_summary(rows, where)
                        due = time.monotonic() + SUMMARY_EVERY
                    watcher.ended(point, self._whole(point, rows[point.id], where), message)
        finally:
            self._write_summary(rows, where)

    @asking_once()
    def _with_learning_keys(self, points: Sequence[Point]) -> list[Point]:
        """Return the points with their learning keys, the first of each key before all others."""
        if not self.following:
            return [*points]
        keyed = [replaced(point, learning_key=learning_key_of(point.scenario)) for point in points]
        first = {point.learning_key: point.id for point in reversed(keyed) if point.learning_key}
        return sorted(keyed, key=lambda point: first.get(point.learning_key, point.id) != point.id)

    def _whole(self, point: Point, row: SummaryRow, where: Mapping[str, Path]) -> SummaryRow:
        """Return a point's row of the summary, in which points are named by their folders."""
        first = {"run": where[point.id].name, "status": row.get("status", "done")}
        results = {key: row.get(key) for key in self._results}
        if followed := results["followed"]:
            results["followed"] = " ".join(where[id].name if id in where else id for id in followed.split())
        return {**first, **point.axes, "seed": point.scenario.seed, **results}

    @cached_property
    def _results(self) -> list[str]:
        """The columns of results: those of costs only if a point has them."""
        return [*RESULTS, *(COSTS if any(point.scenario.costs for point in self.points) else ())]

    def _ordered(self, rows: dict[str, SummaryRow], where: Mapping[str, Path]) -> list[SummaryRow]:
        return [self._whole(point, rows[point.id], where) for point in self.points if point.id in rows]

    def _write_summary(self, rows: dict[str, SummaryRow], where: Mapping[str, Path]) -> None:
        axes = [axis for axis in self.points[0].axes if axis != "seed"]
        columns = ["run", "status", *axes, "seed", *self._results]
        write_table(self.out / "summary.csv", columns, self._ordered(rows, where))

    def _others(self, where: Mapping[str, Path]) -> list[Path]:
        """Return the folders of points that are not in these places."""
        mine = {*where.values()}
        return [path for path in folders(self.out) if path not in mine and (path / "scenario.yaml").is_file()]

    def _mention_others(self, where: Mapping[str, Path]) -> Iterator[str]:
        if others := len(self._others(where)):
            runs, are = ("run", "is") if others == 1 else ("runs", "are")
            earlier = f"{others} {runs} of an earlier form of this scenario or its parts {are} in {self.out}"
            yield f"{earlier}: kept, but not listed in summary.csv (--fresh removes them)"
        if begun := len([*self.out.glob(f"{PARTIAL}*")]):
            yield f"{begun} run{' resumes' if begun == 1 else 's resume'} from an earlier call's checkpoint"


def _keep_log(folder: Path, outcome: PointOutcome) -> str:
    """Write why a point has failed into its folder, and return it in a line; "" if it has not failed."""
    if outcome.row is not None:
        return ""
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / ERROR, outcome.traceback or f"{outcome.message}\n")
    return f"{outcome.message} ({outcome.place or folder / ERROR})"

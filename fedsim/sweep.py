"""Many points: runs those that have not finished, and keeps the folder of results whole at every moment.

A point is run in `.partial-<id>` and renamed when it is done, with its row beside its tables; `summary.csv` is written
anew from those rows after each point.  So a finished point is a folder named by its id that holds all its files, and
whatever ends the program, the same call continues; an unfinished point goes on from the checkpoint that it has left,
if there is one (`checkpoint.py`).  A point that was made from other sources than there are now runs again (`stale.py`),
and its old results give way when the new ones are complete.
"""

import csv
import errno
import io
import json
import os
import platform
import re
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Set
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from fedsim import checkpoint, provenance, stale, stamp
from fedsim.errors import UserError
from fedsim.progress import Progress
from fedsim.scenario import Point

Row = dict[str, Any]
Run = Callable[[Point, Path, Path, Callable[[Progress], None]], Row]
RESULTS = [
    "method", "metric", "score", "periods", "am", "la", "fm", "prequential", "sim_seconds", "bytes_up", "bytes_down",
    "bytes_peer", "bytes_wasted", "updates", "updates_per_period", "staleness", "wanted", "asked", "folded", "lost",
    "late", "refused", "client_seconds", "server_seconds", "epsilon", "bytes_masking", "target", "target_on",
    "seconds_to_target", "bytes_to_target", "periods_at_target", "real_seconds",
]  # fmt: skip
TABLES = ("transfers", "updates", "spans", "arrivals", "partitions", "scores")
FILES = ("scenario.yaml", *(f"{table}.parquet" for table in TABLES), "row.json")
LOCK, HOLDER = ".lock", ".holder"  # nobody else may read a file that is locked on Windows: its holder is beside it
PARTIAL, OLD = ".partial-", ".old-"  # a point that runs, and results that give way to new ones
ID = re.compile(r"[0-9a-f]{12}")
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
BARRED = (errno.EACCES, errno.EPERM)


class Unwritable(UserError):  # noqa: N818 - it tells what is wrong
    """Results cannot be written any more, of this point nor of others."""


@dataclass(frozen=True)
class Outcome:
    """What came of one point: its row, or the message and the traceback of its failure."""

    row: Row | None = None
    message: str = ""
    traceback: str = ""
    mistake: UserError | None = None  # where it is the user's, not the program's


class Engine(Protocol):
    """Where points run; it knows points and nothing else."""

    def work(
        self, points: Sequence[Point], job: Callable[[Point, Callable[[Progress], None]], Any],
        told: Callable[[Point, Progress], None],
    ) -> Generator[tuple[Point, Any], None, None]:  # fmt: skip
        """Yield each point with what the job returned, or with something that has a `reason` where it died."""


class Watcher(Protocol):
    """Who shows how the sweep goes."""

    def begin(self, points: int, finished: int) -> None:
        """Be told how many points there are, and how many were finished before."""

    def told(self, point: Point, progress: Progress) -> None:
        """Be told how far a running point has come."""

    def ended(self, point: Point, row: Row, message: str) -> None:
        """Be told that a point has ended; the message is empty where it did well."""

    def note(self, text: str) -> None:
        """Be told something in a line."""


@dataclass(frozen=True)
class Sweep:
    """The points of a scenario, the text they were given as, the folder of their results and that of the data."""

    points: list[Point]
    given: str
    out: Path
    data: Path

    def run(self, run: Run, engine: Engine, watcher: Watcher, fresh: bool = False) -> list[Row]:
        """Run the unfinished points and return every point's row, in the grid's order.

        Raises UserError where the folder cannot be used, and where a point shows a mistake of the user before any
        has finished; then what this call has written is gone again.
        """
        with locked(self.out) as remove:
            settle(self.out)
            if fresh:
                clear(self.out)
            rows, review = self._standing()
            clear_partial(self.out, {point.id for point in self.points} - {*rows})
            for note in (*review.notes, *self._discard_checkpoints()):
                watcher.note(note)
            self._mention_others(watcher)
            before = (self.out / "scenario.yaml").is_file()
            try:
                replace(self.out / "scenario.yaml", self.given)
                self._run_rest(rows, run, engine, watcher)
            except OSError as error:
                raise unwritable(self.out, error) or error from None
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
        """Return the points that a run would run."""
        rows = {} if fresh else self._standing()[0]
        return [point for point in self.points if point.id not in rows]

    def _standing(self) -> tuple[dict[str, Row], stale.Review]:
        """Return the rows of finished points that are up to date, and what is to be done again."""
        rows = {point.id: row for point in self.points if (row := finished(self.out / point.id)) is not None}
        mine = {point.id for point in self.points}
        others = [path for path in folders(self.out) if path.name not in mine] if os.path.isdir(self.out) else []
        review = stale.review(self.out, self.points, rows, others)
        return {id: row for id, row in rows.items() if id not in review.again}, review

    def _discard_checkpoints(self) -> Iterator[str]:
        """Remove the checkpoints that were taken by other sources, and yield a line for each reason."""
        begun = {point.id: folder for point in self.points if (folder := self.out / f"{PARTIAL}{point.id}").is_dir()}
        reasons = {id: reason for id, folder in begun.items() if (reason := stale.outdated(folder))}
        for id in reasons:
            shutil.rmtree(begun[id], ignore_errors=True)
        for reason, count in Counter(reasons.values()).items():
            which = "1 interrupted point begins" if count == 1 else f"{count} interrupted points begin"
            yield f"{which} anew: {reason}"

    def _run_rest(self, rows: dict[str, Row], run: Run, engine: Engine, watcher: Watcher) -> None:
        rest = [point for point in self.points if point.id not in rows]
        good = len(rows)
        watcher.begin(len(self.points), good)
        self._write_summary(rows)
        git = provenance.commit([Path.cwd(), Path(__file__).parent]) if rest else None
        job = partial(attempt, run, self.out.absolute(), self.data.absolute(), git)  # workers may be elsewhere
        with closing(engine.work(rest, job, watcher.told)) as results:
            for point, result in results:
                outcome = result if isinstance(result, Outcome) else Outcome(message=result.reason)
                if outcome.mistake and (not good or isinstance(outcome.mistake, Unwritable)):
                    raise outcome.mistake
                good += outcome.row is not None
                rows[point.id] = outcome.row or {"status": "failed"}
                told = self._keep_log(point, outcome)
                self._write_summary(rows)
                watcher.ended(point, self._whole(point, rows[point.id]), told)

    def _keep_log(self, point: Point, outcome: Outcome) -> str:
        log = self.out / f"{point.id}.log"
        if outcome.row is not None:
            log.unlink(missing_ok=True)
            return ""
        replace(log, outcome.traceback or f"{outcome.message}\n")
        return f"{outcome.message} ({log})"

    def _whole(self, point: Point, row: Row) -> Row:
        first = {"point": point.id, "status": row.get("status", "done")}
        return {**first, **point.axes, "seed": point.scenario.seed, **{key: row.get(key) for key in RESULTS}}

    def _ordered(self, rows: dict[str, Row]) -> list[Row]:
        return [self._whole(point, rows[point.id]) for point in self.points if point.id in rows]

    def _write_summary(self, rows: dict[str, Row]) -> None:
        axes = [axis for axis in self.points[0].axes if axis != "seed"]
        write_table(self.out / "summary.csv", ["point", "status", *axes, "seed", *RESULTS], self._ordered(rows))

    def _mention_others(self, watcher: Watcher) -> None:
        mine = {point.id for point in self.points}
        others = sum(1 for path in folders(self.out) if path.name not in mine)
        if others:
            were = "point of another version of this scenario is" if others == 1 else "points of other versions are"
            watcher.note(f"{others} {were} in {self.out}: kept, but not listed in summary.csv (--fresh removes them)")
        if begun := len([*self.out.glob(f"{PARTIAL}*")]):
            watcher.note(f"{begun} point{' goes' if begun == 1 else 's go'} on from where an earlier call was ended")


def attempt(
    run: Run, out: Path, data: Path, git: Row | None, point: Point, told: Callable[[Progress], None]
) -> Outcome:
    """Run one point beside its place and move it there when it is done; a failure is returned, not raised.

    `git` is the commit of what is run, for its provenance.
    """
    folder = out / f"{PARTIAL}{point.id}"
    try:
        if not (out / LOCK).is_file():  # whoever runs the sweep holds it
            lacks = f"the machine {platform.node()} does not see what the sweep writes into {out}"
            raise UserError(f"{lacks}: all that run points must share this folder under this name; give another --out")
        strip(folder)  # of a worker that has died
        folder.mkdir(exist_ok=True)
        began, made = provenance.now(), stamp.of(point.scenario, point.written)
        row = run(point, folder, data, told)
        row = {**row, "provenance": {**provenance.here(began), **row.get("provenance", {}), "git": git}}
        (folder / stale.FILE).write_text(made.text(), encoding="utf-8")
        (folder / "row.json").write_text(json.dumps(row, default=_python), encoding="utf-8")
        put(folder, out / point.id)
    except Exception as error:
        if mistake := unwritable(out, error):
            return Outcome(message=str(mistake), mistake=mistake)  # its checkpoint is as good as before
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, UserError):
            return Outcome(message=str(error), mistake=error)
        told_of = f"{type(error).__name__}: {error}".splitlines()[0]
        return Outcome(message=told_of, traceback=traceback.format_exc())
    else:
        return Outcome(row=json.loads(json.dumps(row, default=_python)))
    finally:
        strip(folder)


def put(folder: Path, place: Path) -> None:
    """Move a finished point to its place; what is there gives way, and is there again if the move fails."""
    aside = place.with_name(f"{OLD}{place.name}")
    if place.exists():
        place.rename(aside)
    folder.rename(place)
    shutil.rmtree(aside, ignore_errors=True)


def settle(out: Path) -> None:
    """Put results back that were to give way when a move failed or the program ended, and remove those that did."""
    for aside in out.glob(f"{OLD}*"):
        place = aside.with_name(aside.name.removeprefix(OLD))
        if ID.fullmatch(place.name) and not place.exists():
            aside.rename(place)
        elif ID.fullmatch(place.name):
            shutil.rmtree(aside, ignore_errors=True)


def unwritable(out: Path, error: Exception) -> Unwritable | None:
    """Return what to tell where an error says that nothing more can be written into the folder of results."""
    if not isinstance(error, OSError):
        return None
    number = error.errno
    barred = number in BARRED and str(error.filename).startswith(str(out))
    if number is None or not (number in FULL or barred):
        return None
    mend = "mend the rights to it" if barred else "make room"
    told = f"{out} cannot be written ({os.strerror(number)}); finished points are kept: {mend}"
    return Unwritable(f"{told}, and the same command continues")


def finished(folder: Path) -> Row | None:
    """Return the row of a finished point, or None where a file is missing or it did not end well."""
    if not all(os.path.isfile(folder / name) for name in FILES):  # no name may be too long to be asked for
        return None
    try:
        row: Row = json.loads((folder / "row.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return row if row.get("status", "done") != "failed" else None


def folders(out: Path) -> list[Path]:
    """Return the folders of points in a folder of results."""
    return sorted(path for path in out.iterdir() if path.is_dir() and ID.fullmatch(path.name))


def clear(out: Path) -> None:
    """Remove every file that sweeps have made in this folder, and nothing else."""
    for path in folders(out):
        if (path / "scenario.yaml").is_file():
            shutil.rmtree(path)
    logs = [path for path in out.glob("*.log") if ID.fullmatch(path.stem)]
    for path in [*logs, out / "summary.csv", out / "results.txt", out / "scenario.yaml"]:
        path.unlink(missing_ok=True)
    shutil.rmtree(out / "report", ignore_errors=True)
    clear_partial(out, set())


def clear_partial(out: Path, unfinished: Set[str]) -> None:
    """Remove what points that were interrupted have left, but for the checkpoints of those unfinished."""
    for path in out.glob(f"{PARTIAL}*"):
        own = path.name.removeprefix(PARTIAL)
        if own in unfinished:
            strip(path)
        elif ID.fullmatch(own):
            shutil.rmtree(path, ignore_errors=True)


def strip(folder: Path) -> None:
    """Leave of an unfinished point's folder its checkpoint, and nothing where there is none."""
    if not checkpoint.path_in(folder).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.name != checkpoint.FOLDER:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """Write a CSV file whole, under another name first; None and NaN are left empty."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row.get(column)) for column in columns] for row in rows)
    replace(path, text.getvalue())


def replace(path: Path, text: str) -> None:
    """Write a text file whole, under another name first."""
    hidden = path.with_name(f".{path.name}.partial")
    try:
        hidden.write_text(text, encoding="utf-8", newline="")
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)  # where the disk is full


@contextmanager
def locked(out: Path) -> Iterator[list[Path]]:
    """Hold the folder for this process alone, creating it; the lock of a process that has died is free again.

    Folders put into the list that it gives are removed at the end if this call created them and they are empty.
    Raises UserError where the folder cannot be written or another process holds it.
    """
    new, lock = [folder for folder in (out, *out.parents) if not os.path.exists(folder)], FileLock(out / LOCK)
    try:
        out.mkdir(parents=True, exist_ok=True)
        _take(lock, out)
    except OSError as error:
        raise UserError(f"{out} cannot be written ({error.strerror}); give another folder with --out") from None
    remove: list[Path] = []
    try:
        yield remove
    finally:
        for name in (HOLDER, LOCK):  # the lock while it is held: afterwards it may be another's
            with suppress(OSError):  # in a folder that is barred by now it stays, and holds nobody off
                (out / name).unlink(missing_ok=True)
        lock.release()  # on Windows, where a file that is open cannot be removed, this removes it
        for folder in new if remove else []:
            if not any(folder.iterdir()):
                folder.rmdir()


def _take(lock: FileLock, out: Path) -> None:
    # The system frees the lock of a process that dies, however it dies.
    try:
        lock.acquire(timeout=0)
    except Timeout:
        holder = (out / HOLDER).read_text("utf-8").strip() if (out / HOLDER).is_file() else ""
        mend = "wait until it ends, or give another folder with --out"
        raise UserError(f"{out} is being written by process {holder or '?'}; {mend}") from None
    try:
        (out / HOLDER).write_text(f"{os.getpid()}\n", "utf-8")
    except OSError:
        lock.release()
        raise


def _python(value: Any) -> Any:
    return value.item()  # a number of numpy's


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return ""
    return repr(value) if isinstance(value, float) else str(value)

"""The folders of points in a folder of results: finished, failed, running, and being replaced; their checksums.

A finished point is a folder in `points/` that holds all its files, named by the values of its axes and the beginning
of its id; `row.json` has the whole id.  A failed one holds `error.log`, beside the results that it was to replace.
A running one is `.partial-ID`; only its checkpoint outlives an interrupted run.  Results that are being replaced are
`points/.old-NAME` until the new ones are in place.

Checksums of a finished point's files show damage; `sha256sum -c SHA256SUMS` checks them too.  Not covered: the log,
views, and the stamp (which is compared with the sources anyway).

One process at a time writes into a folder of results, and the lock of a dead process is released.  Not modelled:
machines that share the folder over a file system without locks.
"""

import hashlib
import json
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from analysis.axes import short
from analysis.read.links import earlier_layout, link_in
from analysis.read.stored import POINTS
from fedsim.core.errors import UserError
from fedsim.point.resume import checkpoint
from fedsim.scenario.schema import Point

TABLES = ("transfers", "updates", "spans", "arrivals", "partitions", "scores")
FILES = ("scenario.yaml", *(f"{table}.parquet" for table in TABLES), "row.json")
EXTRA = ("costs.parquet", "model.pt")  # of points whose scenario asks for them
RECORDS = "records"  # of what points have learned, for others to follow
PARTIAL, OLD = ".partial-", ".old-"  # a running point, and results being replaced
SUMS = "SHA256SUMS"  # checksums of a finished point's files
ERROR = "error.log"  # why a point has failed
ID = re.compile(r"[0-9a-f]{12}")
NAME = re.compile(r"[^.].*-([0-9a-f]{12}|[0-9a-f]{6})")
LONGEST, LONGEST_VALUE = 120, 40  # characters of a folder's name, and of one value in it


def refuse_links(out: Path) -> None:
    """Raise UserError if what is written into a folder of results is a link there, which would lead out of it.

    So it does for a folder whose points lie where an earlier version kept them.
    """
    if link := link_in(out):
        raise UserError(f"{link}, and the same command continues")
    if older := earlier_layout(out):
        raise UserError(older)


def name_of(point: Point) -> str:
    """Return the name of a point's folder: the values of its axes and its seed, then six digits of its id.

    It has at most 120 characters, which every file system and shell takes as they are.  A name that had to be cut
    ends in the whole id instead, since others may begin like it.
    """
    axes = {**point.axes, "seed": point.scenario.seed}
    parts = [f"{_plain(short(axis))}={_plain(value)[:LONGEST_VALUE]}" for axis, value in axes.items()]
    label = ",".join(parts).lstrip(".-")
    cut = label[: LONGEST - len(point.id) - 1]
    return f"{label}-{point.id[:6]}" if cut == label else f"{cut}-{point.id}"


def _plain(text: Any) -> str:
    """Return a text with letters, digits and `.+-_` only."""
    return re.sub(r"[^a-zA-Z0-9.+-]+", "_", str(text).replace(" ", "").replace("%", "pct")).strip("_")


def places(out: Path, points: Iterable[Point]) -> dict[str, Path]:
    """Return the folders of points, by id, whether they exist or not.

    An existing one is found by its id: a grid with other axes may have given it another name.
    """
    by_id = defaultdict[str, list[Path]](list)
    for folder in folders(out):
        by_id[folder.name.rpartition("-")[2]].append(folder)
    places = {}
    for point in points:
        named, alike = out / POINTS / name_of(point), (*by_id[point.id[:6]], *by_id[point.id])
        known = [folder for folder in alike if (_row(folder) or {}).get("run") in (point.id, None)]  # None: damaged
        places[point.id] = named if named in known or not known else known[0]
    return places


def place_of(out: Path, point: Point) -> Path:
    """Return the folder of one point."""
    return places(out, [point])[point.id]


def put(folder: Path, place: Path) -> None:
    """Move a finished point into place, replacing what is there; restore that if the move fails."""
    place.parent.mkdir(exist_ok=True)
    aside = place.with_name(f"{OLD}{place.name}")
    if place.exists():
        place.rename(aside)
    folder.rename(place)
    shutil.rmtree(aside, ignore_errors=True)


def settle(out: Path) -> None:
    """Restore results whose replacement was interrupted, and remove those that were replaced."""
    for aside in (out / POINTS).glob(f"{OLD}*"):
        place = aside.with_name(aside.name.removeprefix(OLD))
        if NAME.fullmatch(place.name) and not place.exists():
            aside.rename(place)
        elif NAME.fullmatch(place.name):
            shutil.rmtree(aside, ignore_errors=True)


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the row of a finished point, or None if a file is missing or the point did not succeed."""
    if not all(os.path.isfile(folder / name) for name in FILES):  # os.path: also answers for names that are too long
        return None
    row = _row(folder)
    return row if row is not None and row.get("status", "done") != "failed" else None


def _row(folder: Path) -> dict[str, Any] | None:
    try:
        row = json.loads((folder / "row.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) else None


def folders(out: Path) -> list[Path]:
    """Return the folders of points in a folder of results, failed ones included."""
    inside = (out / POINTS).iterdir() if os.path.isdir(out / POINTS) else ()
    return sorted(path for path in inside if path.is_dir() and NAME.fullmatch(path.name))


def clear(out: Path) -> None:
    """Remove everything that sweeps have made in this folder, and nothing else."""
    for path in folders(out):
        if path.is_symlink():  # what it leads to is not this folder's
            path.unlink()
        elif (path / "scenario.yaml").is_file() or (path / ERROR).is_file():
            shutil.rmtree(path)
    with suppress(OSError):  # there is none, or others have put something there
        (out / POINTS).rmdir()
    for name in ("summary.csv", "results.txt", "scenario.yaml"):
        (out / name).unlink(missing_ok=True)
    for folder in ("report", RECORDS):
        shutil.rmtree(out / folder, ignore_errors=True)
    clear_partial(out, set())


def clear_partial(out: Path, unfinished: Set[str]) -> None:
    """Remove what interrupted points have left, except the checkpoints of unfinished points."""
    for path in out.glob(f"{PARTIAL}*"):
        id = path.name.removeprefix(PARTIAL)
        if id in unfinished:
            strip(path)
        elif ID.fullmatch(id):
            shutil.rmtree(path, ignore_errors=True)


def strip(folder: Path) -> None:
    """Reduce an unfinished point's folder to its checkpoint; remove the folder if there is none."""
    if not checkpoint.path_in(folder).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.name != checkpoint.FOLDER:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def write_sums(folder: Path) -> None:
    """Write the checksums of a point's files beside them.  Raises OSError if that cannot be done."""
    names = [*FILES, *(name for name in EXTRA if (folder / name).is_file())]
    lines = [f"{_sum(folder / name)}  {name}\n" for name in names]
    (folder / SUMS).write_text("".join(lines), encoding="utf-8", newline="")


def damaged(folder: Path) -> list[str]:
    """Return the names of a point's files that are missing or not what was written, the checksums among them."""
    try:
        *lines, end = (folder / SUMS).read_text(encoding="utf-8").split("\n")
        wanted = {name: digest for digest, name in (line.split("  ") for line in lines)}
        if end or wanted.keys() - {*EXTRA} != {*FILES}:
            return [SUMS]
        return [name for name in wanted if not (folder / name).is_file() or _sum(folder / name) != wanted[name]]
    except PermissionError:
        raise  # it may well be whole
    except (OSError, ValueError):
        return [SUMS]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


LOCK, HOLDER = ".lock", ".holder"  # Windows lets no other process read a locked file, so HOLDER is separate


@contextmanager
def locked(out: Path, given: str) -> Iterator[list[Path]]:
    """Lock the folder for this process and the scenario `given`, creating it; a dead process has no lock.

    Folders added to the yielded list are removed at the end if this call created them and they are empty.
    Raises UserError if the folder cannot be written, holds links or other files, or another process holds it.
    """
    refuse_links(out)
    _refuse_others(out, given)
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
        for name in (HOLDER, LOCK):  # remove the lock while it is held: afterwards it may be another process's
            with suppress(OSError):  # in a folder that is no longer writable it stays, without effect
                (out / name).unlink(missing_ok=True)
        lock.release()  # on Windows, where an open file cannot be removed, this removes it
        for folder in new if remove else []:
            if not any(folder.iterdir()):
                folder.rmdir()


def writer(out: Path) -> str | None:
    """Return the number of the process that writes into a folder of results ("?": unknown), None without one."""
    if not (out / LOCK).is_file():
        return None
    try:
        with FileLock(out / LOCK, timeout=0):
            return None
    except Timeout:
        return ((out / HOLDER).read_text("utf-8").strip() if (out / HOLDER).is_file() else "") or "?"


def _refuse_others(out: Path, given: str) -> None:
    """Raise UserError for a folder without results that has a summary.csv or another scenario.yaml."""
    summary, scenario = out / "summary.csv", out / "scenario.yaml"
    if summary.is_file():
        other = not summary.read_bytes().startswith(b"run,status,")
    else:
        other = scenario.is_file() and scenario.read_text("utf-8", "replace") != given
    if other and not (out / POINTS).is_dir():
        raise UserError(f"{out} holds other files of the same names: give another folder with --out")


def _take(lock: FileLock, out: Path) -> None:
    # The system frees the lock of a process that dies, for any reason.
    try:
        lock.acquire(timeout=0)
    except Timeout:
        remedy = "wait until it ends, or give another folder with --out"
        raise UserError(f"{out} is being written by process {writer(out)}; {remedy}") from None
    try:
        if not (out / HOLDER).is_file():
            (out / HOLDER).unlink(missing_ok=True)  # a pipe, into which a write would never end
        (out / HOLDER).write_text(f"{os.getpid()}\n", "utf-8")
    except OSError:
        lock.release()
        raise

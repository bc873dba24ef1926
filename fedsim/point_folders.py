"""The folders of points in a folder of results: those that are finished, that run, and that give way to new ones.

A finished point is a folder named by its id that holds all its files.  One that runs is named `.partial-ID`, and of it
a checkpoint alone outlives the run; results that give way are `.old-ID` until the new ones are in their place.
"""

import json
import os
import re
import shutil
from collections.abc import Set
from pathlib import Path
from typing import Any

from fedsim import checkpoint

TABLES = ("transfers", "updates", "spans", "arrivals", "partitions", "scores")
FILES = ("scenario.yaml", *(f"{table}.parquet" for table in TABLES), "row.json")
PARTIAL, OLD = ".partial-", ".old-"  # a point that runs, and results that give way to new ones
ID = re.compile(r"[0-9a-f]{12}")


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


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the row of a finished point, or None if a file is missing or it did not end well."""
    if not all(os.path.isfile(folder / name) for name in FILES):  # no name may be too long to be asked for
        return None
    try:
        row: dict[str, Any] = json.loads((folder / "row.json").read_text(encoding="utf-8"))
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

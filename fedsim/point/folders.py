"""The folders of points in a folder of results: finished, running, and being replaced.

A finished point is a folder named by its id that holds all its files.  A running one is named `.partial-ID`; only its
checkpoint outlives an interrupted run.  Results that are being replaced are `.old-ID` until the new ones are in place.
"""

import json
import os
import re
import shutil
from collections.abc import Set
from pathlib import Path
from typing import Any

from analysis.links import link_in
from fedsim.core.errors import UserError
from fedsim.point import checkpoint_file

TABLES = ("transfers", "updates", "spans", "arrivals", "partitions", "scores")
FILES = ("scenario.yaml", *(f"{table}.parquet" for table in TABLES), "row.json")
EXTRA = ("costs.parquet",)  # of points whose scenario has the section that it is about
RECORDS = "records"  # of what points have learned, for others to follow
PARTIAL, OLD = ".partial-", ".old-"  # a running point, and results being replaced
ID = re.compile(r"[0-9a-f]{12}")


def refuse_links(out: Path) -> None:
    """Raise UserError if what is written into a folder of results is a link there, which would lead out of it."""
    if found := link_in(out):
        raise UserError(f"{found}, and the same command continues")


def put(folder: Path, place: Path) -> None:
    """Move a finished point into place, replacing what is there; restore that if the move fails."""
    aside = place.with_name(f"{OLD}{place.name}")
    if place.exists():
        place.rename(aside)
    folder.rename(place)
    shutil.rmtree(aside, ignore_errors=True)


def settle(out: Path) -> None:
    """Restore results whose replacement was interrupted, and remove those that were replaced."""
    for aside in out.glob(f"{OLD}*"):
        place = aside.with_name(aside.name.removeprefix(OLD))
        if ID.fullmatch(place.name) and not place.exists():
            aside.rename(place)
        elif ID.fullmatch(place.name):
            shutil.rmtree(aside, ignore_errors=True)


def finished(folder: Path) -> dict[str, Any] | None:
    """Return the row of a finished point, or None if a file is missing or the point did not succeed."""
    if not all(os.path.isfile(folder / name) for name in FILES):  # os.path: also answers for names that are too long
        return None
    try:
        row: dict[str, Any] = json.loads((folder / "row.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return row if isinstance(row, dict) and row.get("status", "done") != "failed" else None


def folders(out: Path) -> list[Path]:
    """Return the folders of points in a folder of results."""
    return sorted(path for path in out.iterdir() if path.is_dir() and ID.fullmatch(path.name))


def clear(out: Path) -> None:
    """Remove everything that sweeps have made in this folder, and nothing else."""
    for path in folders(out):
        if path.is_symlink():  # what it leads to is not this folder's
            path.unlink()
        elif (path / "scenario.yaml").is_file():
            shutil.rmtree(path)
    logs = [path for path in out.glob("*.log") if ID.fullmatch(path.stem)]
    for path in [*logs, out / "summary.csv", out / "results.txt", out / "scenario.yaml"]:
        path.unlink(missing_ok=True)
    for folder in ("report", RECORDS):
        shutil.rmtree(out / folder, ignore_errors=True)
    clear_partial(out, set())


def clear_partial(out: Path, unfinished: Set[str]) -> None:
    """Remove what interrupted points have left, except the checkpoints of unfinished points."""
    for path in out.glob(f"{PARTIAL}*"):
        own = path.name.removeprefix(PARTIAL)
        if own in unfinished:
            strip(path)
        elif ID.fullmatch(own):
            shutil.rmtree(path, ignore_errors=True)


def strip(folder: Path) -> None:
    """Reduce an unfinished point's folder to its checkpoint; remove the folder if there is none."""
    if not checkpoint_file.path_in(folder).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in folder.iterdir():
        if path.name != checkpoint_file.FOLDER:
            shutil.rmtree(path) if path.is_dir() else path.unlink()

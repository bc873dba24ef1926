"""Run one point of a sweep in a worker, in a temporary folder, and record what it was made from, where and when.

The latter is for readers: it is kept in the row.json and in no table, and affects neither results nor whether they are
out of date (`stamp.py`).  Failures are returned, never raised, so that one point's failure does not affect others.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from operator import methodcaller
from pathlib import Path
from typing import Any

from fedsim.core import kernels
from fedsim.core.asking import asking_once
from fedsim.core.errors import UserError
from fedsim.core.progress import ReportProgress
from fedsim.core.version import __version__
from fedsim.core.whole_files import unwritable
from fedsim.point.checks import memory
from fedsim.point.results import source_hashes, stale, stamp
from fedsim.point.results.folders import LOCK, PARTIAL, place_of, put, strip, write_sums
from fedsim.scenario.parts import source
from fedsim.scenario.schema import Point

LIBRARIES = (
    "torch", "torch-geometric", "numpy", "scipy", "simpy", "pandas", "pyarrow", "networkx", "python-louvain",
    "scikit-network", "pymetis", "POT", "msgpack", "pydantic",
)  # fmt: skip
PATIENCE = 5.0  # time limit for git, in seconds
# Nothing is written, not even the index.  Only a repository that is trusted may be asked: its settings name programs.
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C")
WHICH = ("rev-parse", "--show-toplevel", "HEAD")
CHANGED = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set inside hooks: they would point to another repository

SummaryRow = dict[str, Any]
RunPoint = Callable[[Point, Path, Path, ReportProgress], SummaryRow]


@dataclass(frozen=True)
class PointOutcome:
    """The result of one point: its row, or a message about its failure, with traceback and line of the user's code."""

    message: str = ""
    traceback: str = ""
    place: str = ""
    row: SummaryRow | None = None
    mistake: UserError | None = None  # if the failure is the user's mistake


@asking_once()
def attempt(
    run: RunPoint, out: Path, data: Path, git: SummaryRow | None, sources: source_hashes.SourcesByFile,
    point: Point, report: ReportProgress,
) -> PointOutcome:  # fmt: skip
    """Run one point in a temporary folder and move it into place when done; return a failure instead of raising it.

    `git` is the commit, for the provenance; `sources` holds the sources that the sweep has read already, so that
    workers need not.
    """
    folder, before = out / f"{PARTIAL}{point.id}", memory.peak()
    try:
        if not (out / LOCK).is_file():  # held by the process that runs the sweep
            lacks = f"the machine {platform.node()} does not see the folder of results {out}"
            raise UserError(f"{lacks}: all machines must share it under the same path; give --out a shared folder")
        source_hashes.know(sources)
        strip(folder)  # left by a worker that died
        folder.mkdir(exist_ok=True)
        began, stamped = now(), stamp.of(point.scenario, point.written)
        row = run(point, folder, data, report)
        notes = {**provenance(began), **row.get("provenance", {}), "git": git}
        text = json.dumps({**row, "run": point.id, "provenance": notes}, default=methodcaller("item"))  # of NumPy
        (folder / stale.FILE).write_text(stamped.text(), encoding="utf-8")
        (folder / "row.json").write_text(text, encoding="utf-8")
        write_sums(folder)
        put(folder, place_of(out, point))
    except Exception as error:
        if mistake := unwritable(out, error):
            return PointOutcome(message=str(mistake), mistake=mistake)  # its checkpoint is still valid
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, UserError):
            return PointOutcome(message=str(error), mistake=error)
        if message := memory.lacking(error):
            return PointOutcome(message=message, mistake=UserError(message))
        message, place = source.in_a_line(error), source.place_of(error)
        if not place and (own := stamp.own_files(point.scenario)):
            message += f"; does all in {', '.join(own)} return what it must?"
        return PointOutcome(message, traceback.format_exc(), place)
    else:
        return PointOutcome(row=json.loads(text))
    finally:
        strip(folder)
        memory.reclaim(before, point.id)


def provenance(began: datetime) -> dict[str, Any]:
    """Return this process's machine, Python, versions of installed packages, and time."""
    return {
        "began": began.isoformat(timespec="seconds"),
        "ended": now().isoformat(timespec="seconds"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": _system(),
        "machine": platform.machine(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "kernels": "this processor's" if kernels.differ() else "the same everywhere",
        "versions": {"fedsim": __version__, **stamp.versions(LIBRARIES)},
    }


def now() -> datetime:
    """Return the current time, with its zone."""
    return datetime.now(UTC).astimezone()


@lru_cache(maxsize=1)
def cpu() -> str:
    """Return the processor's model, or its architecture if the system reports no model."""
    try:
        if sys.platform == "darwin":
            return (_said(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.machine()).strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() in ("model name", "cpu model"):
                return value.strip()
    except OSError:
        pass
    return os.environ.get("PROCESSOR_IDENTIFIER") or platform.machine()  # `platform.processor` starts a program


def commit(folders: Sequence[Path]) -> dict[str, Any] | None:
    """Return the commit of the first of these folders that is in a git repository, and whether tracked files differ.

    None if none is in a repository, if it has no commit yet, or without git.
    """
    for folder in folders:
        top = _said([*GIT, str(folder), *WHICH])
        if top and len(lines := top.splitlines()) == 2:
            changes = _said([*GIT, str(folder), *CHANGED])
            dirty = None if changes is None else bool(changes.strip())
            return {"repository": Path(lines[0]).name, "commit": lines[1], "dirty": dirty}
    return None


def _said(command: list[str]) -> str | None:
    """Return the output of a command, or None if it cannot be run, fails or takes too long."""
    around = {name: value for name, value in os.environ.items() if name not in ELSEWHERE}
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=PATIENCE, check=True, stdin=subprocess.DEVNULL, env=around
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace")


@lru_cache(maxsize=1)
def _system() -> str:
    # `platform.platform` starts a program to ask for the processor.
    version = platform.version() if sys.platform == "win32" else ""
    library = " ".join(platform.libc_ver()) if sys.platform == "linux" else ""
    known = [platform.system(), platform.mac_ver()[0] or platform.release(), version, platform.machine(), library]
    return " ".join(each for each in known if each.strip())

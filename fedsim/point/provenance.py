"""Provenance: where, when and with what a point was run, for readers; kept in its row.json and in no table.

It affects neither results nor whether they are out of date; see `stamp`.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedsim.core import kernels
from fedsim.core.version import __version__
from fedsim.point import stamp

LIBRARIES = (
    "torch", "torch-geometric", "numpy", "scipy", "simpy", "pandas", "pyarrow", "networkx", "scikit-learn",
    "python-louvain", "pymetis", "POT", "msgpack", "pydantic",
)  # fmt: skip
PATIENCE = 5.0  # time limit for git, in seconds
# Nothing is written, not even the index.  Only a repository that is trusted may be asked: its settings name programs.
GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-C")
WHICH = ("rev-parse", "--show-toplevel", "HEAD")
CHANGED = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set inside hooks: they would point to another repository


def here(began: datetime) -> dict[str, Any]:
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
            return {
                "repository": Path(lines[0]).name,
                "commit": lines[1],
                "dirty": None if changes is None else bool(changes.strip()),
            }
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
    return " ".join(one for one in known if one.strip())

"""Provenance: where, when and with what a point was run, for people; kept in its row.json and in no table.

Nothing of it decides results or says whether they are out of date: that is for `stamp`.
"""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from fedsim import __version__

LIBRARIES = (
    "torch", "torch-geometric", "numpy", "scipy", "simpy", "pandas", "pyarrow", "networkx", "scikit-learn",
    "python-louvain", "pymetis", "POT", "msgpack", "pydantic",
)  # fmt: skip
PATIENCE = 5.0  # seconds that git may take


def here(began: datetime) -> dict[str, Any]:
    """Return what this process is: its machine, its Python and the versions of what is installed, and the time."""
    return {
        "began": began.isoformat(timespec="seconds"),
        "ended": now().isoformat(timespec="seconds"),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": _system(),
        "machine": platform.machine(),
        "cpu": cpu(),
        "cores": os.cpu_count(),
        "versions": {"fedsim": __version__, **_installed()},
    }


def now() -> datetime:
    """Return the time, with its zone."""
    return datetime.now(UTC).astimezone()


@lru_cache(maxsize=1)
def cpu() -> str:
    """Return the processor's model, or its kind where the system tells no more."""
    try:
        if sys.platform == "darwin":
            return _said(["sysctl", "-n", "machdep.cpu.brand_string"]) or platform.processor()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key.strip().lower() in ("model name", "cpu model"):
                return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def commit(folders: Sequence[Path]) -> dict[str, Any] | None:
    """Return the commit of the first of these folders that is in a git repository, and whether tracked files differ.

    None where none is in one, where it has no commit yet, or where there is no git.
    """
    for folder in folders:
        top = _said(["git", "-C", str(folder), "rev-parse", "--show-toplevel", "HEAD"])
        if top and len(lines := top.splitlines()) == 2:
            changes = _said(["git", "--no-optional-locks", "-C", str(folder), "status", "--porcelain", "-uno"])
            return {
                "repository": Path(lines[0]).name,
                "commit": lines[1],
                "dirty": None if changes is None else bool(changes.strip()),
            }
    return None


def _said(command: list[str]) -> str | None:
    """Return what a command prints, None where it cannot be run, fails or takes too long."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout


@lru_cache(maxsize=1)
def _system() -> str:
    return platform.platform()


@lru_cache(maxsize=1)
def _installed() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found

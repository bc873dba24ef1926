"""What a deployed client remembers between jobs, on its disk: each job may run in a process of its own.

The memory after every job is kept until the run has ended, because scores are computed only then (`scored.py`).
Nothing is pickled (`learner/preserve.py`).  Not modelled: a limit of space; a run of R rounds keeps R memories.
"""

import os
from pathlib import Path
from typing import Any

from fedsim.learner import preserve

FOLDER, LATEST = "memory", "latest"


class Kept:
    """The memories of one client, in its package."""

    def __init__(self, package: Path, given: preserve.Given) -> None:
        """Use the package's folder; `given` are the graphs that a memory may refer to."""
        self._folder, self._given = package / FOLDER, given

    def latest(self) -> dict[str, Any]:
        """Return what the last finished job left: "memory", and "notes" of the codec."""
        path = self._folder / LATEST
        return dict(preserve.unpack(path.read_bytes(), self._given)) if path.exists() else {"memory": {}, "notes": {}}

    def after(self, ask: int) -> dict[str, Any]:
        """Return the memory after the job of an ask; empty if it finished none."""
        path = self._folder / str(ask)
        return dict(preserve.unpack(path.read_bytes(), self._given)["memory"]) if path.exists() else {}

    def keep(self, ask: int, memory: dict[str, Any], notes: dict[str, Any]) -> None:
        """Keep what the job of an ask leaves, whole or not at all.  Raises OSError if it cannot be written."""
        self._folder.mkdir(exist_ok=True)
        packed, partial = preserve.pack({"memory": memory, "notes": notes}, self._given), self._folder / "partial"
        for name in (str(ask), LATEST):
            partial.write_bytes(packed)
            os.replace(partial, self._folder / name)

    def forget(self) -> None:
        """Delete all memories."""
        for path in self._folder.glob("*"):
            path.unlink()

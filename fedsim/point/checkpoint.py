"""Checkpoints of a running point, from which an interrupted one resumes by replay.

Simulated time does not depend on trained values.  So a resumed point runs its clock again from zero, with answers from
its own record (`learner/recorded.py`) and without training, folding or scoring, up to the event at which the checkpoint
was taken; there the learner restores its values.  Its tables and views are then equal byte for byte to those of an
uninterrupted run.

When a checkpoint is taken depends on the host's clock; results never do.  One can be taken between any two events
unless something was raised in the last one, under every protocol, with noise, masks and forgers.  None is taken of a
point that learns nothing, where replaying is running, or whose algorithm keeps values that `learner/preserve.py` does
not support; these start from the beginning.  A checkpoint is ignored if its stamp (`stamp.py`) differs from what is run
now, a library has another version, or its file is damaged (`checkpoint_file.py`); the machine may differ.  What became
of a point's checkpoints is noted in its provenance, not in run.log: when one is taken is the host's.

Each checkpoint is complete, including all views recorded so far.
"""

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import simpy

from fedsim.clock.world import World
from fedsim.learner import keep
from fedsim.learner.received import Views
from fedsim.learner.recorded import Record, Recorded, ReplayError
from fedsim.point import checkpoint_file
from fedsim.point.checkpoint_file import Damaged, discard
from fedsim.point.stamp import Stamp

if TYPE_CHECKING:
    from fedsim.point.learning import Lesson

EVERY = 60.0  # seconds of real time
SHARE = 20  # time between checkpoints, at least, in multiples of the time that one takes


@dataclass
class Keeper:
    """Takes a point's checkpoints every `every` seconds, and resumes from the one in its folder."""

    folder: Path
    every: float
    log: Path
    stamp: Stamp | None = None  # of what is run; other checkpoints are ignored, and all of them if None
    steps: int = 0
    notes: dict[str, str] = field(default_factory=dict)  # for the provenance of the point
    _saved: dict[str, Any] | None = None
    _next: float = 0.0
    _views: Views | None = None

    def __post_init__(self) -> None:
        """Read the checkpoint of an earlier run."""
        if self.stamp is not None:
            try:
                if self.stamp.continues(checkpoint_file.stamp_in(self.folder)):
                    self._saved = checkpoint_file.read(self.folder)
            except Damaged:
                self.notes["checkpoint"] = "was damaged and was discarded"
        self._next = time.monotonic() + self.every

    @property
    def resumes(self) -> bool:
        """Whether the point resumes from a checkpoint, which its clock has not reached yet."""
        return self._saved is not None

    def record(self) -> Record:
        """Return the record of the earlier run, empty if there is none."""
        return {} if self._saved is None else keep.unpacked(self._saved["record"])

    def attend(self, world: World, lesson: "Lesson", learner: Recorded) -> None:
        """Take checkpoints of this world, which has not started yet."""
        self.world, self.lesson, self.learner = world, lesson, learner

    def watch(self, views: Views) -> None:
        """Pause the recording of what clients receive during the replay, and restore what it had recorded."""
        views.resting = self._saved is not None
        self._views = views

    def passed(self) -> None:
        """Note that one more event was processed.  Raises ReplayError if a replay differs from the first run."""
        self.steps += 1
        if self._saved is not None:
            if self.steps == self._saved["steps"]:
                self._resume(self._saved)
                self._saved = None
        elif time.monotonic() >= self._next and not _failing(self.world.env):
            began = time.monotonic()
            self.save()
            ended = time.monotonic()
            self._next = ended + max(self.every, SHARE * (ended - began))

    def end(self) -> None:
        """Remove the checkpoint of a point that has ended.  Raises ReplayError if the replay has not ended."""
        if self._saved is not None:
            raise ReplayError("the replay of an interrupted point has ended before its checkpoint")
        discard(self.folder)

    def save(self) -> None:
        """Take a checkpoint, replacing the last one.  Raises OSError if it cannot be written."""
        from fedsim.learner.preserve import Unfit

        try:
            values = self.lesson.pack([keep.held(self.learner), self._views.notes() if self._views else None])
        except Unfit as error:
            self.forgo(f"no checkpoint can hold {error}")
            return
        stamp = self.stamp.text() if self.stamp else ""
        contents = {
            "steps": self.steps, "now": self.world.env.now, "version": self.world.server.version,
            "asked": self.learner.asked, "log": self.log.read_bytes(), "values": values,
            "record": keep.packed(self.learner.record),
        }  # fmt: skip
        checkpoint_file.write(self.folder, stamp, contents)

    def forgo(self, reason: str) -> None:
        """Take no further checkpoints, and note why."""
        self.every = math.inf
        self.notes["checkpoint"] = reason

    def _resume(self, saved: dict[str, Any]) -> None:
        """Restore the values of the checkpoint, which the clock has reached."""
        world = self.world
        here = world.env.now, world.server.version, self.learner.asked
        if here != (saved["now"], saved["version"], saved["asked"]):
            raise ReplayError("the replay of an interrupted point has reached another moment than its first run")
        held, seen = self.lesson.unpack(saved["values"])
        keep.resume(self.learner, held)
        if self._views:
            self._views.wake(seen)
        self.log.write_bytes(saved["log"])


def _failing(env: simpy.Environment) -> bool:
    """Return whether an event has failed and is still to be processed: something was raised in a process."""
    return any(event.triggered and not event.ok for *_, event in env._queue)

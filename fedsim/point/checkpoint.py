"""Checkpoint: what a running point holds at some moment, so that a killed one can go on: resume by replay.

Simulated time does not depend on trained values.  So a point that goes on runs its clock again from zero, answered from
its own record (`learner/recorded.py`) and with nothing trained, folded or scored, up to the event at which the
checkpoint was taken; there the learner takes over the values that it held.  Its tables, and the views that it keeps of
what clients receive, then are those of a run that was never interrupted, byte for byte.

When a checkpoint is taken is up to this host's clock; what comes of the point never is.  One is taken between any two
events, under every protocol, with noise, masks and forgers too.  None is taken of a point whose algorithm keeps values
that `learner/preserve.py` does not know, which run.log records, nor of one that learns nothing: to replay its clock is
to run it.  These start anew.  A checkpoint is left aside where its stamp (`stamp.py`) is not that of what is run now,
or a library has another version, but not where the machine is another.

Each checkpoint is written whole: where views are kept, it has all that they hold.
"""

import logging
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgpack

from fedsim.clock.world import World
from fedsim.learner import keep
from fedsim.learner.recorded import Record, Recorded, ReplayError
from fedsim.point.stamp import Stamp, parsed

if TYPE_CHECKING:
    from fedsim.point.learning import Lesson

FOLDER, FILE = "state", "checkpoint"
EVERY = 60.0  # seconds of real time
SHARE = 20  # a checkpoint's own time at least lies between it and the next so many times

log = logging.getLogger(__name__)


def stamp_in(folder: Path) -> Stamp | str | None:
    """Return the stamp of the checkpoint of a point that runs in this folder, or what stands in its place.

    None where there is no checkpoint, or half of one.  Of its file, which may be large, only the beginning is read.
    """
    try:
        with path_in(folder).open("rb") as file:
            saved = msgpack.Unpacker(file)
            text = saved.unpack() if saved.read_map_header() and saved.unpack() == "stamp" else None
    except (OSError, ValueError, TypeError, msgpack.UnpackException):
        return None
    return (parsed(text) or text) if isinstance(text, str) else ""


def path_in(folder: Path) -> Path:
    """Return where a point that runs in this folder keeps its checkpoint."""
    return folder / FOLDER / FILE


class Observer(Protocol):
    """Who looks at values and changes nothing: what keeps the clients' views."""

    resting: bool  # as long as a replay has no values to look at

    def notes(self) -> list[Any]:
        """Return all that it has gathered."""
        ...

    def wake(self, notes: Sequence[Any]) -> None:
        """Go on from these."""
        ...


@dataclass
class Keeper:
    """Takes a point's checkpoints, in its folder, every so many seconds, and goes on from the one that is there."""

    folder: Path
    every: float
    log: Path
    stamp: Stamp | None = None  # of what is run: a checkpoint of anything else is left aside, and all without one
    steps: int = 0
    _saved: dict[str, Any] | None = None
    _next: float = 0.0
    _observers: "list[Observer]" = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read what an earlier run has left."""
        self._saved = _read(path_in(self.folder), self.stamp)
        self._next = time.monotonic() + self.every

    def record(self) -> Record:
        """Return the record of an earlier run, empty where there is none."""
        return {} if self._saved is None else keep.unpacked(self._saved["record"])

    def attend(self, world: World, lesson: "Lesson", learner: Recorded) -> None:
        """Look after this world, whose clock stands at zero."""
        self.world, self.lesson, self.learner = world, lesson, learner

    def watch(self, observer: "Observer") -> None:
        """Have an observer rest as long as there are no values, and go on with what it had gathered before."""
        observer.resting = self._saved is not None
        self._observers.append(observer)

    def passed(self) -> None:
        """Note that one more event has happened.  Raises ReplayError where a replay is not the first run again."""
        self.steps += 1
        if self._saved is not None:
            if self.steps == self._saved["steps"]:
                self._resume(self._saved)
                self._saved = None
        elif time.monotonic() >= self._next:
            began = time.monotonic()
            self.save()
            ended = time.monotonic()
            self._next = ended + max(self.every, SHARE * (ended - began))

    def end(self) -> None:
        """Remove the checkpoint: the point has ended.  Raises ReplayError where it is still replayed."""
        if self._saved is not None:
            raise ReplayError("the replay of an interrupted point has ended before its checkpoint")
        path_in(self.folder).unlink(missing_ok=True)
        if path_in(self.folder).parent.exists():
            path_in(self.folder).parent.rmdir()

    def save(self) -> None:
        """Take a checkpoint, in place of the last one.  Raises OSError where it cannot be written."""
        from fedsim.learner.preserve import Unfit

        try:
            values = self.lesson.pack([keep.held(self.learner), [one.notes() for one in self._observers]])
        except Unfit as error:
            self.every = math.inf
            log.warning("no checkpoint can be taken, so the point starts again if it is interrupted: %s", error)
            return
        whole = {
            "stamp": self.stamp.text() if self.stamp else "", "steps": self.steps,
            "now": self.world.env.now, "version": self.world.server.version, "asked": self.learner.asked,
            "log": self.log.read_bytes(), "values": values, "record": keep.packed(self.learner.record),
        }  # fmt: skip
        path = path_in(self.folder)
        path.parent.mkdir(exist_ok=True)
        hidden = path.with_suffix(".partial")
        with hidden.open("wb") as file:
            file.write(msgpack.packb(whole))
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)

    def _resume(self, saved: dict[str, Any]) -> None:
        """Give everything the values of the checkpoint: the clock has come to its moment."""
        world = self.world
        here = world.env.now, world.server.version, self.learner.asked
        if here != (saved["now"], saved["version"], saved["asked"]):
            raise ReplayError("the replay of an interrupted point has come to another moment than its first run")
        held, observed = self.lesson.unpack(saved["values"])
        keep.resume(self.learner, held)
        for observer, notes in zip(self._observers, observed, strict=True):
            observer.wake(notes)
        self.log.write_bytes(saved["log"])


def _read(path: Path, own: Stamp | None) -> dict[str, Any] | None:
    """Return a checkpoint, or None where there is none of what is run now."""
    if own is None or not path.is_file():
        return None
    try:
        saved: Any = msgpack.unpackb(path.read_bytes())
    except (ValueError, msgpack.UnpackException):  # the machine has stopped before it was on the disk
        return None
    return saved if isinstance(saved, dict) and own.continues(saved.get("stamp")) else None

"""Checkpoints of a running point, from which an interrupted one resumes by replay.

Simulated time does not depend on trained values.  So a resumed point runs its clock again from zero, with answers from
its own record (`learner/recorded.py`) and without training, folding or scoring, up to the event at which the checkpoint
was taken; there the learner restores its values.  Its tables and views are then equal byte for byte to those of an
uninterrupted run.

When a checkpoint is taken depends on the host's clock; results never do.  One can be taken between any two events
unless something was raised in the last one, under every protocol, with noise, masks and forgers.  None is taken of a
point that learns nothing, where replaying is running, or whose algorithm keeps values that
`learner/checkpoint/preserve.py` does not support; these start from the beginning.  A checkpoint is ignored if its stamp
(`stamp.py`) differs from what is run now, a library has another version, or its file is damaged; the machine may
differ.  What became of a point's checkpoints is noted in its provenance, not in run.log: when one is taken is the
host's.

Each checkpoint is complete, including all views recorded so far.

Its file holds two msgpack maps, {"stamp": text, "sum": BLAKE2b of the rest} and then the contents.  The stamp comes
first, so that it is known without reading the rest, which may be large.  A file that was cut short, or of which a byte
has changed, is *damaged* and never used in part.  Reading it runs no code.
"""

import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgpack

from fedsim.learner.checkpoint import checkpoint_state as keep
from fedsim.learner.recorded import Recorded, ReplayError, packed, unpacked
from fedsim.learner.views import Views
from fedsim.point.results.stamp import Stamp

if TYPE_CHECKING:
    from fedsim.point.build.assemble import Built

LOG = "run.log"
EVERY = 60.0  # seconds of real time
SHARE = 20  # time between checkpoints, at least, in multiples of the time that one takes
Saved = dict[str, Any]  # a checkpoint's contents


def saved_in(folder: Path, stamp: Callable[[], Stamp], notes: MutableMapping[str, str]) -> Saved | None:
    """Return the checkpoint in a point's folder, None if there is none, or one of another stamp, or a damaged one.

    The latter is noted.  The answers that it holds are under "record", as a replay wants them.
    """
    try:
        if (known := stamp_in(folder)) is not None and stamp().continues(known):
            saved = read(folder)
            return {**saved, "record": unpacked(saved["record"])}
    except Damaged:
        notes["checkpoint"] = "was damaged and was discarded"
    return None


@dataclass
class Checkpointer:
    """Takes the checkpoints of a point that learns, every `every` seconds, and resumes from a saved one.

    `due` is when the next one is to be taken, `resume_at` the number of events after which the point resumes, 0 if it
    does not.
    """

    folder: Path
    every: float
    stamp: Stamp  # of what is run
    built: "Built"
    views: Views | None = None
    saved: Saved | None = None
    notes: MutableMapping[str, str] = field(default_factory=dict)  # for the provenance of the point

    def __post_init__(self) -> None:
        """Wait for the end of a replay, during which none is taken and no view recorded."""
        assert self.built.setup is not None
        assert isinstance(self.built.learner, Recorded)
        self.setup, self.learner = self.built.setup, self.built.learner
        self.resume_at: int = self.saved["steps"] if self.saved else 0
        self.due = math.inf if self.saved else time.monotonic() + self.every
        if self.views:
            self.views.resting = self.saved is not None

    def resume(self) -> None:
        """Restore the saved values at the event of their checkpoint.  Raises ReplayError if the replay diverged."""
        saved = self.saved
        assert saved is not None
        if any(value != saved[name] for name, value in self._moment().items()):
            differ = "time, version or number of questions differ"
            raise ReplayError(f"the replay diverged from the interrupted run ({differ})")
        held, seen = self.setup.unpack(saved["values"])
        keep.resume(self.learner, held)
        if self.views:
            self.views.wake(seen)
        (self.folder / LOG).write_bytes(saved["log"])
        self.saved, self.due = None, time.monotonic() + self.every

    def take(self, events: int) -> None:
        """Take a checkpoint after so many events, unless something was raised in the last one; plan the next."""
        if any(event.triggered and not event.ok for *_, event in self.built.world.env._queue):
            return  # an event has failed and is still to be processed
        began = time.monotonic()
        self.save(events)
        ended = time.monotonic()
        self.due = ended + max(self.every, SHARE * (ended - began))

    def save(self, events: int) -> None:
        """Write a checkpoint, replacing the last one.  Raises OSError if it cannot be written."""
        from fedsim.learner.checkpoint.preserve import Unfit

        try:
            values = self.setup.pack([keep.held(self.learner), self.views.notes() if self.views else None])
        except Unfit as error:
            self.disable(f"no checkpoint can hold {error}")
            return
        contents = {
            "steps": events, **self._moment(), "values": values,
            "log": (self.folder / LOG).read_bytes(), "record": packed(self.learner.record),
        }  # fmt: skip
        write(self.folder, self.stamp.text(), contents)

    def disable(self, reason: str) -> None:
        """Take no further checkpoints, and note why."""
        self.every = math.inf
        self.notes["checkpoint"] = reason

    def end(self) -> None:
        """Remove the checkpoint of a point that has ended.  Raises ReplayError if the replay has not ended."""
        if self.saved is not None:
            raise ReplayError("the replay of an interrupted run has ended before its checkpoint")
        discard(self.folder)

    def _moment(self) -> dict[str, float]:
        world = self.built.world
        return {"now": world.env.now, "version": world.server.version, "asked": self.learner.questions}


FOLDER, FILE = "state", "checkpoint"
BROKEN = (OSError, ValueError, TypeError, LookupError, msgpack.UnpackException)


class Damaged(Exception):  # noqa: N818 - the name says what is wrong
    """A checkpoint that cannot be read, or is not what was written."""


def path_in(folder: Path) -> Path:
    """Return the path of the checkpoint in a point's folder."""
    return folder / FOLDER / FILE


def write(folder: Path, stamp: str, contents: Mapping[str, Any]) -> None:
    """Write a checkpoint, replacing the last one.  Raises OSError if it cannot be written."""
    path, body = path_in(folder), msgpack.packb(contents)
    path.parent.mkdir(exist_ok=True)
    hidden = path.with_suffix(".partial")
    with hidden.open("wb") as file:
        file.write(msgpack.packb({"stamp": stamp, "sum": hashlib.blake2b(body).digest()}))
        file.write(body)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)


def stamp_in(folder: Path) -> str | None:
    """Return the text of the checkpoint's stamp, None if there is no checkpoint.

    Only the beginning of the file is read.  Raises Damaged if that is not the beginning of a checkpoint.
    """
    if not path_in(folder).is_file():
        return None
    with _opened(folder) as file:
        return _head(file)[0]


def check(folder: Path) -> None:
    """Raise Damaged unless the file is what was written."""
    with _opened(folder) as file:
        _, digest = _head(file)
        if hashlib.file_digest(file, "blake2b").digest() != digest:
            raise ValueError("the contents have another digest")


def read(folder: Path) -> dict[str, Any]:
    """Return the contents of the checkpoint.  Raises Damaged if they are not what was written."""
    check(folder)
    with path_in(folder).open("rb") as file:
        _head(file)
        contents: dict[str, Any] = msgpack.unpackb(file.read())
    return contents


def discard(folder: Path) -> None:
    """Remove the checkpoint in a point's folder, if there is one."""
    if (folder / FOLDER).exists():
        shutil.rmtree(folder / FOLDER)


@contextmanager
def _opened(folder: Path) -> Iterator[BufferedReader]:
    """Open the checkpoint in a folder.  Raises Damaged in place of the errors of reading it."""
    try:
        with path_in(folder).open("rb") as file:
            yield file
    except BROKEN:
        raise Damaged("its checkpoint is damaged") from None


def _head(file: BufferedReader) -> tuple[str, bytes]:
    """Return the stamp and the sum, leaving the file at its contents.  Raises one of BROKEN if they are not there."""
    head = msgpack.Unpacker(file)
    held = head.unpack()
    stamp, digest = held["stamp"], held["sum"]
    if not isinstance(stamp, str) or not isinstance(digest, bytes):
        raise TypeError("a stamp is a text, a sum bytes")
    file.seek(head.tell())
    return stamp, digest

"""Checkpoint: what a running point holds at some moment, so that a killed one can go on: resume by replay.

Simulated time does not depend on trained values.  So a point that goes on runs its clock again from zero, answered from
the tape and with nothing trained, folded or scored, up to the event at which the checkpoint was taken; there the
server's state, the clients' memories, jobs that wait to be trained, what observers have gathered, and whatever else has
crossed and is still held, take their values again.  Its tables, and the views that it keeps of what clients receive,
then are those of a run that was never interrupted, byte for byte.

When a checkpoint is taken is up to this host's clock; what comes of the point never is.  One is taken between any two
events, under every protocol, with noise, masks and forgers too.  None is taken of a point whose algorithm keeps values
that `learn/preserve.py` does not know, which run.log tells, nor of one that learns nothing: to replay its clock is to
run it.  These start anew.  A checkpoint is left aside where its stamp (`stamp.py`) is not that of what is run now, or a
library has another version, but not where the machine is another.

Each checkpoint is written whole: where views are kept, it has all that they hold.
"""

import json
import logging
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgpack

from fedsim.record import Recorder, Score
from fedsim.stamp import Stamp, parsed
from fedsim.tape import Astray, Tape, TapedAround, Unfit
from fedsim.taped import TapedGuard
from fedsim.world import World

if TYPE_CHECKING:
    from fedsim.learn.cohort import JobPromise
    from fedsim.learn.evaluate import Evaluator
    from fedsim.learning import Lesson

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
            told = saved.unpack() if saved.read_map_header() and saved.unpack() == "stamp" else None
    except (OSError, ValueError, TypeError, msgpack.UnpackException):
        return None
    return (parsed(told) or told) if isinstance(told, str) else ""


def path_in(folder: Path) -> Path:
    """Return where a point that runs in this folder keeps its checkpoint."""
    return folder / FOLDER / FILE


class Observer(Protocol):
    """Who looks at values and changes nothing: the evaluator, and what keeps the clients' views."""

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
    tape: Tape = field(default_factory=Tape)
    steps: int = 0
    _saved: dict[str, Any] | None = None
    _next: float = 0.0
    _observers: "list[Observer]" = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read what an earlier run has left."""
        self._saved = _read(path_in(self.folder), self.stamp)
        if self._saved is not None:
            self.tape = Tape(*msgpack.unpackb(self._saved["tape"]))
        self._next = time.monotonic() + self.every

    def attend(self, world: World, lesson: "Lesson", evaluator: "Evaluator", recorder: Recorder) -> None:
        """Look after this world, whose clock stands at zero."""
        self.world, self.lesson, self.recorder = world, lesson, recorder
        if (guard := world.server.guard) is not None:
            world.server.guard = TapedGuard(self.tape, guard)
        self.watch(evaluator)

    def watch(self, observer: "Observer") -> None:
        """Have an observer rest as long as nothing is to be observed, and go on with what it had observed before."""
        observer.resting = self.tape.replaying
        self._observers.append(observer)

    def passed(self) -> None:
        """Hear that one more event has happened.  Raises Astray where a replay is not the first run again."""
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
        """Hear that the point has ended, so that nothing need be kept.  Raises Astray where it is still replayed."""
        if self._saved is not None:
            raise Astray("the replay of an interrupted point has ended before its checkpoint")
        path_in(self.folder).unlink(missing_ok=True)
        if path_in(self.folder).parent.exists():
            path_in(self.folder).parent.rmdir()

    def save(self) -> None:
        """Take a checkpoint, in place of the last one.  Raises OSError where it cannot be written."""
        try:
            if not self.tape.whole:
                raise Unfit("a tree that is no dict")
            values = self.lesson.pack(self._values())
        except Unfit as error:
            self.every = math.inf
            log.warning("no checkpoint can be taken, so the point starts again if it is interrupted: %s", error)
            return
        tape = self.tape
        whole = {
            "stamp": self.stamp.text() if self.stamp else "", "steps": self.steps,
            "now": self.world.env.now, "version": self.world.server.version,
            "log": self.log.read_bytes(), "scores": self.recorder.kept(Score), "values": values,
            "streams": json.dumps(self.world.rng.states()),
            "tape": msgpack.packb([tape.calls, tape.sizes, tape.uploads]),
        }  # fmt: skip
        path = path_in(self.folder)
        path.parent.mkdir(exist_ok=True)
        hidden = path.with_suffix(".partial")
        with hidden.open("wb") as file:
            file.write(msgpack.packb(whole))
            file.flush()
            os.fsync(file.fileno())
        os.replace(hidden, path)

    def _values(self) -> dict[str, Any]:
        """Return all that the learning half and the clock's half hold of what was computed."""
        world, tape, cohort = self.world, self.tape, self.lesson.cohort
        pending = cohort.pending
        around = {n: one for n, one in tape.promises.items() if isinstance(one, TapedAround)}
        plain = {n: one for n, one in tape.promises.items() if n not in around}
        jobs: dict[int, JobPromise] = {id(one): one for one in pending}
        jobs |= {id(one.inner): one.inner for one in plain.values() if one.inner is not None and one.inner.done()}
        place = {key: number for number, key in enumerate(jobs)}
        hosts = {host.number: [host.state, host.notes, *host.notebook()] for host in world.clients.known()}
        return {
            "trees": sorted(tape.trees.values(), key=lambda tree: tree.number),
            "jobs": [(one.job, one.value() if one.done() else None) for one in jobs.values()],
            "pending": len(pending),
            "promises": {n: place[id(one.inner)] for n, one in plain.items() if id(one.inner) in place},
            "around": {n: one.inner.opened for n, one in around.items()},
            "hosts": hosts,
            "servers": [host.state for host in (world.server, *world.edges)],
            "observed": [one.notes() for one in self._observers],
        }

    def _resume(self, saved: dict[str, Any]) -> None:
        """Give everything the values of the checkpoint: the clock has come to its moment."""
        world, tape, cohort = self.world, self.tape, self.lesson.cohort
        if (world.env.now, world.server.version) != (saved["now"], saved["version"]):
            raise Astray("the replay of an interrupted point has come to another moment than its first run")
        tape.end_replay()
        values = self.lesson.unpack(saved["values"], tape.blank)
        pending, jobs = values["pending"], values["jobs"]
        made = [cohort.submit(job) for job, _ in jobs[:pending]]
        made += [cohort.settled(job, upload) for job, upload in jobs[pending:]]
        for number, place in values["promises"].items():
            if number in tape.promises:
                tape.promises[number].inner = made[place]
        for number, opened in values["around"].items():
            if number in tape.promises:
                tape.promises[number].inner.reopen(opened)
        for number, (state, notes, memory, settled) in values["hosts"].items():
            host = world.clients.host(number)
            host.state, host.notes = state, notes
            host.reopen(memory, settled)
        for server, state in zip((world.server, *world.edges), values["servers"], strict=True):
            server.state = state
        world.rng.move(json.loads(saved["streams"]))
        self.recorder.reopen(Score, saved["scores"])
        for observer, observed in zip(self._observers, values["observed"], strict=True):
            observer.wake(observed)
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

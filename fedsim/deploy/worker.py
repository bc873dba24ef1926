"""A client's half of a deployed run: answers questions with its package, in whatever process they arrive.

A job is the simulator's: the same `work`, trained by the same code from the same seed, so that with one thread it
uploads the same bytes.  The client's data and memory stay in its package, but for memories that are asked for after the
run, to score personal models.  Each job may run in a process of its own, so the memory after every job is kept on the
client's disk until the run has ended.  Reading it runs no code (`learner/checkpoint/preserve.py`).

Not modelled: a client that does two jobs at once, and a limit of space; a run of R rounds keeps R memories.
"""

import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch

from fedsim.core import whole_files
from fedsim.core.errors import UserError
from fedsim.core.record import SERVER
from fedsim.core.seeds import Streams
from fedsim.core.version import __version__
from fedsim.core.wire import Tree
from fedsim.deploy import messages, package
from fedsim.deploy.messages import END, HELLO, MEMORY, WHO, Question, Response, pack, unpack
from fedsim.learn import reported
from fedsim.learn.algorithm import Job
from fedsim.learner.checkpoint import preserve
from fedsim.learner.client import is_finite
from fedsim.net.codec import compress
from fedsim.net.message import Message
from fedsim.point.build import learning
from fedsim.point.build.parts import Parts
from fedsim.point.build.prepared import Prepared


class Worker:
    """One client, from its package."""

    def __init__(self, folder: Path) -> None:
        """Read the package.  Raises UserError if there is none."""
        scenario, self.own = package.read(folder)
        self._folder, self._has = folder, package.described(scenario, self.own)
        device = learning.choose_device(scenario.device)
        if device != "cpu":
            scenario, self.own = package.read(folder, device)
        self._parts, self._device = Parts(scenario), device
        overview = package.overview_of(self.own.known)
        prepared = Prepared([self.own.periods], self.own.features, self.own.classes, overview, {})
        self._setup = learning.setup_of(self._parts, prepared, self.own.clients, device)
        self._kept = Kept(folder, self._setup.given)

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a question.  Faults become answers, too, so that the server can tell of them."""
        received, up = time.time(), uptime()
        try:
            return pack(self._answer(unpack(Question, data), received, up))
        except UserError as error:
            return pack(Response(self.own.client, refused=str(error)))
        except Exception as error:  # any: the server shows it
            return pack(Response(self.own.client, error=f"{type(error).__name__}: {error}"))

    def _answer(self, asked: Question, received: float, up: float) -> Response:
        digest = package.digest(self._has)
        if asked.package not in ("", digest):
            raise UserError(f"the package {self._folder} is not the one with which this run began; put that back")
        if asked.what == WHO:
            return Response(self.own.client, package=digest)
        if asked.what == HELLO:
            self._kept.forget()
            about = f"fedsim {__version__}, torch {torch.__version__}"
            has = {**self._has, **package.code(self._parts.scenario)}
            return Response(self.own.client, json.dumps(has).encode(), about=about, package=digest)
        if asked.what == MEMORY:
            memories = {ask: self._kept.after(ask)["memory"] for ask in asked.asks}
            return Response(self.own.client, preserve.pack(memories, preserve.DataGraphs([])))
        if asked.what == END:
            self._kept.forget()
            return Response(self.own.client)
        return self._work(asked, received, up)

    def _work(self, asked: Question, received: float, up: float) -> Response:
        began, client = time.time(), self.own.client
        down = self._parts.codecs["down"]
        envelope, payload = messages.parted(asked.message)
        download = messages.tensors(payload if down is None else down.decode(payload), self._device)
        before = self._kept.after()
        period = next(each for each in self.own.periods if each.number == asked.period)
        memory: dict[str, Any] = {**before["memory"]}
        memory.pop(reported.KEY, None)
        job = Job(client, asked.step, period.number, download, period.graph, memory, asked.seed)
        tree, notes = self._compressed(self._setup.cohort.submit(job).value(), asked, before["notes"])
        loss = reported.of(job.memory)
        self._kept.keep(asked.ask, job.memory, notes)
        message = Message(client, SERVER, asked.step, tree, envelope["version"]).encode()
        return Response(client, message, received, began, time.time(), loss, up)

    def _compressed(self, tree: Tree, asked: Question, notes: dict[str, Any]) -> tuple[Tree, dict[str, Any]]:
        """Return what the codec makes of an upload, and what it remembers; its draws depend on the job's seed alone."""
        codec = self._parts.codecs["up"]
        if codec is None or (codec.finite and not is_finite(tree)):
            return tree, notes
        before, rng = notes.get(asked.step, {}), Streams(asked.seed)("codec up")
        encoded, _, after = compress(codec, tree, before, rng)
        return encoded, {**notes, asked.step: after}


FOLDER, LATEST = "memory", "latest"


class Kept:
    """The memories of one client, in its package."""

    def __init__(self, package: Path, given: preserve.DataGraphs) -> None:
        """Use the package's folder; `given` are the graphs that a memory may refer to."""
        self._folder, self._given = package / FOLDER, given

    def after(self, ask: int | str = LATEST) -> dict[str, Any]:
        """Return what the job of an ask left, or the last finished one: "memory", and "notes" of the codec."""
        path = self._folder / str(ask)
        return dict(preserve.unpack(path.read_bytes(), self._given)) if path.exists() else {"memory": {}, "notes": {}}

    def keep(self, ask: int, memory: dict[str, Any], notes: dict[str, Any]) -> None:
        """Keep what the job of an ask leaves, whole or not at all.  Raises OSError if it cannot be written."""
        self._folder.mkdir(exist_ok=True)
        packed = preserve.pack({"memory": memory, "notes": notes}, self._given)
        for name in (str(ask), LATEST):
            whole_files.replace(self._folder / name, packed)

    def forget(self) -> None:
        """Delete all memories."""
        for path in self._folder.glob("*"):
            path.unlink()


STAT, BEGAN = Path("/proc/self/stat"), 19  # place of the beginning among the fields after the name (proc(5): field 22)


def uptime() -> float:
    """Return the seconds since this process began, NaN if the system does not tell."""
    try:
        fields = STAT.read_text("utf-8", "replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[BEGAN]) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, ValueError, IndexError):
        return math.nan

"""A client's half of a deployed run: answers questions with its package, in whatever process they arrive.

A job is the simulator's: the same `work`, trained by the same code from the same seed, so that with one thread it
uploads the same bytes.  The client's data and memory stay in its package, but for memories that are asked for after the
run, to score personal models.

Not modelled: a client that does two jobs at once.
"""

import json
import time
from pathlib import Path
from typing import Any

import torch

from fedsim.core.errors import UserError
from fedsim.core.record import SERVER
from fedsim.core.seeds import Streams
from fedsim.core.version import __version__
from fedsim.core.wire import Tree
from fedsim.deploy import identity, neighbours, package, trees
from fedsim.deploy.memory import Kept
from fedsim.deploy.question import END, HELLO, MEMORY, WHO, Answer, Question, pack, unpack
from fedsim.deploy.uptime import uptime
from fedsim.learn import reported
from fedsim.learn.algorithm import Job
from fedsim.learner import preserve
from fedsim.net.codec import compress
from fedsim.net.finite import is_finite
from fedsim.net.message import Message
from fedsim.point import learning
from fedsim.point.parts import Parts
from fedsim.point.prepared import Prepared


class Worker:
    """One client, from its package."""

    def __init__(self, folder: Path) -> None:
        """Read the package.  Raises UserError if there is none."""
        scenario, self.own = package.read(folder)
        self._folder, self._has = folder, identity.described(scenario, self.own)
        device = learning.choose_device(scenario.device)
        if device != "cpu":
            scenario, self.own = package.read(folder, device)
        self._parts, self._device = Parts(scenario), device
        seen = neighbours.overview_of(self.own.known)
        made = Prepared([self.own.periods], self.own.features, self.own.classes, seen, {})
        self._lesson = learning.lesson_of(self._parts, made, self.own.clients, device)
        self._kept = Kept(folder, self._lesson.given)

    def answer(self, data: bytes) -> bytes:
        """Return the answer to a question.  Faults become answers, too, so that the server can tell of them."""
        received, up = time.time(), uptime()
        try:
            return pack(self._answer(unpack(Question, data), received, up))
        except UserError as error:
            return pack(Answer(self.own.client, refused=str(error)))
        except Exception as error:  # any: the server shows it
            return pack(Answer(self.own.client, error=f"{type(error).__name__}: {error}"))

    def _answer(self, asked: Question, received: float, up: float) -> Answer:
        digest = identity.digest(self._has)
        if asked.package not in ("", digest):
            raise UserError(f"the package {self._folder} is not the one with which this run began; put that back")
        if asked.what == WHO:
            return Answer(self.own.client, package=digest)
        if asked.what == HELLO:
            self._kept.forget()
            about = f"fedsim {__version__}, torch {torch.__version__}"
            has = {**self._has, **identity.code(self._parts.scenario)}
            return Answer(self.own.client, json.dumps(has).encode(), about=about, package=digest)
        if asked.what == MEMORY:
            return Answer(
                self.own.client, preserve.pack({ask: self._kept.after(ask) for ask in asked.asks}, preserve.Given([]))
            )
        if asked.what == END:
            self._kept.forget()
            return Answer(self.own.client)
        return self._work(asked, received, up)

    def _work(self, asked: Question, received: float, up: float) -> Answer:
        began, client = time.time(), self.own.client
        down = self._parts.codecs["down"]
        envelope, payload = trees.parted(asked.message)
        download = trees.tensors(payload if down is None else down.decode(payload), self._device)
        before = self._kept.latest()
        period = next(one for one in self.own.periods if one.number == asked.period)
        memory: dict[str, Any] = {**before["memory"]}
        memory.pop(reported.KEY, None)
        job = Job(client, asked.step, period.number, download, period.graph, memory, asked.seed)
        promise = self._lesson.cohort.submit(job)
        tree, notes = self._compressed(promise.value(), asked, before["notes"])
        loss = reported.of(job.memory)
        operations = self._lesson.cohort.flops(job)
        self._kept.keep(asked.ask, job.memory, notes)
        message = Message(client, SERVER, asked.step, tree, envelope["version"]).encode()
        return Answer(client, message, received, began, time.time(), operations, loss, up)

    def _compressed(self, tree: Tree, asked: Question, notes: dict[str, Any]) -> tuple[Tree, dict[str, Any]]:
        """Return what the codec makes of an upload, and what it remembers; its draws depend on the job's seed alone."""
        codec = self._parts.codecs["up"]
        if codec is None or (codec.finite and not is_finite(tree)):
            return tree, notes
        before, rng = notes.get(asked.step, {}), Streams(asked.seed)("codec up")
        encoded, _, after = compress(codec, tree, before, rng)
        return encoded, {**notes, asked.step: after}

"""Buffers of a module, such as the statistics of BatchNorm, carried beside what an algorithm sends.

They never lie in the trees that an algorithm sees, since an optimiser on the server, a correction or a mean of
integers would break them.  Averaged ones travel in downloads and uploads; otherwise each client has its own (FedBN, Li
et al., ICLR 2021).  Either stands before an algorithm.  Whatever a client evaluates in its work, be it a model that it
was sent, it evaluates with the buffers that it has then.

Averages are weighted as the algorithm weights models (`weight_of`), times the protocol's discount for stale ones; what
the discounts leave is the server's own, so that a variance stays between those of the clients.  Buffers of integers are
the server's first ones, and travel down alone.

An algorithm whose clients go on from models of their own has no mean of buffers that belongs to them, and one that runs
models on its server has no buffers there (`Needs`): `unfit` says so.  Not modelled: methods of their own for buffers,
forged ones but among peers, whose attackers forge all that they send, and means of them other than the weighted one.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from torch import Tensor

from fedsim.core import mean
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Algorithm, Job, Memory, Reply, State, Work, title_of
from fedsim.learn.engine import tree
from fedsim.learn.modules.resident import Resident

KEY = "buffers"  # in states, downloads, uploads and memories
Buffers = dict[str, Tensor]


def carried(algorithm: Algorithm, policy: str) -> Algorithm:
    """Return the algorithm with the buffers of its module averaged (`average`) or each client's own (`local`)."""
    own = type(algorithm)
    before = AveragedBuffers if policy == "average" else LocalBuffers
    declared = {name: getattr(own, name) for name in own.declares} if before is LocalBuffers else {}
    cls = type(own.__name__, (before, own), {"title": title_of(own), **declared})
    return cls(**{field.name: getattr(algorithm, field.name) for field in fields(algorithm)})  # type: ignore[no-any-return]


def unfit(algorithm: Algorithm, policy: str) -> str:
    """Return why a module with buffers does not go with the algorithm, "" where it does."""
    name = title_of(type(algorithm))
    if "no buffers" in algorithm.needs:
        return (
            f"{name} runs models outside of their clients' training, where nobody's buffers are: take a module without"
        )
    if "own buffers" in algorithm.needs and policy == "average":
        return f"{name}, as it is set, has models to which no mean of buffers belongs: write buffers: local"
    return ""


class LocalBuffers(Algorithm):
    """What stands before an algorithm where each client keeps buffers of its own, which begin as the module's."""

    @property
    def resident(self) -> Resident:
        """The module."""
        return self.task.model.resident  # type: ignore[attr-defined, no-any-return]

    @property
    def first(self) -> Buffers:
        """The buffers that the module begins with."""
        return self.resident.first_buffers

    def work(self, job: Job) -> Tree | Work:
        """Work as the algorithm does, and evaluate with the client's buffers."""
        made = self._evaluating(job, lambda: super(LocalBuffers, self).work(job))  # type: ignore[safe-super]
        return self._in_turn(job, made) if isinstance(made, Generator) else made

    def _in_turn(self, job: Job, script: Work) -> Work:
        params = None
        while True:  # jobs take turns, so that each brings its buffers every time
            try:
                fit = self._evaluating(job, partial(script.send, params))
            except StopIteration as stop:
                return stop.value
            params = yield fit

    def _evaluating(self, job: Job, act: Callable[[], Any]) -> Any:
        self.resident.set_buffers(job.memory.get(KEY, self.first))
        try:
            return act()
        finally:
            self.resident.take_back()

    def common(self, state: State) -> Tree | None:
        """Return None: a model without its buffers is none."""
        return None

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters, and the client's buffers."""
        return {**super().predictor(state, client, memory), **memory.get(KEY, self.first)}

    def personal(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters, and the client's buffers."""
        return {**super().personal(state, client, memory), **memory.get(KEY, self.first)}


class AveragedBuffers(LocalBuffers):
    """What stands before an algorithm where the server averages buffers as it averages models."""

    def start(self) -> State:
        """Return the first state, with the module's first buffers."""
        return {**super().start(), KEY: self.first}  # type: ignore[safe-super]

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send what the algorithm sends, and buffers beside a model."""
        sent = super().download(state, client, step)  # type: ignore[safe-super]
        return {**sent, KEY: state[KEY]} if "model" in sent else sent

    def work(self, job: Job) -> Tree | Work:
        """Work with the buffers that were sent, and send those that training leaves."""
        return self._working(job) if KEY in job.download else super().work(job)

    def _working(self, job: Job) -> Work:
        job.memory[KEY] = job.download[KEY]
        sent = super().work(job)
        if not isinstance(sent, dict):
            sent = yield from sent
        return {**sent, KEY: floats(job.memory[KEY])}

    def upload_like(self, job: Job) -> Tree | None:
        """Return a tree as large as the upload."""
        like = super().upload_like(job)
        return like if like is None or KEY not in job.download else {**like, KEY: floats(self.first)}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Update, and average the buffers."""
        new = super().update(state, replies, step)  # type: ignore[safe-super]
        sent = [reply for reply in replies if KEY in reply.upload]
        if not sent:
            return {**new, KEY: state[KEY]}
        masses = [weight_of(self, reply) for reply in sent]
        shares = [mass / sum(masses) if sum(masses) else 1 / len(sent) for mass in masses]
        shares = [share * reply.weight for share, reply in zip(shares, sent, strict=True)]
        trees, rest = [reply.upload[KEY] for reply in sent], 1 - sum(shares)
        if rest > 1e-9:  # of stale replies, whose discount leaves a part to the server's own
            trees, shares = [*trees, floats(state[KEY])], [*shares, rest]
        return {**new, KEY: {**state[KEY], **tree.mean(trees, shares)}}

    def common(self, state: State) -> Tree | None:
        """Return the common model, and the server's buffers."""
        model = super(LocalBuffers, self).common(state)
        return None if model is None else {**model, **state[KEY]}

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters, and the server's buffers."""
        return {**super().predictor(state, client, memory), **state[KEY]}

    def share(self, state: State) -> Tree:
        """Return what peers send each other, and buffers."""
        return {**super().share(state), KEY: floats(state[KEY])}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Merge shares, and average the buffers."""
        mixed = super().mix(state, shares, weights)
        return {**mixed, KEY: {**state[KEY], **mean.weighted([share[KEY] for share in shares], weights)}}


def weight_of(algorithm: Algorithm, reply: Reply) -> float:
    """Return a reply's weight in the mean of models: the `samples` of its upload, or else its `mass`."""
    samples = reply.upload.get("samples")
    return algorithm.mass(reply) if samples is None else float(samples)


def floats(buffers: Buffers) -> Buffers:
    """Return the buffers that are averaged: all but integers."""
    return {name: buffer for name, buffer in buffers.items() if buffer.is_floating_point()}

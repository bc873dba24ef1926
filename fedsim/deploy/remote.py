"""The learner of a deployed run: what it asks is trained elsewhere, and what it scores waits for the end.

`Remote` is a backend that trains nothing: the promise of a job is filled with the client's upload when it arrives.
Scores are taken of the same models at the same moments as in a simulated run, but computed only after the last round,
so that they take no real time from it.  Where they need what a client remembers, it is asked for then.

Not modelled: federated evaluation.  The server computes scores from its own copy of the data, as the
author of the scenario can.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from fedsim.core.record import Row, ScoreRow
from fedsim.core.wire import Tree
from fedsim.learn import reported
from fedsim.learn.algorithm import Job
from fedsim.learner.client import Client, Upload
from fedsim.learner.contract import Scores, States
from fedsim.learner.live import Live

if TYPE_CHECKING:
    from fedsim.data.graph import Period


class RemoteMemory(Mapping[str, Any]):
    """What a client remembers after an ask: the loss that came with its upload, and the rest when it is first read."""

    def __init__(self, client: int, ask: int, loss: float, read: Callable[[int, int], dict[str, Any]]) -> None:
        """Know only the loss; `read` returns the rest."""
        self.client, self.ask, self._loss, self._read = client, ask, loss, read

    def __getitem__(self, key: str) -> Any:
        """Return one entry; KeyError without it."""
        return self._loss if key == reported.KEY else self._rest[key]

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self._rest)

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._rest)

    @cached_property
    def _rest(self) -> dict[str, Any]:
        return self._read(self.client, self.ask)


class Memories:
    """Fetches memories, all that scores may need as soon as one of them is read; `wanted` are their asks by client."""

    def __init__(self, fetch: Callable[[Mapping[int, Sequence[int]]], dict[tuple[int, int], dict[str, Any]]]) -> None:
        """Fetch nothing yet."""
        self._fetch = fetch
        self.wanted: dict[int, list[int]] = {}

    def read(self, client: int, ask: int) -> dict[str, Any]:
        """Return what a client remembered after an ask; empty if it does not say."""
        return self._fetched.get((client, ask), {})

    @cached_property
    def _fetched(self) -> dict[tuple[int, int], dict[str, Any]]:
        return self._fetch(self.wanted)


@dataclass(eq=False)
class RemotePromise:
    """The upload of a job on a client (the Promise of learner/contract.py)."""

    job: Job
    declared: int | None = None
    like: None = None
    _value: Tree = None
    _memory: Any = field(default_factory=dict)

    @property
    def nbytes(self) -> int:
        """The encoded size, once it has arrived."""
        return self.declared or 0

    def fill(self, tree: Tree, nbytes: int, memory: RemoteMemory) -> None:
        """Take what has arrived."""
        self._value, self.declared, self._memory = tree, nbytes, memory

    def value(self) -> Tree:
        """Return the upload."""
        return self._value

    def memory(self) -> Any:
        """Return what the client remembers."""
        return self._memory

    def cancel(self) -> None:
        """Expect nothing any more."""


class Moment(NamedTuple):
    """A moment at which scores were due: the states then, and every client as it was."""

    states: States
    arrived: "Sequence[tuple[int, Period]] | None"
    clients: dict[int, Client]


@dataclass(eq=False)
class Remote(Live):
    """An algorithm whose jobs are done on clients, and whose scores are computed when the run has ended."""

    _due: list[Moment] = field(default_factory=list, init=False)
    _stamps: list[Mapping[str, Any]] = field(default_factory=list, init=False)  # the time and the version of each

    def begin(
        self, clients: Sequence[int], step: str, downloads: Sequence[Tree], seeds: Sequence[int], travels: bool
    ) -> tuple[list[Upload], list[float]]:
        """Return the uploads to expect; nothing of a client's data or memory is read."""
        uploads = []
        for client, download, seed in zip(clients, downloads, seeds, strict=True):
            owner = self.clients[client]
            job = Job(client, step, owner.period, download, {}, {}, seed)  # type: ignore[typeddict-item]
            extra = reported.BYTES if self.reports else 0
            uploads.append(Upload(RemotePromise(job), owner, step, beside=extra))
        return uploads, [0.0] * len(uploads)

    def score(self, states: States, arrived: "Sequence[tuple[int, Period]] | None" = None) -> Scores:
        """Note that scores are due of these models, and what clients are at this moment."""
        now = {number: _copied(client) for number, client in self.clients.items()}
        self._due.append(Moment(states, None if arrived is None else [*arrived], now))
        return Scores([{}], None)  # one block, which the observer hands to `stamp` with its moment

    def stamp(self, table: type[Row], columns: Mapping[str, Any]) -> None:
        """Note the time and the version of the scores that were due last; an observer calls it in place of a table."""
        self._stamps.append(columns)

    def settle(self, memories: Memories, extend: Callable[[type[ScoreRow], Mapping[str, Any]], None]) -> None:
        """Compute the scores of all moments, in order."""
        clients = self.clients
        last = {id(client.last): client for due in self._due for client in due.clients.values() if client.last}
        for client in last.values():
            if isinstance(memory := client.memory, RemoteMemory):
                memories.wanted.setdefault(memory.client, []).append(memory.ask)
        for due, stamp in zip(self._due, self._stamps, strict=True):
            clients.clear()
            clients.update(due.clients)
            for block in super().score(due.states, due.arrived).rows:
                extend(ScoreRow, {**stamp, **block})


def _copied(client: Client) -> Client:
    other = copy.copy(client)
    other.seen = [*client.seen]
    return other

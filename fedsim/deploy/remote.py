"""The learner of a deployed run: what it asks is trained elsewhere, and what it scores waits for the end.

`Remote` is a backend that trains nothing: the promise of a job is filled with the client's upload when it arrives.
Scores are taken of the same models at the same moments as in a simulated run, but computed only after the last round,
so that they take no real time from it.  Where they need what a client remembers, it is asked for then.

Not modelled: federated evaluation.  The server computes scores from its own copy of the data, as whoever wrote the
scenario can.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from fedsim.core.record import Score
from fedsim.core.wire import Tree
from fedsim.learn import reported
from fedsim.learn.algorithm import Job
from fedsim.learner.client import Client
from fedsim.learner.contract import Scores, States
from fedsim.learner.recorded import Recorded
from fedsim.learner.trained import Trained
from fedsim.learner.upload import Upload

if TYPE_CHECKING:
    from fedsim.data.graph import Period


class Memory(Mapping[str, Any]):
    """What a client remembers after an ask: the loss that came with its upload, and the rest when it is first read."""

    def __init__(self, client: int, ask: int, loss: float, read: Callable[[int, int], dict[str, Any]]) -> None:
        """Know only the loss; `read` returns the rest."""
        self.client, self.ask, self._loss, self._read = client, ask, loss, read
        self._known: dict[str, Any] | None = None

    def __getitem__(self, key: str) -> Any:
        """Return one entry; KeyError without it."""
        return self._loss if key == reported.KEY else self._all()[key]

    def __iter__(self) -> Iterator[str]:
        """Yield the keys."""
        return iter(self._all())

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self._all())

    def _all(self) -> dict[str, Any]:
        if self._known is None:
            self._known = self._read(self.client, self.ask)
        return self._known


class Memories:
    """Fetches memories, all that scores may need as soon as one of them is read; `wanted` are their asks by client."""

    def __init__(self, fetch: Callable[[Mapping[int, Sequence[int]]], dict[tuple[int, int], dict[str, Any]]]) -> None:
        """Fetch nothing yet."""
        self._fetch = fetch
        self.wanted: dict[int, list[int]] = {}
        self._known: dict[tuple[int, int], dict[str, Any]] | None = None

    def read(self, client: int, ask: int) -> dict[str, Any]:
        """Return what a client remembered after an ask; empty if it does not say."""
        if self._known is None:
            self._known = self._fetch(self.wanted)
        return self._known.get((client, ask), {})


class RemotePromise:
    """The upload of a job on a client (the Promise of learner/upload.py)."""

    like = None

    def __init__(self, job: Job) -> None:
        """Expect it."""
        self.job = job
        self.declared: int | None = None
        self._value: Tree = None
        self._memory: Any = {}

    @property
    def nbytes(self) -> int:
        """The encoded size, once it has arrived."""
        return self.declared or 0

    def fill(self, tree: Tree, nbytes: int, memory: Memory) -> None:
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


class Remote(Trained):
    """An algorithm whose jobs are done on clients."""

    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Tree], seeds: Sequence[int], travels: bool
    ) -> tuple[list[Upload], list[float]]:
        """Return the uploads to expect; nothing of a client's data or memory is read."""
        uploads = []
        for client, download, seed in zip(clients, downloads, seeds, strict=True):
            owner = self.clients[client]
            job = Job(client, step, owner.period, download, {}, {}, seed)  # type: ignore[typeddict-item]
            beside = reported.BYTES if self.reports else 0
            uploads.append(Upload(RemotePromise(job), owner, step, beside=beside))
        return uploads, [0.0] * len(uploads)


class Moment(NamedTuple):
    """A moment at which scores were due: the states then, and every client as it was."""

    time: float
    version: int
    states: States
    arrived: "Sequence[tuple[int, Period]] | None"
    clients: dict[int, Client]


class Scored(Recorded):
    """Notes when scores are due, and computes them at the end; `moment` returns the time and the version of now."""

    def __init__(self, trained: Trained, seeds_of: Callable[[Sequence[int], Sequence[int]], list[int]]) -> None:
        """Owe no scores yet."""
        super().__init__(trained, seeds_of)
        self.moment: Callable[[], tuple[float, int]] = lambda: (0.0, 0)
        self._due: list[Moment] = []

    def score(self, states: States) -> Scores:
        """Note that every client is to be scored on the periods it has met."""
        return self._note(states, None)

    def score_unmet(self, states: States, arrived: "Sequence[tuple[int, Period]]") -> Scores:
        """Note that models are to be scored on periods that have just arrived."""
        return self._note(states, [*arrived])

    def settle(self, memories: Memories, extend: Callable[[type[Score], Mapping[str, Any]], None]) -> None:
        """Compute the scores of all moments, in order."""
        clients = self.trained.clients
        last = {id(client.last): client for due in self._due for client in due.clients.values() if client.last}
        for client in last.values():
            if isinstance(memory := client.memory, Memory):
                memories.wanted.setdefault(memory.client, []).append(memory.ask)
        for one in self._due:
            clients.clear()
            clients.update(one.clients)
            if one.arrived is None:
                rows = super().score(one.states).rows
            else:
                rows = super().score_unmet(one.states, one.arrived).rows
            for block in rows:
                extend(Score, {"time": one.time, "version": one.version, **block})

    def _note(self, states: States, arrived: "Sequence[tuple[int, Period]] | None") -> Scores:
        now = {number: _copied(client) for number, client in self.trained.clients.items()}
        self._due.append(Moment(*self.moment(), states, arrived, now))
        return Scores([], None)


def _copied(client: Client) -> Client:
    other = Client(client.number)
    other.data, other.period, other.seen = client.data, client.period, [*client.seen]
    other.remembered, other.last = client.remembered, client.last
    return other

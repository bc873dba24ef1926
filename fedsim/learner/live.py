"""Live: answers the clock's questions by asking the algorithm, whose jobs are trained as late as possible.

A job sees the download, the data and the memory of the moment at which it began.  What trains is a backend: a cohort
(`learn/engine/cohort.py`), `untrained.Estimates`, or `traffic.Plain` for algorithms that learn nothing.  Every question
is written here once and passes one hook, `answer`, which a subclass may override (`recorded.py`).

Not modelled: time; how long work takes is up to the clock.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedsim.core import wire
from fedsim.core.arrays import Ints
from fedsim.core.seeds import Streams
from fedsim.core.wire import Tree
from fedsim.learn import replies as columns
from fedsim.learn import reported
from fedsim.learn.algorithm import Algorithm, Job
from fedsim.learn.replies import Reply, clients_of, uploads_of
from fedsim.learner import client as transit
from fedsim.learner.client import AllClients, Client, Upload, all_finite, is_finite, opened
from fedsim.learner.contract import Aggregated, Backend, CohortWork, Learner, Opened, Promise, Scores, States
from fedsim.learner.ticket import UNKNOWN, NoKeys, Share, Ticket, Tickets, values_of
from fedsim.net.attackers import Attackers
from fedsim.net.codec import Codec
from fedsim.net.masking import numbers

if TYPE_CHECKING:
    from fedsim.data.graph import Period
    from fedsim.learner.gaussian_mechanism import GaussianMechanism
    from fedsim.learner.scoring.scoring import Scoring


class Answer(NamedTuple):
    """An answer, or a cohort's in its order: `plain` is what can be recorded of it, `value` lives in memory alone."""

    plain: Any
    value: Any = None


@dataclass(eq=False)
class Live(Learner):
    """A learner at work; `seeds_of(clients, job numbers)` returns jobs' seeds, `rng` the random stream of a name.

    `up` and `down` compress uploads and downloads, `attackers` are the byzantine clients, `privacy` makes noisy what is
    aggregated, and `scoring` scores; each is None unless the scenario asks for it.  With `reports` every upload that
    travels carries the client's loss.
    """

    algorithm: Algorithm
    backend: Backend
    rng: Streams
    seeds_of: Callable[[Sequence[int], Sequence[int]], list[int]]
    _: KW_ONLY
    up: Codec | None = None
    down: Codec | None = None
    attackers: Attackers = field(default_factory=Attackers)
    reports: bool = False
    privacy: "GaussianMechanism | None" = None
    scoring: "Scoring | None" = None
    clients: AllClients = field(default_factory=AllClients)
    keys: NoKeys = field(default_factory=NoKeys)

    def __post_init__(self) -> None:
        """Take over what the algorithm declares."""
        self.talks, self.learns = self.algorithm.talks, self.algorithm.learns
        self.prepares, self.private = frozenset(self.algorithm.prepares), self.privacy is not None
        kind = type(self.algorithm)
        self.one_step = kind.steps is Algorithm.steps and kind.more is Algorithm.more
        self._jobs: Counter[int] = Counter()
        self._compressed = [] if self.up is None else [transit.compressed(self.up, self.rng)]
        self._beside = reported.BYTES if self.reports else 0

    def answer(self, key: bytes, compute: Callable[[], Answer]) -> Answer:
        """Return what `compute` returns.  A subclass may know the answer already."""
        return compute()

    def answer_all(self, keys: Sequence[bytes], compute: Callable[[], Answer]) -> Answer:
        """Return what `compute` returns, for a cohort of questions."""
        return compute()

    def effect(self, act: Callable[[], None]) -> None:
        """Do something that a report asks for and that changes values."""
        act()

    def ticket(self, key: bytes, nbytes: int, value: Any) -> Ticket:
        """Return the ticket of a value."""
        return Ticket(key, nbytes, value)

    def tickets(self, keys: Sequence[bytes], sizes: Sequence[int], values: Sequence[Any]) -> Tickets:
        """Return the tickets of a cohort's values."""
        return Tickets(np.array(sizes, dtype=np.int64), values)

    def contents(self, ticket: Ticket) -> Tree:
        """Return the encoded tree of a download or share; not during a replay."""
        return ticket.value.encoded

    def start(self) -> Ticket:
        """Return the first state."""
        answer = self.answer(self.keys.root, lambda: Answer(0, self.algorithm.start()))
        return self.ticket(self.keys.root, 0, answer.value)

    def steps(self, state: Ticket) -> list[str]:
        """Return the names of the exchanges of the coming round."""
        key = self.keys.about("steps", state)
        return [*self.answer(key, lambda: Answer([*self.algorithm.steps(state.value)])).plain]

    def more(self, state: Ticket, step: str) -> list[str]:
        """Return further exchanges that the result of this step requires."""
        key = self.keys.about("more", state, step)
        return [*self.answer(key, lambda: Answer([*self.algorithm.more(state.value, step)])).plain]

    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> Tickets:
        """Return each client's download."""

        def compute() -> Answer:
            trees = [self.algorithm.download(state.value, client, step) for client in clients]
            sent = transit.sent_downloads(self.down, trees, clients, self.rng)
            return Answer([download.nbytes for download in sent], sent)

        keys = self.keys.downloads(state, clients, step)
        return self.tickets(keys, *self.answer_all(keys, compute))

    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> CohortWork:
        """Begin a job of each client with its current data and memory."""
        self._jobs.update(clients)
        jobs = [self._jobs[client] for client in clients]

        def compute() -> Answer:
            trees = [None if sent is None else sent.tree for sent in values_of(downloads)]
            uploads, operations = self.begin(clients, step, trees, self.seeds_of(clients, jobs), travels)
            return Answer([*zip([upload.declared() for upload in uploads], operations, strict=True)], uploads)

        keys = self.keys.jobs(clients, step, downloads, jobs, travels)
        plain, uploads = self.answer_all(keys, compute)
        sizes, operations = [size for size, _ in plain], [cost for _, cost in plain]
        return CohortWork(self.tickets(keys, sizes, uploads), np.array(operations, dtype=np.float64))

    def begin(
        self, clients: Sequence[int], step: str, downloads: Sequence[Tree], seeds: Sequence[int], travels: bool
    ) -> tuple[list[Upload], list[float]]:
        """Return the uploads of jobs that begin now, and the operations that they take."""
        uploads, operations, submit, flops = [], [], self.backend.submit, self.backend.flops
        for client, download, seed in zip(clients, downloads, seeds, strict=True):
            owner = self.clients[client]
            memory = {**owner.memory}
            memory.pop(reported.KEY, None)
            job = Job(client, step, owner.period, download, owner.data, memory, seed)  # type: ignore[arg-type]
            uploads.append(self.upload(submit(job), owner, step, travels))
            operations.append(float(flops(job)))
        return uploads, operations

    def upload(self, promise: Promise, owner: Client, step: str, travels: bool) -> Upload:
        """Return the upload of a promise, with what happens to it on its way."""
        if not travels:
            return Upload(promise, owner, step)
        changes = self._compressed
        if owner.number in self.attackers:
            changes = [transit.forged(self.attackers, owner.number, self.rng), *changes]
        return Upload(promise, owner, step, changes, self._beside)

    def size(self, client: int, upload: Ticket) -> int:
        """Return the bytes of a client's upload on the wire."""
        if upload.nbytes != UNKNOWN:
            return upload.nbytes
        return int(self.answer(self.keys.about("size", upload), lambda: Answer(upload.value.nbytes())).plain)

    def sizes(self, clients: Sequence[int], uploads: Tickets) -> Ints:
        """Return the bytes (K,) of these clients' uploads."""
        sizes = uploads.sizes.copy()
        for k in np.flatnonzero(sizes == UNKNOWN).tolist():
            sizes[k] = self.size(clients[k], uploads[k])
        return sizes

    def numbers(self, upload: Ticket) -> int:
        """Return the count of numbers in an upload, before compression."""
        key = self.keys.about("numbers", upload)
        return int(self.answer(key, lambda: Answer(numbers(upload.value.sent()))).plain)

    def open(self, state: Ticket, replies: Sequence[Reply], step: str) -> Opened:
        """Return which replies can be aggregated, and what that takes."""
        if not replies:
            return Opened([], [], [], 0.0)

        def compute() -> Answer:
            given = opened(replies)
            finite = all_finite(given)
            accepted = [k for k, ok in enumerate(finite) if ok]
            uploads = values_of(uploads_of(columns.at(replies, accepted))) if self.reports else []
            losses = [reported.of(upload.promise.memory()) for upload in uploads]
            given = given if all(finite) else columns.at(given, accepted)
            operations = float(self.algorithm.server_flops(state.value, given, step)) if accepted else 0.0
            return Answer([[k for k, ok in enumerate(finite) if not ok], losses, operations])

        key = self.keys.received("open", replies, state, step)
        refused, losses, operations = self.answer(key, compute).plain
        if not refused:
            return Opened(replies, [], losses, operations)
        accepted = sorted({*range(len(replies))} - {*refused})
        return Opened(columns.at(replies, accepted), columns.at(replies, refused), losses, operations)

    def aggregate(self, state: Ticket, replies: Sequence[Reply], step: str) -> Aggregated:
        """Aggregate accepted replies into the state."""

        def compute() -> Answer:
            given = opened(replies)
            if self.privacy is not None:
                self.privacy.spend(clients_of(given))
                given = self.privacy.release(given)
            after = self.algorithm.update(state.value, given, step)
            return Answer([after is state.value, None if self.privacy is None else self.privacy.epsilon], after)

        key = self.keys.received("aggregate", replies, state, step)
        (unchanged, epsilon), after = self.answer(key, compute)
        if epsilon is not None:
            self.keys.spend("aggregate", key)
        return Aggregated(state if unchanged else self.ticket(key, 0, after), epsilon)

    def aggregation_weights(self, replies: Sequence[Reply]) -> list[float]:
        """Return each reply's weight in a mean over several servers' clients."""
        key = self.keys.received("weights", replies)
        answer = self.answer(key, lambda: Answer([float(self.algorithm.mass(each)) for each in opened(replies)]))
        return [*answer.plain]

    def share(self, state: Ticket, sender: int | None = None) -> Share:
        """Return the part of a state that travels."""

        def compute() -> Answer:
            tree = self.algorithm.share(state.value)
            sent = transit.shared(self.up, self.attackers, tree, sender, self.rng)
            finite = sender is None or is_finite(sent.tree)
            return Answer([sent.nbytes, finite, wire.array_bytes(sent.tree) / 2], sent)

        key = self.keys.share(state, sender)
        (nbytes, finite, operations), sent = self.answer(key, compute)
        return Share(self.ticket(key, nbytes, sent), bool(finite), operations)

    def mix(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> Ticket:
        """Return the state after merging shares."""

        def compute() -> Answer:
            return Answer(0, self.algorithm.mix(state.value, [one.ticket.value.tree for one in shares], weights))

        key = self.keys.mixed(state, shares, weights)
        return self.ticket(key, 0, self.answer(key, compute).value)

    def score(self, states: States, arrived: "Sequence[tuple[int, Period]] | None" = None) -> Scores:
        """Score every client on the periods it has met, or on periods that have just arrived.

        By the models of these states: one for all clients, or each client's own.
        """

        def state_of(client: int) -> Any:
            return (states[client] if isinstance(states, Mapping) else states).value

        def compute() -> Answer:
            if self.scoring is None:
                return Answer([[], None])
            return Answer([*(self.scoring.met(state_of) if arrived is None else self.scoring.unmet(state_of, arrived))])

        periods = None if arrived is None else tuple((client, period.number) for client, period in arrived)
        return Scores(*self.answer(self.keys.scored(states, periods), compute).plain)

    def arrive(self, client: int, period: "Period") -> None:
        """Hand a client this period's graph."""
        self.clients[client].arrive(period)
        self.keys.arrived(client, period.number)

    def done(self, clients: Sequence[int], uploads: Sequence[Ticket]) -> None:
        """Note that clients have finished their jobs."""
        self.keys.done(clients, uploads)
        for client, upload in zip(clients, values_of(uploads), strict=True):
            self.clients[client].last = upload

    def dropped(self, upload: Ticket) -> None:
        """Note that a job was interrupted."""
        self.effect(lambda: upload.value.promise.cancel())

    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Note that a client's last job never began."""
        self._jobs[client] -= 1
        self.dropped(upload)

    def drawn(self, chosen: int, among: int) -> None:
        """Note that `chosen` clients were drawn uniformly out of `among`."""
        if (privacy := self.privacy) is not None:
            self.keys.spend("drawn", chosen, among)
            self.effect(lambda: privacy.drawn(chosen, among))

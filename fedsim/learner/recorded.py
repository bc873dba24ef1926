"""Recorded: a learner that records its answers, and can replay them without values.

Every question has a key (`keys.py`), under which the record stores its answer: sizes, operations, names of steps, rows
of scores.  While it *replays*, answers come from the record alone and tickets have no values; after `resume` they come
from `trained.Trained`, and are recorded.  So the clock of an interrupted point can run again, without anything being
trained, folded or scored, up to its checkpoint.

Without a record (`keys` is None) tickets have no keys, and nothing can be replayed.  Not modelled: time.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from fedsim.core import logbook
from fedsim.core.wire import Tree
from fedsim.learner.batch import Replies, Tickets
from fedsim.learner.contract import Folded, Learner, Scores, States, Work
from fedsim.learner.keys import Keys, digest
from fedsim.learner.ticket import UNKNOWN, Reply, Share, Ticket
from fedsim.learner.trained import Trained, opened
from fedsim.learner.upload import Upload
from fedsim.net.masking import numbers

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Record = dict[bytes, Any]  # answers by key; under LOGGED, what was logged while they were made, by key
LOGGED = b"logged"


class ReplayError(Exception):
    """A replay differs from the run that was recorded."""


class Recorded(Learner):
    """Asks `trained`, and records the answers by key; `seeds_of(clients, job numbers)` returns the jobs' seeds."""

    def __init__(
        self,
        trained: Trained,
        seeds_of: Callable[[Sequence[int], Sequence[int]], list[int]],
        keys: Keys | None = None,
        record: Record | None = None,
    ) -> None:
        """Replay `record` if there is one, and record from there on."""
        self.trained, self._seeds_of, self._keys = trained, seeds_of, keys
        self.record: Record = {} if record is None else record
        self.replaying = bool(record)
        self.asked = 0  # number of questions
        self.talks, self.prepares = trained.algorithm.talks, frozenset(trained.algorithm.prepares)
        self.learns, self.reports = trained.algorithm.learns, trained.reports
        self._jobs: Counter[int] = Counter()
        self._tickets: WeakSet[Ticket] = WeakSet()  # where there is a record
        self._brought: tuple[Sequence[Reply], Sequence[Any]] = ([], [])  # the replies last opened

    def values(self) -> dict[bytes, Any]:
        """Return the values of all tickets still in use, by key."""
        return {ticket.key: ticket.value for ticket in [*self._tickets]}

    def resume(self, values: Mapping[bytes, Any]) -> None:
        """Take over the values of a checkpoint, and ask `trained` from now on."""
        for ticket in [*self._tickets]:
            if ticket.key in values:
                ticket.value = values[ticket.key]
        self.replaying = False

    def contents(self, ticket: Ticket) -> Tree:
        """Return the encoded tree of a download or share; not during a replay."""
        return ticket.value.encoded

    def start(self) -> Ticket:
        """Return the first state."""
        self._ask(key := b"" if self._keys is None else self._keys.root, lambda: 0)
        return self._ticket(key, 0, None if self.replaying else self._made(key, self.trained.start))

    def steps(self, state: Ticket) -> list[str]:
        """Return the names of the exchanges of the coming round."""
        return list(self._ask(self._key("steps", state), lambda: self.trained.steps(state.value)))

    def more(self, state: Ticket, step: str) -> list[str]:
        """Return further exchanges that the result of this step requires."""
        return list(self._ask(self._key("more", state, step), lambda: self.trained.more(state.value, step)))

    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> Tickets:
        """Return each client's download."""
        if self._keys is None:
            sent = self.trained.downloads(state.value, clients, step)
            return Tickets(np.array([one.nbytes for one in sent], dtype=np.int64), sent)
        keys = [self._keys.download(state, client, step) for client in clients]
        if self.replaying:
            self._repeat(keys[0] if keys else b"")  # once: the downloads of all clients may be one
            return Tickets.of([self._ticket(key, self._recalled(key, logged=False), None) for key in keys])
        sent = self._made(keys[0] if keys else b"", lambda: self.trained.downloads(state.value, clients, step))
        asked = zip(keys, sent, strict=True)
        return Tickets.of([self._ticket(key, self._noted(key, one.nbytes), one) for key, one in asked])

    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> Work:
        """Begin a job of each client with its current data and memory."""
        self._jobs.update(clients)
        jobs = [self._jobs[client] for client in clients]
        if self._keys is None:
            begun, costs = self._begun(clients, jobs, step, downloads, travels)
            sizes = np.array([upload.declared() for upload in begun], dtype=np.int64)
            return Work(Tickets(sizes, begun), np.array(costs, dtype=np.float64))
        asked = zip(clients, downloads, jobs, strict=True)
        keys = [self._keys.job(client, step, download, job, travels) for client, download, job in asked]
        made: Sequence[Upload | None]
        if self.replaying:
            made, answers = [None] * len(jobs), [self._recalled(key) for key in keys]
        else:
            begun, costs = self._made(keys[0], lambda: self._begun(clients, jobs, step, downloads, travels))
            fresh = zip(keys, begun, costs, strict=True)
            made, answers = begun, [self._noted(key, (upload.declared(), cost)) for key, upload, cost in fresh]
        tickets = [
            self._ticket(key, nbytes, value) for key, value, (nbytes, _) in zip(keys, made, answers, strict=True)
        ]
        return Work(Tickets.of(tickets), np.array([cost for _, cost in answers], dtype=np.float64))

    def size(self, upload: Ticket) -> int:
        """Return an upload's bytes on the wire."""
        if upload.nbytes != UNKNOWN:
            return upload.nbytes
        return int(self._ask(self._key("size", upload), lambda: upload.value.nbytes()))

    def numbers(self, upload: Ticket) -> int:
        """Return the count of numbers in an upload, before compression."""
        return int(self._ask(self._key("numbers", upload), lambda: numbers(upload.value.sent())))

    def finite(self, replies: Sequence[Reply]) -> list[bool]:
        """Return for each reply whether all values of its upload are finite, as received."""
        if self._keys is None or not replies:
            return self.trained.finite_all(self._brought_by(replies))
        keys = [self._key_of_opened("finite", reply) for reply in replies]
        if self.replaying:
            return [bool(self._recalled(key)) for key in keys]
        found = self._made(keys[0], lambda: self.trained.finite_all(self._brought_by(replies)))
        return [bool(self._noted(key, int(whole))) for key, whole in zip(keys, found, strict=True)]

    def losses(self, replies: Sequence[Reply]) -> list[float]:
        """Return the loss that came with each reply."""
        if self._keys is None or not replies:
            return self.trained.losses(self._brought_by(replies))
        keys = [self._key_of_opened("loss", reply) for reply in replies]
        if self.replaying:
            return [float(self._recalled(key)) for key in keys]
        found = self._made(keys[0], lambda: self.trained.losses(self._brought_by(replies)))
        return [float(self._noted(key, loss)) for key, loss in zip(keys, found, strict=True)]

    def masses(self, replies: Sequence[Reply]) -> list[float]:
        """Return each reply's weight in a mean over several servers' clients."""
        found = []
        for reply in replies:
            key = self._key_of_opened("mass", reply)
            found.append(float(self._ask(key, lambda: self.trained.mass(*self._opened([reply])))))  # noqa: B023
        return found

    def operations(self, state: Ticket, replies: Sequence[Reply], step: str) -> float:
        """Return the floating-point operations of folding these replies."""
        key = b"" if self._keys is None else self._keys.folded("operations", state, replies, step)
        asked = self._ask(key, lambda: self.trained.operations(state.value, self._opened(replies), step))
        return float(asked)

    def fold(self, state: Ticket, replies: Sequence[Reply], step: str) -> Folded:
        """Fold one or more replies, in order."""
        key = b"" if self._keys is None else self._keys.folded("fold", state, replies, step)
        made = None
        if self.replaying:
            same, epsilon = self._recalled(key)
        else:
            before = state.value
            made, epsilon = self._made(key, lambda: self.trained.fold(before, self._opened(replies), step))
            same, _ = self._noted(key, [made is before, epsilon])
        if epsilon is not None and self._keys is not None:
            self._keys.spend("fold", key)
        self._brought = [], []
        return Folded(state if same else self._ticket(key, 0, made), epsilon)

    def share(self, state: Ticket, sender: int | None = None) -> Share:
        """Return the part of a state that travels."""
        key = b"" if self._keys is None else self._keys.share(state, sender)
        sent = None
        if self.replaying:
            nbytes, finite, operations = self._recalled(key)
        else:
            sent, finite, operations = self._made(key, lambda: self.trained.share(state.value, sender))
            nbytes, *_ = self._noted(key, [sent.nbytes, finite, operations])
        return Share(self._ticket(key, nbytes, sent), bool(finite), operations)

    def mix(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> Ticket:
        """Return the state after merging shares."""
        key = b"" if self._keys is None else self._keys.mixed(state, shares, weights)
        self._ask(key, lambda: 0)
        if self.replaying:
            return self._ticket(key, 0, None)
        trees = [share.ticket.value.tree for share in shares]
        return self._ticket(key, 0, self._made(key, lambda: self.trained.mix(state.value, trees, weights)))

    def score(self, states: States) -> Scores:
        """Score every client on the periods it has met."""
        return self._scores(states, None, lambda state_of: self.trained.score(state_of))

    def score_unmet(self, states: States, arrived: "Sequence[tuple[int, Period]]") -> Scores:
        """Score models on periods that have just arrived."""
        numbers_ = tuple((client, period.number) for client, period in arrived)
        return self._scores(states, numbers_, lambda state_of: self.trained.score_unmet(state_of, arrived))

    def arrive(self, client: int, period: "Period") -> None:
        """Hand a client this period's graph."""
        self.trained.clients[client].arrive(period)
        if self._keys is not None:
            self._keys.arrived(client, period.number)

    def done(self, client: int, upload: Ticket) -> None:
        """Note that a client has finished a job."""
        if self._keys is not None:
            self._keys.done(client, upload)
        if not self.replaying:
            self.trained.clients[client].last = upload.value

    def all_done(self, clients: Sequence[int], uploads: Tickets, places: Sequence[int]) -> None:
        """Note the same of several clients."""
        if self._keys is not None:
            super().all_done(clients, uploads, places)
            return
        for client, place in zip(clients, places, strict=True):
            self.trained.clients[client].last = uploads.value(place)

    def dropped(self, upload: Ticket) -> None:
        """Note that a job was interrupted."""
        if not self.replaying:
            upload.value.promise.cancel()

    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Note that a client's last job never began."""
        self._jobs[client] -= 1
        self.dropped(upload)

    def drawn(self, chosen: int, among: int) -> None:
        """Note that `chosen` clients were drawn uniformly out of `among`."""
        if self.trained.guard is None:
            return
        if self._keys is not None:
            self._keys.spend("drawn", chosen, among)
        if not self.replaying:
            self.trained.guard.drawn(chosen, among)

    def _begun(
        self, clients: Sequence[int], jobs: Sequence[int], step: str, downloads: Sequence[Ticket | None], travels: bool
    ) -> tuple[list[Upload], list[float]]:
        if isinstance(downloads, Tickets):
            trees = [downloads.value(k).tree for k in range(len(downloads))]
        else:
            trees = [None if download is None else download.value.tree for download in downloads]
        return self.trained.work(clients, step, trees, self._seeds_of(clients, jobs), travels)

    def _ticket(self, key: bytes, nbytes: int, value: Any) -> Ticket:
        ticket = Ticket(key, nbytes, value)
        if self._keys is not None:
            self._tickets.add(ticket)
        return ticket

    def _key(self, question: str, about: Ticket, *more: Any) -> bytes:
        return b"" if self._keys is None else digest(question, about.key, *more)

    def _ask(self, key: bytes, make: Callable[[], Any]) -> Any:
        """Return the recorded answer during a replay; otherwise make and record one."""
        return self._recalled(key) if self.replaying else self._noted(key, self._made(key, make))

    def _made(self, key: bytes, make: Callable[[], Any]) -> Any:
        """Return what `make` returns, and record what it logs."""
        if self._keys is None:
            return make()
        with logbook.collected() as messages:
            made = make()
        if messages:
            self.record.setdefault(LOGGED, {})[key] = messages
        return made

    def _noted(self, key: bytes, answer: Any) -> Any:
        if self._keys is not None:
            self.asked += 1
            self.record[key] = answer
        return answer

    def _recalled(self, key: bytes, logged: bool = True) -> Any:
        self.asked += 1
        try:
            answer = self.record[key]
        except KeyError:
            raise ReplayError("a replay asks a question that has no answer in the record") from None
        if logged:
            self._repeat(key)
        return answer

    def _repeat(self, key: bytes) -> None:
        logbook.repeat(self.record.get(LOGGED, {}).get(key, ()))

    def _key_of_opened(self, question: str, reply: Reply) -> bytes:
        if self._keys is None:
            return b""
        return digest(question, self._keys.opened(reply.client, self._upload(reply)))

    def _upload(self, reply: Reply) -> Ticket:
        if reply.upload is None:
            raise ValueError(f"the reply of client {reply.client} has no upload to fold")
        return reply.upload

    def _brought_by(self, replies: Sequence[Reply]) -> list[Upload]:
        """Return the uploads of replies."""
        if isinstance(replies, Replies) and isinstance(replies.uploads, Tickets):
            return [*map(replies.uploads.value, replies.places.tolist())]
        return [self._upload(reply).value for reply in replies]

    def _opened(self, replies: Sequence[Reply]) -> Sequence[Any]:
        """Return the replies as an algorithm has them; the same for the question of their cost and for folding them."""
        if self._brought[0] is not replies:
            self._brought = replies, opened(replies, self._brought_by(replies))
        return self._brought[1]

    def _scores(
        self, states: States, arrived: tuple[Any, ...] | None, make: Callable[[Callable[[int], Any]], Scores]
    ) -> Scores:
        """Return scores of the models of these states: one for all clients, or each client's own."""
        keys = (states.key,) if isinstance(states, Ticket) else tuple((n, one.key) for n, one in states.items())
        key = b"" if self._keys is None else self._keys.scored(keys, arrived)

        def state_of(client: int) -> Any:
            return (states if isinstance(states, Ticket) else states[client]).value

        return Scores(*self._ask(key, lambda: list(make(state_of))))

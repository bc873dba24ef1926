"""Who is asked: requests to single clients, what travels with them, and the replies that come too late.

`ServerHost` (server.py) builds on this and aggregates the replies.  A request to one client is a short-lived process;
a cohort is asked at once where the network allows it (exchange.py).

Not modelled: a server that learns of a lost client only by a timeout.
"""

from collections.abc import Callable, Container, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import simpy

from fedsim.clock.clients import Clients
from fedsim.clock.cohort.contract import Cohort, WriteCohort
from fedsim.core.arrays import Ints
from fedsim.core.record import SERVER, Row, TransferRow
from fedsim.learn.replies import Replies, Reply
from fedsim.learner.contract import Learner, Payloads
from fedsim.learner.ticket import Ticket
from fedsim.net.message import Message
from fedsim.net.network import SimulatedNetwork
from fedsim.net.transfer import Lost


@dataclass
class RoundCounts:
    """What has become of the clients of a round that has no row yet; `wanted` is None where no number was wanted."""

    wanted: int | None = None
    lost: int = 0
    late: int = 0
    refused: int = 0

    def add(self, other: "RoundCounts") -> None:
        """Add the clients of another count; `wanted` stays."""
        self.lost += other.lost
        self.late += other.late
        self.refused += other.refused


class PendingUploads:
    """Rows of uploads that have arrived and are not aggregated yet, kept until their fate is known.

    It holds no replies: each is named by the number of its request, those of a cohort by that of the cohort's first.
    Once `closed`, rows are written at once.
    """

    def __init__(self, node: int, write: Callable[[Row], None]) -> None:
        """Start empty; `node` is the number of the node that receives the uploads."""
        self._node, self._write = node, write
        self._arrived: dict[int, TransferRow] = {}  # just arrived, by client
        self._replied: dict[int, TransferRow] = {}  # those of replies, by ask
        self.cohorts: dict[int, Cohort] = {}  # that have rows to write, by the number of their first ask, ascending
        self.closed = False

    def moved(self, row: TransferRow, asked: Container[int]) -> None:
        """Take the row of an ended transfer; keep it if it is an upload of a client in `asked`, else write it."""
        if row.dst == self._node and row.fate == "delivered" and row.src in asked and not self.closed:
            self._arrived[row.src] = row
        else:
            self._write(row)

    def answer(self, client: int, ask: int) -> None:
        """Record that a client's upload that has just arrived is the reply to this ask."""
        if (row := self._arrived.pop(client, None)) is not None:
            self._replied[ask] = row

    def resolve(self, ask: int, fate: str) -> None:
        """Record the fate of the reply to this ask, unless it was decided before or nothing travelled."""
        if (row := self._replied.pop(ask, None)) is not None:
            self._write(replace(row, fate=fate))
            return
        self._resolve(np.array([ask]), fate)

    def resolve_all(self, replies: Sequence[Reply], fate: str) -> None:
        """Record the same fate of several replies."""
        if isinstance(replies, Replies):
            self._resolve(replies.asks, fate)
        else:
            for reply in replies:
                self.resolve(reply.ask, fate)

    def end(self) -> None:
        """Write the rows that are left as discarded."""
        for row in (*self._arrived.values(), *self._replied.values()):
            self._write(replace(row, fate="discarded"))
        self._arrived.clear()
        self._replied.clear()
        for first, cohort in [*self.cohorts.items()]:
            self._resolve(first + np.flatnonzero(cohort.undecided), "discarded")

    def _resolve(self, asks: Ints, fate: str) -> None:
        """Record the fate of replies of one cohort, unless it was decided before."""
        for first, cohort in [*self.cohorts.items()] if len(asks) else ():
            if first <= asks[0] < first + len(cohort.undecided):
                places = asks - first
                if len(still := places[cohort.undecided[places]]):
                    cohort.resolve(still, fate)
                return


class Request(simpy.Event):
    """The server's request to one client; always ends, with a Reply, or with None if the client was lost."""

    def __init__(self, env: simpy.Environment, client: int, step: str) -> None:
        """Begin open: a reply counts until the request is closed."""
        super().__init__(env)
        self.client, self.step = client, step
        self.open = True


@dataclass
class Requests:
    """The requests of a server or an edge aggregator, whose number is `node`, from its present state and version.

    `rounds` are those that have begun, `restarts` those of the server, `serving` says whether it can ask anybody now.
    """

    env: simpy.Environment
    network: SimulatedNetwork
    learner: Learner
    clients: Clients
    write: Callable[[Row], None]
    node: int = field(default=SERVER, kw_only=True)
    write_cohort: WriteCohort | None = field(default=None, kw_only=True)  # None: every client is asked by itself
    state: Ticket = field(init=False)
    version: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    restarts: int = field(default=0, init=False)
    serving: bool = field(default=True, init=False)
    requested: int = field(default=0, init=False)  # requests so far

    def __post_init__(self) -> None:
        """Take the learner's first state."""
        self.state = self.learner.start()
        self.busy: set[int] = set()
        self.counts = RoundCounts()
        self.pending = PendingUploads(self.node, self.write)

    def begin_round(self, wanted: int | None = None) -> None:
        """Count a round, which wants so many clients, whether or not as many are available."""
        self.rounds += 1
        self.counts.wanted = wanted

    def ask(self, client: int, step: str = "train", payloads: Payloads | None = None) -> Request:
        """Send this client a download and await its upload; ValueError if it is at work already."""
        self.clients.begin(client)
        request = Request(self.env, client, step)
        self.requested += 1
        self.busy.add(client)
        self.env.process(self._exchange(request, self.requested, payloads or self.learner))
        return request

    def release(self, clients: Sequence[int]) -> None:
        """Note that these clients of a cohort are free again."""
        self.busy.difference_update(clients)
        self.clients.leave(clients)

    def release_one(self, client: int) -> None:
        """Note that one client of a cohort is free again."""
        self.busy.discard(client)
        del self.clients.cohort_of[client]
        self.clients.finish(client)

    def close(self, request: Request) -> None:
        """Wait for this request no longer: all that it brings, or has brought and is not aggregated, is late."""
        if request.open and not (request.triggered and request.value is None):  # who is lost was counted as such
            request.open = False
            self.counts.late += 1
            if request.triggered and request.value is not None:
                self.pending.resolve(request.value.ask, "late")

    def discard(self, reply: Reply) -> None:
        """Drop a reply that has arrived and that the protocol will not aggregate; it counts among the late."""
        self.counts.late += 1
        self.pending.resolve(reply.ask, "discarded")

    def _exchange(self, request: Request, number: int, payloads: Payloads) -> Generator[simpy.Event, Any, None]:
        reply, began = None, self.env.now
        with suppress(Lost):
            talk = self._talk(request, number, payloads) if self.learner.talks else self._work_alone(request, number)
            reply = yield from talk
        self.busy.remove(request.client)
        if reply is not None:
            self.clients.statistics.replied(request.client, self.env.now - began, self.clients.cohorts)
        if reply is None and request.open:
            self.counts.lost += 1
        request.succeed(reply)
        if reply is not None and not request.open:
            self.pending.resolve(reply.ask, "late")
        self.clients.finish(request.client)

    def _talk(self, request: Request, number: int, payloads: Payloads) -> Generator[simpy.Event, Any, Reply | None]:
        client, step, version = request.client, request.step, self.version
        downloads = payloads.downloads(self.state, [client], step)
        download, nbytes = downloads[0], int(downloads.sizes[0])
        label = payloads.label(client, download)
        sent = self.network.send(Message.carrying(self.node, client, step, nbytes, version, label))
        yield sent
        upload = yield from self.clients.work(client, step, download, payloads)
        if upload is None:
            return None
        nbytes = payloads.size(client, upload)
        yield self.network.send(Message.carrying(client, self.node, step, nbytes, version), sent)
        self.pending.answer(client, number)
        return Reply(client, version, download, upload, ask=number)

    def _work_alone(self, request: Request, number: int) -> Generator[simpy.Event, Any, Reply | None]:
        """Have a client work where the algorithm sends nothing either way."""
        version = self.version
        upload = yield from self.clients.work(request.client, request.step, None, self.learner, travels=False)
        return None if upload is None else Reply(request.client, version, None, upload, ask=number)

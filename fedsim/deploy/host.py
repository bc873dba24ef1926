"""The server of a deployed run: its requests are real messages, and what it computes takes the time that it takes.

Everything else is the simulated server's: which clients are asked, which replies count, how they are aggregated.  The
rows of a message come from both ends: the server's clock says when it was sent and its answer arrived, the client's
when it had received it and when it had finished.  Clocks that differ are corrected as in NTP (RFC 5905, section 8).

An exchange is sent at s, received at r and answered at e by the client's clock, and arrived at a.  If both ways take
equally long, the client's clock is ahead by ((r - s) + (e - a)) / 2, and wrong by at most half of what both ways take,
a - s - (e - r).  So of a client's exchanges the one with the shortest ways counts (NTP's clock filter).  Clocks that
already agree are left alone: where an offset of zero is within that bound, it is zero, and wrong by both ways at most.

Not modelled: a client's clock that drifts, and ways that differ.
"""

import logging
import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import simpy

from fedsim.clock.requests import Request
from fedsim.clock.server import ServerHost
from fedsim.core.errors import UserError
from fedsim.core.record import SpanRow, TransferRow
from fedsim.deploy import messages
from fedsim.deploy.messages import MEMORY, WORK, Delivered, Question, Response, pack, unpack
from fedsim.deploy.real_time import Inbox
from fedsim.deploy.remote import Memories, RemoteMemory, RemotePromise
from fedsim.learn import reported
from fedsim.learn.replies import Reply
from fedsim.learner.checkpoint import preserve
from fedsim.learner.contract import Payloads
from fedsim.learner.ticket import Ticket
from fedsim.net.codec import Codec
from fedsim.net.message import Message

log = logging.getLogger(__name__)


@dataclass
class Offsets:
    """The offset in seconds by which each client's clock is ahead, and the seconds of both ways behind it."""

    best: dict[int, tuple[float, float]] = field(default_factory=dict)

    def of(self, client: int, sent: float, received: float, ended: float, arrived: float) -> float:
        """Return the client's offset after one more exchange."""
        ways = max(0.0, arrived - sent - (ended - received))
        if client not in self.best or ways < self.best[client][0]:
            self.best[client] = ways, ((received - sent) + (ended - arrived)) / 2
        ways, offset = self.best[client]
        return 0.0 if abs(offset) <= ways / 2 else offset


class ClientFault(Exception):  # noqa: N818
    """A client's code has failed, which is no loss of the network."""


@dataclass(kw_only=True)
class RealHost(ServerHost):
    """A server whose clients are real; `faults` are why questions had no answer.

    `packages` are the digests of what the clients should have.  `given` and `missed` count the jobs that each client
    was given, and those that were lost.
    """

    inbox: Inbox
    device: str
    packages: Sequence[str] = ()
    codec: Codec | None = None  # of uploads
    offsets: Offsets = field(default_factory=Offsets)
    faults: list[str] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)  # seconds for which clients' processes had run before their job
    given: Counter[int] = field(default_factory=Counter)
    missed: Counter[int] = field(default_factory=Counter)
    away: set[int] = field(default_factory=set)  # clients whose last job was lost
    under_way: dict[int, TransferRow] = field(default_factory=dict)  # questions without an answer so far, by ask
    memories: Memories = field(init=False)

    def __post_init__(self) -> None:
        """Take the learner's first state."""
        super().__post_init__()
        self.memories = Memories(self.fetch)

    def aggregate(self, replies: Any, step: str = "train") -> Generator[simpy.Event, Any, Any]:
        """Aggregate replies, which takes the server's real time."""
        began = self.env.now
        folded = yield from super().aggregate(replies, step)
        if folded:
            self.write(SpanRow(self.node, began, self.env.now, "serve"))
        return folded

    def compute(self, operations: float) -> Generator[simpy.Event, Any, bool]:
        """Take no simulated time: what is computed takes its own."""
        yield from ()
        return True

    def end(self) -> None:
        """Close the books: what has no answer yet is cut."""
        for row in self.under_way.values():
            self.write(replace(row, arrived=self.env.now))
        super().end()

    def fetch(self, wanted: Mapping[int, Sequence[int]]) -> dict[tuple[int, int], dict[str, Any]]:
        """Return what clients remembered after these asks, by client and ask; nothing of those that are silent."""
        memories = {}
        questions = {client: pack(Question(MEMORY, asks=[*asks])) for client, asks in wanted.items()}
        events = {client: self.inbox.ask(client, question)[0] for client, question in questions.items()}
        for client, event in events.items():
            answer = self._answered(self.inbox.wait(event), client)
            if answer is not None:
                answered = preserve.unpack(answer.message, preserve.DataGraphs([]))
                memories.update({(client, ask): memory for ask, memory in answered.items()})
        return memories

    def _talk(self, request: Request, number: int, payloads: Payloads) -> Generator[simpy.Event, Any, Reply | None]:
        client, step, version, learner = request.client, request.step, self.version, self.learner
        (download,) = payloads.downloads(self.state, [client], step)
        (upload,) = learner.work([client], step, [download]).uploads
        promise: RemotePromise = upload.value.promise
        message = Message(self.node, client, step, download.value.encoded, version).encode()
        job = promise.job
        question = Question(WORK, step, job.period, job.seed, number, message, package=self.packages[client])
        event, carried = self.inbox.ask(client, pack(question))
        self.given[client] += 1
        sent = self.env.now
        row = TransferRow(sent, sent, self.node, client, step, version, len(message), carried, "cut")
        self.under_way[number] = row
        reply: Delivered = yield event
        arrived = self.env.now
        del self.under_way[number]
        answer = self._answered(reply, client)
        if answer is None:
            self.missed[client] += 1
            self.write(replace(row, arrived=arrived, fate="lost"))
            learner.dropped(upload)
            return None
        self._record(row, answer, reply, arrived)
        self._fill(promise, upload, answer, number)
        learner.done([client], [upload])
        self.pending.answer(client, number)
        return Reply(client, version, download, upload, ask=number)

    def _answered(self, reply: Delivered, client: int) -> Response | None:
        """Return a client's answer, or None and note why there is none."""
        if reply.data is not None:
            answer = unpack(Response, reply.data)
            if answer.refused:
                raise UserError(f"client {client}: {answer.refused}")
            if answer.error:
                raise ClientFault(f"client {client} has failed: {answer.error}")
            if client in self.away:
                self.away.remove(client)
                log.warning("client %d is back", client)
            return answer
        self.faults.append(f"client {client}: {reply.error}")
        if client not in self.away:
            self.away.add(client)
            log.warning("client %d is lost (%s); the run goes on without it until it is back", client, reply.error)
        return None

    def _record(self, row: TransferRow, answer: Response, reply: Delivered, arrived: float) -> None:
        """Write the rows of an exchange: the way there, the client's work, the way back."""
        epoch = self.inbox.env.epoch
        received, began, ended = (t - epoch for t in (answer.received, answer.began, answer.ended))
        offset = self.offsets.of(answer.client, row.sent, received, ended, arrived)
        received, began, ended = (min(max(t - offset, row.sent), arrived) for t in (received, began, ended))
        client, step, version = answer.client, row.kind, row.version
        self.write(replace(row, arrived=received, fate="delivered"))
        if not math.isnan(answer.up):
            self.starts.append(answer.up)
            self.write(SpanRow(client, max(row.sent, received - answer.up), received, "start"))
        self.write(SpanRow(client, began, ended, "train"))
        nbytes = len(answer.message) + (reported.BYTES if self.learner.reports else 0)
        self.moved(TransferRow(ended, arrived, client, self.node, step, version, nbytes, reply.carried, "delivered"))

    def _fill(self, promise: RemotePromise, upload: Ticket, answer: Response, number: int) -> None:
        """Open what has arrived."""
        _, payload = messages.parted(answer.message)
        tree = messages.tensors(payload if self.codec is None else self.codec.decode(payload), self.device)
        upload.nbytes = len(answer.message)
        promise.fill(tree, len(answer.message), RemoteMemory(answer.client, number, answer.loss, self.memories.read))

"""The server of a deployed run: its asks are real messages, and what it computes takes the time that it takes.

Everything else is the simulated server's: which clients are asked, which replies count, how they are folded.  The rows
of a message come from both ends: the server's clock says when it was sent and its answer arrived, the client's when it
had received it and when it had finished.  Clocks that differ are corrected as in NTP (RFC 5905, section 8): by the
offset that makes the ways there and back of the client's quickest exchange so far equally long.

Not modelled: a client's clock that drifts.
"""

import logging
import math
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import simpy

from fedsim.clock.ask import Ask
from fedsim.clock.server import ServerHost
from fedsim.core.errors import UserError
from fedsim.core.record import Span, Transfer
from fedsim.core.wire import Tree
from fedsim.deploy import trees
from fedsim.deploy.offsets import Offsets
from fedsim.deploy.post import Brought
from fedsim.deploy.question import MEMORY, WORK, Answer, Question, pack, unpack
from fedsim.deploy.real_time import Inbox
from fedsim.deploy.remote import Memories, Memory, RemotePromise
from fedsim.learn import reported
from fedsim.learner import preserve
from fedsim.learner.ticket import Reply, Ticket
from fedsim.net.codec import Codec
from fedsim.net.message import Message

log = logging.getLogger(__name__)


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
    under_way: dict[int, Transfer] = field(default_factory=dict)  # questions without an answer so far, by ask
    memories: Memories = field(init=False)

    def __post_init__(self) -> None:
        """Take the learner's first state."""
        super().__post_init__()
        self.memories = Memories(self.fetch)

    def fold(self, replies: Any, step: str = "train") -> Generator[simpy.Event, Any, Any]:
        """Fold replies, which takes the server's real time."""
        began = self.env.now
        folded = yield from super().fold(replies, step)
        if folded:
            self.write(Span(self.node, began, self.env.now, "serve"))
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
        found = {}
        events = {
            client: self.inbox.ask(client, pack(Question(MEMORY, asks=[*wanted[client]])))[0] for client in wanted
        }
        for client, event in events.items():
            answer = self._answered(self.inbox.wait(event), client)
            if answer is not None:
                kept = preserve.unpack(answer.message, preserve.Given([]))
                found.update({(client, ask): memory for ask, memory in kept.items()})
        return found

    def _talk(self, ask: Ask, number: int, beside: Tree) -> Generator[simpy.Event, Any, Reply | None]:
        client, step, version, learner = ask.client, ask.step, self.version, self.learner
        (download,), _ = self.downloads([client], step, None)
        assert download is not None
        (upload,) = learner.work([client], step, [download]).uploads
        promise: RemotePromise = upload.value.promise
        message = Message(self.node, client, step, download.value.encoded, version).encode()
        job = promise.job
        question = Question(WORK, step, job.period, job.seed, number, message, package=self.packages[client])
        event, carried = self.inbox.ask(client, pack(question))
        self.given[client] += 1
        sent = self.env.now
        there = Transfer(sent, sent, self.node, client, step, version, len(message), carried, "cut")
        self.under_way[number] = there
        brought: Brought = yield event
        arrived = self.env.now
        del self.under_way[number]
        answer = self._answered(brought, client)
        if answer is None:
            self.missed[client] += 1
            self.write(replace(there, arrived=arrived, fate="lost"))
            learner.dropped(upload)
            return None
        self._record(there, answer, brought, arrived)
        self._fill(promise, upload, answer, number)
        learner.done(client, upload)
        self.unread.answer(client, number)
        return Reply(client, version, download, upload, ask=number)

    def _answered(self, brought: Brought, client: int) -> Answer | None:
        """Return a client's answer, or None and note why there is none."""
        if brought.data is not None:
            answer = unpack(Answer, brought.data)
            if answer.refused:
                raise UserError(f"client {client}: {answer.refused}")
            if answer.error:
                raise ClientFault(f"client {client} has failed: {answer.error}")
            if client in self.away:
                self.away.remove(client)
                log.warning("client %d is back", client)
            return answer
        self.faults.append(f"client {client}: {brought.error}")
        if client not in self.away:
            self.away.add(client)
            log.warning("client %d is lost (%s); the run goes on without it until it is back", client, brought.error)
        return None

    def _record(self, there: Transfer, answer: Answer, brought: Brought, arrived: float) -> None:
        """Write the rows of an exchange: the way there, the client's work, the way back."""
        epoch = self.inbox.env.epoch
        received, began, ended = (one - epoch for one in (answer.received, answer.began, answer.ended))
        offset = self.offsets.of(answer.client, there.sent, received, ended, arrived)
        received, began, ended = (min(max(one - offset, there.sent), arrived) for one in (received, began, ended))
        client, step, version = answer.client, there.kind, there.version
        self.write(replace(there, arrived=received, fate="delivered"))
        if not math.isnan(answer.up):
            self.starts.append(answer.up)
            self.write(Span(client, max(there.sent, received - answer.up), received, "start"))
        self.write(Span(client, began, ended, "train"))
        nbytes = len(answer.message) + (reported.BYTES if self.learner.reports else 0)
        self.moved(Transfer(ended, arrived, client, self.node, step, version, nbytes, brought.carried, "delivered"))

    def _fill(self, promise: RemotePromise, upload: Ticket, answer: Answer, number: int) -> None:
        """Open what has arrived."""
        _, payload = trees.parted(answer.message)
        tree = trees.tensors(payload if self.codec is None else self.codec.decode(payload), self.device)
        upload.nbytes = len(answer.message)
        promise.fill(tree, len(answer.message), Memory(answer.client, number, answer.loss, self.memories.read))

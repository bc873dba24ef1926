"""The server, or an edge aggregator, which is a server for its own clients: asks go down, replies come up.

`ServerHost.ask` starts a short-lived process for one exchange with one client.  An update takes the algorithm's
operations over the server's speed and queues for its cores; nothing is read from the host's clock.  An edge aggregator
folds, and leaves it to the cloud to count: a version is the cloud's everywhere.

A reply with values that are not finite is refused when it would be folded: its upload is discarded, and the
update counts it as refused.  It is looked at no sooner, for what has arrived may not have been computed yet.

When the server restarts (net/effects/restart.py) its state is that of a checkpoint, whoever it has asked breaks off,
and replies to asks of before are lost, whoever holds them.  The version counts on.

Not modelled: a server that learns of a lost client only by a timeout.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock import masks
from fedsim.clock.ask import Ask
from fedsim.clock.clients import Clients
from fedsim.clock.cores import Cores
from fedsim.clock.downtime import Downtime
from fedsim.clock.planned_wave import PlannedWave
from fedsim.clock.saved_states import Checkpoints
from fedsim.clock.shared_wave import SharedWave
from fedsim.clock.unread import Unread
from fedsim.clock.wave import Wave, WriteMany
from fedsim.core import record
from fedsim.core.record import SERVER, Row, Update
from fedsim.core.wire import Tree
from fedsim.learner import batch
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import Reply, Share, Ticket
from fedsim.net import masking
from fedsim.net.message import Message
from fedsim.net.network import Network
from fedsim.net.transfer import Lost

Ints = npt.NDArray[np.int64]
RESTART = "restart"  # the step of the row that tells of one


@dataclass
class ServerHost:
    """Its state and version, and the asks under way; `node` is its number, `rounds` are those that have begun.

    `wanted` is how many clients the protocol would ask for the next row, where it has such a number.
    """

    env: simpy.Environment
    network: Network
    learner: Learner
    clients: Clients
    write: Callable[[Row], None]
    speed: float
    cores: int = 1
    node: int = SERVER
    write_many: WriteMany | None = None  # None: every ask goes by itself
    state: Ticket = field(init=False)
    version: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)
    wanted: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        """Take the learner's first state."""
        self.state = self.learner.start()
        self.updated: simpy.Event = self.env.event()
        self.busy: set[int] = set()
        self.unread = Unread(self.node, self.write)
        self._cores = Cores(self.env, self.cores, self.speed, self.node, self.write)
        self._asks = 0
        self._lost = self._late = self._refused = 0
        self._epsilon: float | None = None
        self.restarts = 0
        self._forgotten = 0  # the last ask that it has forgotten in a restart
        self._downtime = Downtime(self.env, self.node, self.write)
        self._checkpoints = Checkpoints(self.state)
        self._service = self.network.service if self.node == SERVER else None  # an edge aggregator does not restart
        if self._service is not None:
            self._service.watch(self._halted, self._resumed)

    @property
    def serving(self) -> bool:
        """Whether it can ask anybody."""
        return self._service is None or self._service.up

    def ask(self, client: int, step: str = "train", beside: Tree = None) -> Ask:
        """Send this client a download and await its upload; ValueError if it is at work already."""
        self.clients.begin(client)
        ask = Ask(self.env, client, step)
        self._asks += 1
        self.busy.add(client)
        self.env.process(self._exchange(ask, self._asks, beside))
        return ask

    def downloads(
        self, clients: Sequence[int], step: str, beside: Mapping[int, Tree] | None = None
    ) -> tuple[Sequence[Ticket | None], Ints]:
        """Return what these clients are sent, and its bytes (K,)."""
        return masks.downloads(self.clients.masks, self.learner, self.state, clients, step, beside)

    def upload_bytes(self, step: str, upload: Ticket | None, beside: Tree) -> int:
        """Return the bytes of what a client sends back; see `masks.upload_bytes`."""
        return masks.upload_bytes(self.clients.masks, self.learner, step, upload, beside)

    def uploads_bytes(
        self, clients: Sequence[int], step: str, uploads: Sequence[Ticket | None], beside: Mapping[int, Tree]
    ) -> Ints:
        """Return the same of what these clients send back (K,)."""
        return masks.uploads_bytes(self.clients.masks, self.learner, clients, step, uploads, beside)

    def ask_all(
        self, clients: Sequence[int], step: str, alone: bool, beside: Mapping[int, Tree] | None = None
    ) -> Wave | None:
        """Ask these clients as a wave, or do nothing and return None where they have to be asked one by one.

        So they have to be while other messages are under way.  `beside` is what masking sends each with its download.
        `alone`: nothing else is sent until all have ended.
        """
        numbers = np.array(clients, dtype=np.int64)
        possible = self.network.planner.possible and not self.network.under_way
        possible = possible and self.learner.talks and self.node == SERVER
        if self.write_many is None or not possible or not (clients and self.network.nodes.online[numbers].all()):
            return None
        first, self._asks = self._asks + 1, self._asks + len(clients)
        kind = PlannedWave if self.network.planner.fits(numbers, alone) else SharedWave
        wave = kind(self, clients, step, first, beside or {})
        self.clients.join(clients, wave)
        self.busy.update(clients)
        wave.begin()
        return wave

    def release(self, clients: Sequence[int]) -> None:
        """Note that these clients of a wave are free again."""
        self.busy.difference_update(clients)
        self.clients.part(clients)

    def release_one(self, client: int) -> None:
        """Note that one client of a wave is free again."""
        self.busy.discard(client)
        self.clients.leave_wave(client)

    def close(self, ask: Ask) -> None:
        """Wait for this ask no longer: what it still brings, or has brought unread, is late."""
        if ask.open and not (ask.triggered and ask.value is None):  # who is lost was counted as such
            ask.open = False
            self._late += 1
            if ask.triggered and ask.value is not None:
                self.unread.decide(ask.value.ask, "late")

    def discard(self, reply: Reply) -> None:
        """Take a reply that has arrived and that the protocol will not fold; it counts among the late."""
        self._late += 1
        self.unread.decide(reply.ask, "discarded")

    def remembered(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """Return those asked for since the last restart; the others are lost, their uploads discarded."""
        if not self._forgotten:
            return replies
        forgotten = [reply for reply in replies if 0 < reply.ask <= self._forgotten]
        self._lose(forgotten)
        return [reply for reply in replies if reply not in forgotten] if forgotten else [*replies]

    def screen(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """Return the replies that can be folded, in order of the client; those that are not finite are refused.

        An edge aggregator, a server and a peer all take what they fold from here.
        """
        # what a set of replies amounts to must not depend on which came first
        ordered = batch.ordered(self.remembered(replies))
        finite = self.learner.finite(ordered)
        if all(finite):
            return ordered
        refused = [reply for reply, whole in zip(ordered, finite, strict=True) if not whole]
        self._refused += len(refused)
        self.unread.decide_all(refused, "discarded")
        return [reply for reply, whole in zip(ordered, finite, strict=True) if whole]

    def update(self, replies: Sequence[Reply], step: str = "train") -> Generator[simpy.Event, Any, int]:
        """Fold replies into the state and count the update; without any, only note that none came.

        Returns how many were folded.
        """
        opened = yield from self.fold(replies, step)
        yield from self.count(step, len(opened), batch.behind(opened, self.version))
        return len(opened)

    def fold(self, replies: Sequence[Reply], step: str = "train") -> Generator[simpy.Event, Any, Sequence[Reply]]:
        """Fold replies into the state, which takes the server's time; return those folded, in order."""
        sound = self.screen(replies)
        if sound:
            if not (yield from self.compute(self.learner.operations(self.state, sound, step))):
                self._lose(sound)
                return []
            self._observe(sound)
            self.state, self._epsilon = self.learner.fold(self.state, sound, step)
        self.unread.decide_all(sound, "delivered")
        return sound

    def accept(self, replies: Sequence[Reply], step: str) -> Generator[simpy.Event, Any, None]:
        """Take replies of an exchange of masking's own, which change no state."""
        self.unread.decide_all(replies, "delivered")
        yield from self.count(step, len(replies), 0.0)

    def mix(self, shares: Sequence[Share], weights: Sequence[float]) -> Generator[simpy.Event, Any, bool]:
        """Merge what others have shared into the state, which takes a multiply-add a number; return whether it did."""
        if not (yield from self.compute(sum(share.operations for share in shares))):
            return False
        self.state = self.learner.mix(self.state, shares, weights)
        return True

    def compute(self, operations: float) -> Generator[simpy.Event, Any, bool]:
        """Take a core for that many operations, once one is free; return whether no restart has broken it off."""
        return (yield from self._cores.compute(operations))

    def note(self, lost: int = 0, late: int = 0, refused: int = 0) -> None:
        """Count so many clients more among those that the next row tells of."""
        self._lost += lost
        self._late += late
        self._refused += refused

    def tally(self) -> tuple[int, int, int]:
        """Return how many were lost, late and refused since the last row, or since this was last asked."""
        counts = self._lost, self._late, self._refused
        self._lost = self._late = self._refused = 0
        return counts

    def count(self, step: str, folded: int, staleness: float) -> Generator[simpy.Event, Any, None]:
        """Note an update of so many replies, this much behind on average; observers and streams then go first.

        What only prepares has its row too, but counts as none.
        """
        lost, late, refused = self.tally()
        asked = folded + lost + late + refused
        counts = bool(folded) and step not in self.learner.prepares and step not in masking.STEPS
        self.version += counts
        if counts and self._service is not None:
            self._checkpoints.keep(self._service.intervals, self.version, self.state)
        epsilon = self._epsilon if counts else None
        wanted, self.wanted = self.wanted, None
        row = step, asked, folded, lost, late, staleness, refused, epsilon, wanted
        self.write(Update(self.env.now, self.version, *row))
        if counts:
            updated, self.updated = self.updated, self.env.event()
            updated.succeed(self.version)
        yield self.env.timeout(0)

    def moved(self, row: record.Transfer) -> None:
        """Take the network's row of an ended transfer; an upload's is kept until its reply counts or does not."""
        self.unread.moved(row, self.busy)

    def end(self) -> None:
        """Close the books: write the rows that were kept back for replies that nobody has folded."""
        self._downtime.end()
        self.unread.end()

    def _halted(self, interval: int) -> None:
        """Go down: nothing is left but a checkpoint."""
        self.restarts += 1
        self._forgotten = self._asks
        self._downtime.begin()
        version, self.state = self._checkpoints.last(interval)
        self.write(Update(self.env.now, self.version, RESTART, 0, 0, 0, 0, float(self.version - version)))
        self._cores.break_off()
        for client in sorted(self.busy):
            self.network.nodes.leave(client)

    def _resumed(self) -> None:
        self._downtime.end()
        self.clients.stir()

    def _exchange(self, ask: Ask, number: int, beside: Tree) -> Generator[simpy.Event, Any, None]:
        reply, began = None, self.env.now
        with suppress(Lost):
            reply = yield from (self._talk(ask, number, beside) if self.learner.talks else self._alone(ask, number))
        self.busy.remove(ask.client)
        if reply is not None:
            self.clients.reports.arrived(ask.client, self.env.now - began, self.clients.cohorts)
        if reply is None and ask.open:
            self._lost += 1
        ask.succeed(reply)
        if reply is not None and not ask.open:
            self.unread.decide(reply.ask, "late")
        self.clients.finish(ask.client)

    def _talk(self, ask: Ask, number: int, beside: Tree) -> Generator[simpy.Event, Any, Reply | None]:
        client, step, version = ask.client, ask.step, self.version
        (download,), (nbytes,) = self.downloads([client], step, None if beside is None else {client: beside})
        label = download, masks.beside(self.clients.masks, step, beside)
        request = self.network.send(Message.carrying(self.node, client, step, nbytes, version, label))
        yield request
        worked = yield from self.clients.work(client, step, download)
        if not worked:
            return None
        (upload,) = worked
        nbytes = self.upload_bytes(step, upload, beside)
        yield self.network.send(Message.carrying(client, self.node, step, nbytes, version), request)
        self.unread.answer(client, number)
        return Reply(client, version, download, upload, ask=number)

    def _alone(self, ask: Ask, number: int) -> Generator[simpy.Event, Any, Reply | None]:
        """Work that needs no network: nothing is sent either way."""
        version = self.version
        worked = yield from self.clients.work(ask.client, ask.step, None, travels=False)
        return Reply(ask.client, version, None, worked[0], ask=number) if worked else None

    def _observe(self, replies: Sequence[Reply]) -> None:
        """Read the losses that came with replies, if clients report them."""
        if self.learner.reports:
            clients, losses = batch.clients_of(replies), self.learner.losses(replies)
            for client, loss in zip(clients, losses, strict=True):
                self.clients.reports.reported(
                    client, loss, int(self.clients.training_vertices[client]), self.clients.cohorts
                )

    def _lose(self, replies: Sequence[Reply]) -> None:
        self._lost += len(replies)
        self.unread.decide_all(replies, "discarded")

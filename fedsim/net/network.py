"""Network: carries messages between the server and its clients, and records the passage of each.

A star: every message goes over one client's access link and one direction of the server's, which all clients share
(`ingress` for uploads, `egress` for downloads).  Not modelled: trees of edge servers, messages from client to client,
uploads that slow downloads.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy

from fedsim import record
from fedsim.net.bucket import Bucket
from fedsim.net.connection import Connection, Connections
from fedsim.net.effect import Effect
from fedsim.net.lane import BITS, Lane
from fedsim.net.link import Link
from fedsim.net.message import Message
from fedsim.net.model import Fluid, Model
from fedsim.net.node import Nodes
from fedsim.net.passage import Passage
from fedsim.net.transfer import Delivery, Lost, Transfer
from fedsim.record import SERVER


@dataclass(frozen=True)
class ServerAccess:
    """The server's access link in bit/s: `ingress` carries all uploads, `egress` all downloads; None is unlimited.

    Buffers and bursts are in bytes; a buffer of None follows from the rate.  A burst is what a token bucket lets pass
    at once on an idle link: 0 for a serial link; an HTB shaper lets a last packet pass as well, so add a packet there.
    """

    ingress: float | None = None
    egress: float | None = None
    ingress_buffer: float | None = None
    egress_buffer: float | None = None
    ingress_burst: float = 0.0
    egress_burst: float = 0.0

    def link(self, env: simpy.Environment, model: Model, upload: bool) -> Link:
        """Return the link of one direction; ValueError for a negative number."""
        rate, buffer, burst = (
            (self.ingress, self.ingress_buffer, self.ingress_burst)
            if upload
            else (self.egress, self.egress_buffer, self.egress_burst)
        )
        return Link(env, model.capacity(_bytes_a_second(rate)), buffer, burst)


class Network:
    """Carries messages; each ends in exactly one `record.Transfer` row, whatever becomes of it."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        *,
        rng: Callable[[str], np.random.Generator],
        record: Callable[[record.Transfer], None],
        server: ServerAccess = ServerAccess(),
        effects: Sequence[Effect] = (),
        model: Model = Fluid(),  # noqa: B008 - frozen
        reuse: bool = False,
    ) -> None:
        """Connect the nodes, and set off the processes of effects that drive them (these never end by themselves).

        `rng` gives an independent random stream a name.  Each transfer has its own, named after its ends and how many
        went between them before, so that what one draws never depends on the others.  With `reuse` a message goes over
        a connection that an earlier one has left open.
        """
        self.env, self.nodes, self.effects, self.model = env, nodes, tuple(effects), model
        self._rng, self._record = rng, record
        self._servers = {True: _bytes_a_second(server.ingress), False: _bytes_a_second(server.egress)}
        self._links = {up: server.link(env, model, up) for up in (True, False)}
        self._lanes: dict[tuple[int, bool], Lane[Passage]] = {}
        self._buckets: dict[tuple[int, bool], Bucket] = {}
        self._carried = {up: np.zeros(len(nodes)) for up in (True, False)}
        self._connections = Connections() if reuse else None
        self._sent: Counter[tuple[int, int]] = Counter()
        self._under_way: dict[Passage, tuple[Message, Delivery, Connection | None]] = {}
        nodes.watch(self._on_move)
        nodes.watch_rates(self._on_rates)
        for index, effect in enumerate(self.effects):
            if drive := effect.drive(env, self, rng(f"effect/{index}")):
                env.process(drive)

    @property
    def shared(self) -> dict[str, Link]:
        """The links that several clients share, by name."""
        return {"ingress": self._links[True], "egress": self._links[False]}

    @property
    def ingress(self) -> Link:
        """The server's link for uploads, in bytes/s."""
        return self._links[True]

    @property
    def egress(self) -> Link:
        """The server's link for downloads, in bytes/s."""
        return self._links[False]

    def metered(self, client: int, upload: bool) -> float:
        """Return the wire bytes that have gone over a client's access link, those of messages that were cut included.

        They are counted where they move, whatever the rows say; those that move now once they stop.
        """
        return float(self._carried[upload][client])

    def stay(self, rng: np.random.Generator) -> float:
        """Draw the seconds of work after which a client that is busy leaves; infinity: it does not."""
        return min((effect.stay(rng) for effect in self.effects), default=math.inf)

    def send(self, message: Message) -> Delivery:
        """Send a message from the server to a client or back; at once lost if the client is offline.

        The delivery succeeds with the message when it arrives and fails with Lost when it is cut.  Raises ValueError
        for a message that does not run between the server and a client there is.
        """
        client = self._client_of(message)
        transfer = self._transfer(message, client)
        delivery = Delivery(self.env)
        delivery.defused = True  # a loss that nobody waits for is no failure of the run
        if self.nodes.online[client]:
            passage = Passage(self.env, transfer, self._lane(client, transfer.upload), self.model, self._on_arrival)
            self._under_way[passage] = message, delivery, self._connect(transfer)
            delivery.on_abort = partial(self._cut, passage)
            passage.begin()
        else:
            self._lose(transfer.start, message, delivery, 0.0)
        return delivery

    def close(self) -> None:
        """Cut whatever is still under way, so that it is recorded: the end of a run."""
        for passage in list(self._under_way):
            self._cut(passage)

    def _client_of(self, message: Message) -> int:
        client = message.dst if message.src == SERVER else message.src
        if (message.src == SERVER) == (message.dst == SERVER) or not 0 <= client < len(self.nodes):
            raise ValueError(
                f"'{message.kind}' goes from {message.src} to {message.dst}: one end must be the server ({SERVER}), "
                f"the other a client from 0 to {len(self.nodes) - 1}"
            )
        return client

    def _transfer(self, message: Message, client: int) -> Transfer:
        pair = message.src, message.dst
        number = self._sent[pair]
        self._sent[pair] += 1
        nodes, upload = self.nodes, message.dst == SERVER
        transfer = Transfer(
            *pair, client, upload, message.nbytes, self.env.now,
            rtt=2 * float(nodes.latency[client]), jitter=float(nodes.jitter[client]),
            loss_up=float(nodes.loss_up[client]), loss_down=float(nodes.loss_down[client]),
        )  # fmt: skip
        if self.effects or transfer.loss_up or transfer.loss_down:
            rng = self._rng(f"transfer/{message.src}/{message.dst}/{number}")
            transfer.handshake_draw, transfer.loss_draw = map(float, rng.random(2))
            for effect in self.effects:
                effect.shape(transfer, rng)
        return transfer

    def _lane(self, client: int, upload: bool) -> Lane[Passage]:
        key = client, upload
        if key not in self._lanes:
            link, rate, carried = self._links[upload], self._servers[upload], self._carried[upload]
            bucket = self._bucket(client, upload)
            self._lanes[key] = Lane[Passage](
                self.env, self.nodes, client, upload, link, (link,), rate, self.model, bucket, carried
            )
        return self._lanes[key]

    def _bucket(self, client: int, upload: bool) -> Bucket | None:
        """Return the bucket of a client's access link, None where it holds nothing."""
        key, bursts = (client, upload), self.nodes.up_burst if upload else self.nodes.down_burst
        if key not in self._buckets and bursts[client]:
            self._buckets[key] = Bucket(float(bursts[client]))
        return self._buckets.get(key)

    def _connect(self, transfer: Transfer) -> Connection | None:
        if self._connections is None:
            return None
        return self._connections.take(transfer, self.model.timeout(transfer))

    def _on_move(self, client: int, what: str) -> None:
        if what in ("sleep", "leave"):
            for lane in self._lanes_of(client):
                for passage in list(lane.passages):
                    self._cut(passage)
            if self._connections:
                self._connections.close(client)

    def _on_rates(self, client: int) -> None:
        for lane in self._lanes_of(client):
            lane.refresh()

    def _lanes_of(self, client: int) -> list[Lane[Passage]]:
        return [lane for up in (False, True) if (lane := self._lanes.get((client, up)))]

    def _on_arrival(self, passage: Passage) -> None:
        message, delivery, connection = self._remove(passage)
        if self._connections and connection:
            self._connections.give(connection, passage.transfer, self.env.now)
        fate = "late" if delivery.late else "delivered"
        self._add_row(passage.transfer.start, message, round(passage.size), fate)
        delivery.succeed(message)

    def _cut(self, passage: Passage) -> None:
        if passage in self._under_way:
            moved = passage.cut()
            message, delivery, _ = self._remove(passage)
            self._lose(passage.transfer.start, message, delivery, moved)

    def _remove(self, passage: Passage) -> tuple[Message, Delivery, Connection | None]:
        transfer = passage.transfer
        if not passage.lane.passages:  # an idle client is a row and nothing else
            self._lanes.pop((transfer.client, transfer.upload))
        return self._under_way.pop(passage)

    def _lose(self, sent: float, message: Message, delivery: Delivery, moved: float) -> None:
        whole = math.floor(moved)
        self._add_row(sent, message, whole, "cut" if whole else "lost")
        delivery.fail(Lost(message, whole))

    def _add_row(self, sent: float, message: Message, moved: int, fate: str) -> None:
        ends = message.src, message.dst, message.kind, message.version
        self._record(record.Transfer(sent, self.env.now, *ends, message.nbytes, moved, fate))


def _bytes_a_second(rate: float | None) -> float:
    return math.inf if rate is None else rate / BITS

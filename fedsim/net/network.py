"""Network: carries messages between nodes that a topology connects, and records the passage of each.

In a star every message goes over one client's access link and one direction of the server's, which all clients share
(`ingress` for uploads, `egress` for downloads); other topologies put links between, or do without a server.  Not
modelled: uploads that slow downloads, messages that take several ways at once.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy

from fedsim import record, seeds
from fedsim.net.connection import Connection, Connections
from fedsim.net.effect import Effect
from fedsim.net.fabric import Fabric
from fedsim.net.forged import Forgers
from fedsim.net.lanes import Lanes
from fedsim.net.message import Message
from fedsim.net.model import Fluid, Model
from fedsim.net.node import Floats, Nodes
from fedsim.net.passage import Passage
from fedsim.net.plan import Ints, Planner
from fedsim.net.service import Service
from fedsim.net.shaping import shaped
from fedsim.net.sharing.link import Link
from fedsim.net.sharing.pipe import Pipe
from fedsim.net.topologies.star import Star
from fedsim.net.topology import Cable, Route, Topology
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

    def cables(self) -> dict[str, Cable]:
        """Return the two links by name."""
        return {
            "ingress": Cable(self.ingress, self.ingress_buffer, self.ingress_burst),
            "egress": Cable(self.egress, self.egress_buffer, self.egress_burst),
        }


class Network:
    """Carries messages; each ends in exactly one `record.Transfer` row, whatever becomes of it."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        *,
        rng: Callable[[str], np.random.Generator],
        record: Callable[[record.Transfer], None],
        topology: Topology = Star(),  # noqa: B008 - frozen
        server: ServerAccess = ServerAccess(),
        effects: Sequence[Effect] = (),
        model: Model = Fluid(),  # noqa: B008 - frozen
        reuse: bool = False,
    ) -> None:
        """Connect the nodes, and set off the processes of effects that drive them (these never end by themselves).

        `rng` gives an independent random stream a name.  What a transfer draws goes by its own name, which tells its
        ends and how many went between them before, so that it never depends on the others.  With `reuse` a message
        goes over a connection that an earlier one has left open.  Raises UserError where the topology does not fit the
        clients.
        """
        self.env, self.nodes, self.effects, self.model = env, nodes, tuple(effects), model
        self._rng, self._record = rng, record
        self.layout = topology.lay(len(nodes), rng("topology"))
        cables = (server.cables() if topology.has_server else {}) | self.layout.cables
        self._fabric = Fabric(env, nodes, model, cables, meshed=bool(self.layout.cables))
        self._lanes = Lanes(env, nodes, model, self.layout, self._fabric)
        self._connections = Connections() if reuse else None
        self._luck = int(rng("transfers").integers(2**62))  # the seed of what transfers draw
        self._shaping = tuple(effect for effect in self.effects if type(effect).shape is not Effect.shape)
        self._leaving = tuple(effect for effect in self.effects if type(effect).stay is not Effect.stay)
        forging = {
            index: effect.forge(len(nodes), rng(f"effect/{index}/forge"))
            for index, effect in enumerate(self.effects)
            if type(effect).forge is not Effect.forge
        }
        self.forgers = Forgers([*forging.values()])
        self._sent: Counter[tuple[int, int]] = Counter()
        self.planner = self._planner(reuse)
        self.received: Callable[[Message], None] | None = None  # hears of each message that arrives; not of plans
        self._under_way: dict[Passage, tuple[Message, Delivery, Connection | None]] = {}
        nodes.watch(self._on_move, idle=reuse)  # connections close when an idle client goes
        nodes.watch_rates(self._on_rates)
        self.service = Service() if topology.has_server else None
        if self.service is not None:
            self.service.watch(self._on_halt, _nothing)
        for index, effect in enumerate(self.effects):
            if drive := effect.drive(env, self, rng(f"effect/{index}")):
                env.process(drive)

    @property
    def shared(self) -> dict[str, Link | Pipe]:
        """The links that several clients share, by name; none among peers."""
        return self._fabric.links

    @property
    def ingress(self) -> Link | Pipe:
        """The server's link for all uploads, in bytes/s; KeyError where there is no server."""
        return self._fabric.links["ingress"]

    @property
    def egress(self) -> Link | Pipe:
        """The server's link for all downloads, in bytes/s; KeyError where there is no server."""
        return self._fabric.links["egress"]

    @property
    def edges(self) -> int:
        """How many edge aggregators there are; their nodes are -2, -3, and so on."""
        return self.layout.edges

    def edge_of(self, client: int) -> int:
        """Return the node number of a client's edge aggregator; ValueError where there is none."""
        return self.layout.edge_of(client)

    def neighbours(self, client: int) -> tuple[int, ...]:
        """Return the clients that a client can talk with, ascending; empty where there is a server."""
        return self.layout.neighbours(client)

    def meters(self, upload: bool) -> Floats:
        """Return the wire bytes (K,) that have gone over each client's access link; to be read only.

        They are counted where they move, whatever the rows say, those of messages that were cut included; those that
        move now once they stop.
        """
        return self._lanes.carried[upload]

    def _planner(self, reuse: bool) -> Planner:
        """Return what plans whole cohorts' messages; it can only be used in a star that keeps no connection open."""
        star = set(self._fabric.links) == {"ingress", "egress"} and not self.layout.cables and not reuse
        ways = {True: ("ingress",), False: ("egress",)}
        slowest = {up: self._fabric.track(Route(None, way, None)).slowest if star else 0.0 for up, way in ways.items()}
        return Planner(
            self.nodes, self.model, self._fabric.links, slowest, self._draws, self._sent,
            self._lanes.carried, self.effects,
            plain_star=star,
        )  # fmt: skip

    def _draws(self, src: Ints, dst: Ints, number: Ints) -> Floats:
        """Return two numbers in [0, 1) for each message (2, K), which depend on its ends and its number only."""
        return seeds.uniforms(self._luck, src, dst, number, count=2)

    def _draws_of(self, src: int, dst: int, number: int) -> tuple[float, float]:
        handshake, loss = self._draws(np.array([src]), np.array([dst]), np.array([number]))
        return float(handshake[0]), float(loss[0])

    @property
    def makes_leave(self) -> bool:
        """Whether an effect may have a busy client leave."""
        return bool(self._leaving)

    def stay(self, rng: np.random.Generator) -> float:
        """Draw the seconds of work after which a client that is busy leaves; infinity: it does not."""
        return min((effect.stay(rng) for effect in self._leaving), default=math.inf)

    def send(self, message: Message) -> Delivery:
        """Send a message from one node to another; at once lost if a client at an end is offline, or the server down.

        The delivery succeeds with the message when it arrives and fails with Lost when it is cut.  Raises ValueError
        where the topology has no way from one to the other.
        """
        try:
            route = self.layout.route(message.src, message.dst)
        except ValueError as error:
            raise ValueError(f"'{message.kind}' cannot be sent: {error}") from None
        transfer = self._transfer(message, route)
        delivery = Delivery(self.env)
        delivery.defused = True  # a loss that nobody waits for is no failure of the run
        if self._is_online(route.out) and self._is_online(route.into) and self._is_served(message):
            lane, track = self._lanes.find(message.src, message.dst, route)
            passage = Passage(self.env, transfer, lane, track, self.model, self._on_arrival)
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

    def _is_online(self, client: int | None) -> bool:
        return client is None or self.nodes.is_online(client)

    def _is_served(self, message: Message) -> bool:
        return self.service is None or self.service.up or SERVER not in (message.src, message.dst)

    def _on_halt(self, interval: int) -> None:
        for passage, (message, _, _) in list(self._under_way.items()):
            if SERVER in (message.src, message.dst):
                self._cut(passage)
        if self._connections:
            self._connections.close(SERVER)

    def _transfer(self, message: Message, route: Route) -> Transfer:
        pair = message.src, message.dst
        number = self._sent.get(pair, 0)
        self._sent[pair] = number + 1
        name = f"transfer/{message.src}/{message.dst}/{number}"
        draws, stream = partial(self._draws_of, *pair, number), partial(self._rng, name)
        return shaped(message, route, self.nodes, self._shaping, self.env.now, draws, stream)

    def _connect(self, transfer: Transfer) -> Connection | None:
        if self._connections is None:
            return None
        return self._connections.take(transfer, self.model.timeout(transfer))

    def _on_move(self, client: int, what: str) -> None:
        if what in ("sleep", "leave"):
            for lane in self._lanes.of(client):
                for passage in list(lane.passages):
                    self._cut(passage)
            if self._connections:
                self._connections.close(client)

    def _on_rates(self, client: int) -> None:
        self._fabric.refresh(client)
        for lane in self._lanes.of(client):
            lane.refresh()

    def _on_arrival(self, passage: Passage) -> None:
        message, delivery, connection = self._remove(passage)
        if self._connections and connection:
            self._connections.give(connection, passage.transfer, self.env.now)
        self._add_row(passage.transfer.start, message, round(passage.size), delivery.fate)
        if self.received is not None:
            self.received(message)
        delivery.succeed(message)

    def _cut(self, passage: Passage) -> None:
        if passage in self._under_way:
            moved = passage.cut()
            message, delivery, _ = self._remove(passage)
            self._lose(passage.transfer.start, message, delivery, moved)

    def _remove(self, passage: Passage) -> tuple[Message, Delivery, Connection | None]:
        self._lanes.release(passage.transfer.src, passage.transfer.dst, passage.lane)
        return self._under_way.pop(passage)

    def _lose(self, sent: float, message: Message, delivery: Delivery, moved: float) -> None:
        whole = math.floor(moved)
        self._add_row(sent, message, whole, "cut" if whole else "lost")
        delivery.fail(Lost(message, whole))

    def _add_row(self, sent: float, message: Message, moved: int, fate: str) -> None:
        ends = message.src, message.dst, message.kind, message.version
        self._record(record.Transfer(sent, self.env.now, *ends, message.nbytes, moved, fate))


def _nothing() -> None:
    """Be what the network does when the server is up again."""

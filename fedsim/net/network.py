"""Network: carries messages between the nodes of a topology, and records the passage of each.

In a star every message crosses one client's access link and one direction of the server's, which all clients share
(`ingress` for uploads, `egress` for downloads); other topologies put links between, or have no server.  Not modelled:
uploads that slow downloads, messages that take several routes at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy

from fedsim.core import record
from fedsim.core.record import SERVER
from fedsim.net.connecting import Connecting
from fedsim.net.connection import Connection, Connections
from fedsim.net.draws import Draws
from fedsim.net.effect import Effect, check_hooks
from fedsim.net.forged import Forgers
from fedsim.net.message import Message
from fedsim.net.model import Fluid, Model
from fedsim.net.node import Floats, Nodes
from fedsim.net.open_channels import OpenChannels
from fedsim.net.passage import Passage
from fedsim.net.plan import Planner
from fedsim.net.service import Service
from fedsim.net.shaping import shaped
from fedsim.net.shared_links import SharedLinks
from fedsim.net.sharing.link import Link
from fedsim.net.sharing.mesh_link import MeshLink
from fedsim.net.topologies.star import Star
from fedsim.net.topology import LinkSpec, Route, Topology
from fedsim.net.traits import Traits, unknown
from fedsim.net.transfer import Delivery, Lost, Transfer
from fedsim.net.transport import Carrier, Transport
from fedsim.net.transports.tcp import Tcp


@dataclass(frozen=True)
class ServerAccess:
    """The server's access link in bit/s: `ingress` carries all uploads, `egress` all downloads; None is unlimited.

    Buffers and bursts are in bytes; a buffer of None is derived from the rate.  A burst is what a token bucket lets
    pass at once on an idle link: 0 for a serial link; add a packet for an HTB shaper, which lets a last one pass.
    """

    ingress: float | None = None
    egress: float | None = None
    ingress_buffer: float | None = None
    egress_buffer: float | None = None
    ingress_burst: float = 0.0
    egress_burst: float = 0.0

    def links(self) -> dict[str, LinkSpec]:
        """Return the two links by name."""
        return {
            "ingress": LinkSpec(self.ingress, self.ingress_buffer, self.ingress_burst),
            "egress": LinkSpec(self.egress, self.egress_buffer, self.egress_burst),
        }


WAYS = {True: "ingress", False: "egress"}  # the server's link for uploads, and for downloads


class Network:
    """Carries messages; each ends in exactly one `record.Transfer` row, whatever its fate."""

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
        connecting: Connecting = Connecting(),  # noqa: B008 - frozen
        transport: Transport = Tcp(),  # noqa: B008 - frozen
        traits: Traits | None = None,
    ) -> None:
        """Connect the nodes, and start the processes of effects that drive them (they never end by themselves).

        `rng` returns an independent random stream for each name.  A transfer draws from a stream named after its ends
        and how many were sent between them before, so that its draws never depend on other transfers.  Raises UserError
        if the topology does not fit the clients, or if an effect does not declare its hooks.
        """
        self.env, self.nodes, self.effects, self.model = env, nodes, tuple(effects), model
        self._rng, self._record, self.traits = rng, record, traits or unknown(len(nodes))
        self.layout = topology.lay(len(nodes), rng("topology"))
        specs = (server.links() if topology.has_server else {}) | self.layout.links
        overflows = Draws(int(rng("overflows").integers(2**62)))
        self._links = SharedLinks(env, nodes, model, specs, overflows, meshed=bool(self.layout.links))
        self._channels = OpenChannels(env, nodes, model, self.layout, self._links)
        self._connecting = connecting
        self._connections = Connections(model, connecting.idle_restart) if connecting.kind != "fresh" else None
        self._carrier = None if transport.plain else Carrier(transport, rng)
        self._draws = Draws(int(rng("transfers").integers(2**62)))
        for effect in self.effects:
            check_hooks(effect)
        self._shaping = tuple(effect for effect in self.effects if effect.shapes)
        self._limiting = tuple(effect for effect in self.effects if effect.limits_stay)
        self.forgers = Forgers(
            [
                effect.forge(len(nodes), rng(f"effect/{index}/forge"))
                for index, effect in enumerate(self.effects)
                if effect.forges
            ]
        )
        self.planner = self._planner()
        self.received: Callable[[Message], None] | None = None  # called on arrival, except for planned messages
        self._under_way: dict[Passage, tuple[Message, Delivery, Connection | None]] = {}
        nodes.watch(self._on_move, idle=connecting.keeps)  # connections close when an idle client goes offline
        nodes.watch_rates(self._on_rates)
        self.service = Service() if topology.has_server else None
        if self.service is not None:
            self.service.watch(self._on_halt, _nothing)
        for index, effect in enumerate(self.effects):
            if effect.drives and (drive := effect.drive(env, self, rng(f"effect/{index}"))):
                env.process(drive)

    @property
    def shared(self) -> dict[str, Link | MeshLink]:
        """The links that several clients share, by name; none among peers."""
        return self._links.by_name

    @property
    def ingress(self) -> Link | MeshLink:
        """The server's link for all uploads, in bytes/s; KeyError if there is no server."""
        return self._links.by_name["ingress"]

    @property
    def egress(self) -> Link | MeshLink:
        """The server's link for all downloads, in bytes/s; KeyError if there is no server."""
        return self._links.by_name["egress"]

    @property
    def edges(self) -> int:
        """How many edge aggregators there are; their nodes are -2, -3, and so on."""
        return self.layout.edges

    def edge_of(self, client: int) -> int:
        """Return the node number of a client's edge aggregator; ValueError if there is none."""
        return self.layout.edge_of(client)

    def neighbours(self, client: int) -> tuple[int, ...]:
        """Return the clients that a client can talk with, ascending; empty if there is a server."""
        return self.layout.neighbours(client)

    def meters(self, upload: bool) -> Floats:
        """Return the wire bytes (K,) that each client's access link has carried; read only.

        They are counted independently of the rows and include messages that were cut.  Bytes on a link are counted when
        their flow ends.
        """
        return self._channels.carried[upload]

    def _planner(self) -> Planner:
        """Return the planner of whole cohorts' messages, which needs a star that keeps no connections."""
        star = set(self._links.by_name) == {"ingress", "egress"} and not self.layout.links
        star = star and not self._connecting.keeps
        routes = {up: self._links.over(Route(None, (name,), None)) for up, name in WAYS.items()} if star else {}
        return Planner(
            self.env, self.nodes, self.model, routes, self._draws, self._channels.carried, self.effects,
            self._carrier, self._connecting.on_open,
        )  # fmt: skip

    @property
    def makes_leave(self) -> bool:
        """Whether an effect may have a busy client leave."""
        return bool(self._limiting)

    def stay(self, rng: np.random.Generator) -> float:
        """Draw the seconds of work after which a busy client leaves; infinity if it does not."""
        return min((effect.stay(rng) for effect in self._limiting), default=math.inf)

    def send(self, message: Message, answers: Delivery | None = None) -> Delivery:
        """Send a message from one node to another; it is lost at once if a client is offline or the server is down.

        A reply names what it `answers`, on whose connection it goes where the two share one.

        The delivery succeeds with the message when it arrives and fails with Lost when it is cut.  Raises ValueError
        if the topology has no route from one to the other.
        """
        try:
            route = self.layout.route(message.src, message.dst)
        except ValueError as error:
            raise ValueError(f"'{message.kind}' cannot be sent: {error}") from None
        transfer = self._transfer(message, route)
        delivery = Delivery(self.env)
        delivery.defused = True  # a loss that nobody waits for is not a failure of the run
        if self._is_online(route.out) and self._is_online(route.into) and self._is_served(message):
            channel, shared = self._channels.find(message.src, message.dst, route)
            passage = Passage(self.env, transfer, channel, shared, self.model, self._on_arrival)
            self._under_way[passage] = message, delivery, self._connect(transfer, answers)
            delivery.on_abort = partial(self._cut, passage)
            passage.begin()
        else:
            self._lose(transfer.start, message, delivery, 0.0)
        return delivery

    @property
    def under_way(self) -> bool:
        """Whether a message is under way, other than those of waves."""
        return bool(self._under_way)

    def messages(self) -> list[Message]:
        """Return the messages under way, other than those of waves, in the order of their sending."""
        return [message for message, _, _ in self._under_way.values()]

    def close(self) -> None:
        """Cut everything that is still under way, so that it is recorded, at the end of a run."""
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
        self.planner.halt()
        if self._connections:
            self._connections.close(SERVER)

    def _transfer(self, message: Message, route: Route) -> Transfer:
        pair = message.src, message.dst
        number = self._draws.number(pair)
        name = f"transfer/{message.src}/{message.dst}/{number}"
        draws, stream = partial(self._draws.of, pair, number), partial(self._rng, name)
        transfer = shaped(message, route, self.nodes, self._shaping, self.env.now, draws, stream)
        if self._carrier is not None:
            self._carrier.take(transfer)
        return transfer

    def _connect(self, transfer: Transfer, answers: Delivery | None) -> Connection | None:
        if self._connections is None:
            return None
        if answers is not None:
            answers.reopen()
        transfer.pushed = self._connecting.request == "push"
        return self._connections.take(transfer)

    def _on_move(self, client: int, what: str) -> None:
        if what in ("sleep", "leave"):
            for channel in self._channels.of(client):
                for passage in list(channel.passages):
                    self._cut(passage)
            if self._connections:
                self._connections.close(client)

    def _on_rates(self, client: int) -> None:
        self._links.refresh(client)
        for channel in self._channels.of(client):
            channel.refresh()
        self.planner.change(client)

    def _on_arrival(self, passage: Passage) -> None:
        message, delivery, connection = self._remove(passage)
        if self._connections and connection:
            ended = self.env.now - passage.transfer.handed
            free = partial(self._connections.give, connection, passage.transfer, ended, passage.window())
            if self._connecting.keeps:
                free()
            else:
                delivery.reopen = free
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
        self._channels.release(passage.transfer.src, passage.transfer.dst, passage.channel)
        return self._under_way.pop(passage)

    def _lose(self, sent: float, message: Message, delivery: Delivery, moved: float) -> None:
        whole = math.floor(moved)
        self._add_row(sent, message, whole, "cut" if whole else "lost")
        delivery.fail(Lost(message, whole))

    def _add_row(self, sent: float, message: Message, moved: int, fate: str) -> None:
        ends = message.src, message.dst, message.kind, message.version
        self._record(record.Transfer(sent, self.env.now, *ends, message.nbytes, moved, fate))


def _nothing() -> None:
    """Do nothing when the server is up again."""

"""Network: carries messages between the nodes of a topology, and records the passage of each.

In a star every message crosses one client's access link and one direction of the server's, which all clients
share (`ingress` for uploads, `egress` for downloads); other topologies put links between, or have no server.
Not modelled: uploads that slow downloads, messages that take several routes at once.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import simpy

from fedsim.core import record
from fedsim.core.arrays import Floats
from fedsim.core.record import SERVER
from fedsim.core.seeds import Rng
from fedsim.net.channels.channel import Passage
from fedsim.net.channels.connection import Connection, ConnectionPolicy, Connections
from fedsim.net.channels.open_channels import OpenChannels
from fedsim.net.draws import Draws
from fedsim.net.effect import Effect, ServerStatus, Traits, unknown
from fedsim.net.links.link import Link
from fedsim.net.links.mesh_link import MeshLink
from fedsim.net.links.shared_links import SharedLinks
from fedsim.net.message import Message
from fedsim.net.model import NetworkModel
from fedsim.net.node import Nodes
from fedsim.net.plan import Planner
from fedsim.net.shaping import shaped
from fedsim.net.tcp.fluid import Fluid
from fedsim.net.topologies.star import Star
from fedsim.net.topology import LinkSpec, Route, Topology
from fedsim.net.transfer import Delivery, Lost, Transfer
from fedsim.net.transport import Carrier, Transport
from fedsim.net.transports.tcp import Tcp


@dataclass(frozen=True)
class ServerAccess:
    """The server's access link in bit/s: `ingress` carries all uploads, `egress` all downloads; None is unlimited.

    Buffers and bursts are in bytes; a buffer of None is derived from the rate.  A burst is what a token
    bucket lets pass at once on an idle link: 0 for a serial link; add a packet for an HTB shaper, which lets
    a last one pass.
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


class SimulatedNetwork:
    """Carries messages; each ends in exactly one `record.TransferRow`, whatever its fate."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        *,
        rng: Rng,
        record: Callable[[record.TransferRow], None],
        topology: Topology = Star(),  # noqa: B008 - frozen
        server: ServerAccess = ServerAccess(),
        effects: Sequence[Effect] = (),
        model: NetworkModel = Fluid(),  # noqa: B008 - frozen
        connections: ConnectionPolicy = ConnectionPolicy(),  # noqa: B008 - frozen
        transport: Transport = Tcp(),  # noqa: B008 - frozen
        traits: Traits | None = None,
    ) -> None:
        """Connect the nodes, and start the processes of effects that drive them (they never end by themselves).

        `rng` returns an independent random stream for each name.  A transfer draws from a stream named after
        its ends and how many were sent between them before, so that its draws never depend on other
        transfers.  Raises UserError if the topology does not fit the clients.
        """
        self.env, self.nodes, self.effects, self.model = env, nodes, tuple(effects), model
        self._rng, self._record, self.traits = rng, record, traits or unknown(len(nodes))
        self.layout = topology.lay(len(nodes), rng("topology"))
        self._specs = (server.links() if topology.has_server else {}) | self.layout.links
        self._carried = {up: np.zeros(len(nodes)) for up in (True, False)}  # wire bytes on access links
        self._policy = connections
        self._connections = Connections(model, connections.idle_restart) if connections.kind != "fresh" else None
        self._carrier = None if transport.plain else Carrier(transport, rng)
        self._draws, self._overflows = (Draws(int(rng(what).integers(2**62))) for what in ("transfers", "overflows"))
        self._shaping = tuple(effect for effect in self.effects if effect.shapes)
        self._limiting = tuple(effect for effect in self.effects if effect.limits_stay)
        self.planner = self._planner()
        self.received: Callable[[Message], None] | None = None  # called on arrival, except for planned messages
        # messages under way, other than those of cohorts
        self.under_way: dict[Passage, tuple[Message, Delivery, Connection | None]] = {}
        nodes.watch(self._on_move, idle=connections.kind == "kept")  # an idle one may be connected
        nodes.rates.watch(self._on_rates)
        self.has_server = topology.has_server
        self.server_status: ServerStatus | None = None  # only with an effect that halts the server
        if topology.has_server and any(effect.halts_server for effect in self.effects):
            self.server_status = ServerStatus()
            self.server_status.watch(self._on_halt)
        for index, effect in enumerate(self.effects):
            if effect.drives and (drive := effect.drive(env, self, rng(f"effect/{index}"))):
                env.process(drive)

    @cached_property
    def _links(self) -> SharedLinks:
        meshed = bool(self.layout.links)
        return SharedLinks(self.env, self.nodes, self.model, self._specs, self._overflows, meshed=meshed)

    @cached_property
    def _channels(self) -> OpenChannels:
        return OpenChannels(self.env, self.nodes, self.model, self.layout, self._links, self._carried)

    @property
    def shared(self) -> dict[str, Link | MeshLink]:
        """The links that several clients share, by name; none among peers."""
        return self._links.by_name

    def meters(self, upload: bool) -> Floats:
        """Return the wire bytes (K,) that each client's access link has carried; read only.

        They are counted independently of the rows and include messages that were cut.  Bytes on a link are
        counted when their flow ends.
        """
        return self._carried[upload]

    def _planner(self) -> Planner:
        """Return the planner of whole cohorts' messages, which needs a star that keeps no connections."""
        star = set(self._specs) == {"ingress", "egress"} and self._policy.kind != "kept"
        specs = {up: self._specs[name] for up, name in WAYS.items()} if star else {}
        return Planner(
            self.env, self.nodes, self.model, specs, lambda up: self._links.over(Route(None, (WAYS[up],), None)),
            self._draws, self._carried, self.effects, self._carrier, self._policy.kind == "exchange",
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

        The delivery succeeds with the message when it arrives and fails with Lost when it is cut.  Raises
        ValueError if the topology has no route from one to the other.
        """
        try:
            route = self.layout.route(message.src, message.dst)
        except ValueError as error:
            raise ValueError(f"'{message.kind}' cannot be sent: {error}") from None
        transfer = self._transfer(message, route)
        delivery = Delivery(self.env)
        delivery.defused = True  # a loss that nobody waits for is not a failure of the run
        online = all(end is None or self.nodes.is_online(end) for end in (route.out, route.into))
        down = self.server_status is not None and not self.server_status.up and SERVER in transfer.ends
        if online and not down:
            channel, shared = self._channels.find(message.src, message.dst, route)
            passage = Passage(self.env, transfer, channel, shared, self.model, self._on_arrival)
            self.under_way[passage] = message, delivery, self._connect(transfer, answers)
            passage.begin()
        else:
            self._lose(transfer.start, message, delivery, 0.0)
        return delivery

    def messages(self) -> list[Message]:
        """Return the messages under way, other than those of cohorts, in the order of their sending."""
        return [message for message, _, _ in self.under_way.values()]

    def close(self) -> None:
        """Cut everything that is still under way, so that it is recorded, at the end of a run."""
        for passage in list(self.under_way):
            self._cut(passage)

    def _on_halt(self, interval: int) -> None:
        for passage, (message, _, _) in list(self.under_way.items()):
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
        transfer.pushed = self._policy.request == "push"
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
            ended = self.env.now - passage.transfer.receive_delay
            free = partial(self._connections.give, connection, passage.transfer, ended, passage.window())
            if self._policy.kind == "kept":
                free()
            else:
                delivery.reopen = free
        self._add_row(passage.transfer.start, message, round(passage.size), delivery.fate)
        if self.received is not None:
            self.received(message)
        delivery.succeed(message)

    def _cut(self, passage: Passage) -> None:
        moved = passage.cut()
        message, delivery, _ = self._remove(passage)
        self._lose(passage.transfer.start, message, delivery, moved)

    def _remove(self, passage: Passage) -> tuple[Message, Delivery, Connection | None]:
        self._channels.release(passage.transfer.src, passage.transfer.dst, passage.channel)
        return self.under_way.pop(passage)

    def _lose(self, sent: float, message: Message, delivery: Delivery, moved: float) -> None:
        nbytes = math.floor(moved)
        self._add_row(sent, message, nbytes, "cut" if nbytes else "lost")
        delivery.fail(Lost(message, nbytes))

    def _add_row(self, sent: float, message: Message, moved: int, fate: str) -> None:
        ends = message.src, message.dst, message.kind, message.version
        self._record(record.TransferRow(sent, self.env.now, *ends, message.nbytes, moved, fate))

"""Plan: the passages of whole cohorts: many at once from closed formulas, or each by itself without a message.

If no link that clients share can be full, each message has its client's access link to itself, no message
delays another, and a passage is a sum of numbers: opening, stall, bytes over rate before and after a loss,
closing, as the events of `channel.py`.  A plan is valid as long as its client is online; a client that goes
to sleep or leaves cuts it, and `Leg.moved` is what had been sent.  Where a link can be full,
`Planner.passage` takes a message event by event.

Both require a star whose clients keep their rates: no links between, no token buckets, no connections that
are kept, and no effect that shapes transfers or changes rates.  Everything else is simulated message by
message (`network.py`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
import simpy

from fedsim.core.arrays import Floats, Ints
from fedsim.core.record import SERVER
from fedsim.net.channels.channel import BITS, Passage, SharedRoute
from fedsim.net.channels.cohort_channel import CohortChannel
from fedsim.net.draws import Draws
from fedsim.net.effect import Effect
from fedsim.net.links.link_meter import RATE_TOLERANCE
from fedsim.net.model import Messages, NetworkModel
from fedsim.net.node import Nodes
from fedsim.net.shaping import half
from fedsim.net.tcp.flow_control import PLAIN
from fedsim.net.topology import LinkSpec
from fedsim.net.transport import Carrier


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """The passages of K messages, each a row (K,): seconds of the clock, wire bytes, bytes/s.

    The first `part` bytes start at `joins` at the rate `fast`; the others, after a loss, start at `rejoins`
    at the rate `slow`; all have been sent at `leaves` and received at `arrives`.
    """

    joins: Floats
    part: Floats
    fast: Floats
    rejoins: Floats
    slow: Floats
    leaves: Floats
    arrives: Floats
    size: Floats

    def moved(self, row: int, now: float) -> float:
        """Return the wire bytes of one message that have moved by now."""
        if now >= self.leaves[row]:
            return float(self.size[row])
        first = max(0.0, min(self.part[row], (now - self.joins[row]) * self.fast[row]))
        rest = max(0.0, (now - self.rejoins[row]) * self.slow[row])
        return float(min(self.size[row], first + rest))

    def put(self, row: int, other: "Leg") -> None:
        """Replace a row by the only row of another leg."""
        for field in fields(self):
            getattr(self, field.name)[row] = getattr(other, field.name)[0]


class Planner:
    """Plans the passages between the server and its clients, or provides single ones where links can be full."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        model: NetworkModel,
        specs: Mapping[bool, LinkSpec],
        route: Callable[[bool], SharedRoute],
        draws: Draws,
        carried: Mapping[bool, Floats],
        effects: Sequence[Effect],
        carrier: Carrier | None = None,
        on_open: bool = False,
    ) -> None:
        """Serve the clients of a network.

        `specs` are the server's links for uploads (True) and downloads, empty unless the network is a plain
        star, and `route` returns the route over one of them, for passages event by event; `carried` counts the
        wire bytes (K,) of access links.  `carrier` is that of a transport; with `on_open` uploads use the
        connections of their downloads.
        """
        self._env, self._nodes, self._model, self._route = env, nodes, model, route
        self._rates = {up: math.inf if spec.rate is None else spec.rate / BITS for up, spec in specs.items()}
        self._draws, self.carried = draws, carried
        self._lossy = bool(nodes.loss_up.any() or nodes.loss_down.any())
        self._carrier, self._on_open = carrier, on_open
        changes_presence_only = all(
            not effect.shapes and (effect.changes_presence_only or not effect.drives) for effect in effects
        )
        bursts = nodes.up_burst.any() or nodes.down_burst.any() or any(spec.burst for spec in specs.values())
        asleep = not (nodes.uplink.all() and nodes.downlink.all())  # a rate of 0, at which no flow ever ends
        # whether cohorts need no single messages
        self.supports_cohorts = bool(specs) and changes_presence_only and not bursts and not asleep

    @cached_property
    def _channels(self) -> dict[bool, CohortChannel]:
        if not self.supports_cohorts:
            return {}
        known = self._env, self._nodes, self._model
        return {up: CohortChannel(*known, up, self._route(up), self.carried[up]) for up in self._rates}

    @cached_property
    def _never_full(self) -> bool:
        return self._room(np.arange(len(self._nodes)))

    def fits(self, clients: Ints, alone: bool) -> bool:
        """Return whether closed formulas hold for these clients: no link can be full while they are under way.

        With `alone` nothing else is under way until they have ended.
        """
        return self.supports_cohorts and (self._never_full or (alone and self._room(clients)))

    def plan(self, clients: Ints, sent: Floats, nbytes: Ints, upload: bool) -> Leg:
        """Return the passages of one message of `nbytes` to (or from) each client, sent at the seconds `sent`."""
        nodes, terms, carrier = self._nodes, PLAIN, self._carrier
        receive_delay: Floats | float = 0.0
        if carrier is not None:
            sent = sent + carrier.send_delays(clients, nbytes, upload)
            receive_delay = carrier.receive_delay(nbytes, upload)
            nbytes, terms = carrier.transport.carried(nbytes, upload), carrier.terms
        rtt = 2 * nodes.latency[clients] + nodes.jitter[clients]
        forward, reverse = (nodes.uplink, nodes.downlink) if upload else (nodes.downlink, nodes.uplink)
        access = forward[clients] / BITS, reverse[clients] / BITS
        losses = nodes.loss_up[clients], nodes.loss_down[clients]
        messages = Messages(nbytes, rtt, *access, self._rates[upload], *losses, terms)
        draws = self.draws(clients, upload, counted=True) if self._lossy else np.zeros((2, len(clients)))
        flow = self._model.uncontended(messages, draws, upload, reused=upload and self._on_open)
        joins = sent + flow.before
        rejoins = joins + flow.part / flow.fast
        leaves = rejoins + (flow.size - flow.part) / flow.slow
        arrives = leaves + rtt / 2 + flow.late + receive_delay
        return Leg(joins, flow.part, flow.fast, rejoins, flow.slow, leaves, arrives, flow.size)

    def _room(self, clients: Ints) -> bool:
        """Return whether both links have room for everything that these clients can send and receive at once."""
        rows = {True: self._nodes.uplink, False: self._nodes.downlink}
        rooms = {up: self._model.capacity(self._rates[up]) * (1 - RATE_TOLERANCE) for up in rows}
        return all(math.isinf(rooms[up]) or rates[clients].sum() / BITS < rooms[up] for up, rates in rows.items())

    def draws(self, clients: Ints, upload: bool, *, counted: bool = False) -> Floats:
        """Return draws (2, K) for the next message to (or from) each client, zeros if no packet can be lost."""
        numbers = np.zeros((2, len(clients)))
        rows = np.flatnonzero((self._nodes.loss_up[clients] > 0) | (self._nodes.loss_down[clients] > 0))
        if len(rows):
            pairs = [_ends(client, upload) for client in clients[rows].tolist()]
            numbers[:, rows] = self._draws.many(pairs)
            if counted:
                self._draws.count(pairs)
        return numbers

    def take_back(self, client: int, upload: bool) -> None:
        """Undo the count of the last planned message, which will not be sent or is planned again."""
        self._draws.take_back(_ends(client, upload))  # without losses nothing is drawn, and nothing counted

    def passage(
        self, client: int, upload: bool, nbytes: int, draws: tuple[float, float], arrived: Callable[[Passage], None]
    ) -> Passage:
        """Return the passage of a message that is sent now, whose owner begins it and may cut it.

        It proceeds event by event like those of the network, also where links are full, but has no row; no
        other passage of this client may be under way.  `draws` are the message's own, from `draws`.
        """
        channel, ends = self._channels[upload], _ends(client, upload)
        transfer = half(*ends, nbytes, client, upload, self._nodes, self._env.now)
        if transfer.loss_up or transfer.loss_down:
            self._draws.number(ends)
            transfer.handshake_draw, transfer.loss_draw = draws
        transfer.reused = upload and self._on_open
        if self._carrier is not None:
            self._carrier.take(transfer)
        return Passage(self._env, transfer, channel, channel.route, self._model, arrived)

    def change(self, client: int) -> None:
        """Have passages under way take a client's new rates."""
        for channel in self._channels.values():
            channel.change(client)

    def halt(self) -> None:
        """Have clients leave whose passages are under way, as these were started: the server goes down."""
        for channel in self._channels.values():
            for passage in list(channel.passages):
                self._nodes.leave(passage.transfer.client)


def _ends(client: int, upload: bool) -> tuple[int, int]:
    return (client, SERVER) if upload else (SERVER, client)

"""Plan: the passages of whole cohorts: many at once from closed formulas, or each by itself without a message.

If no link that clients share can be full, each message has its client's access link to itself, no message delays
another, and a passage is a sum of numbers: opening, stall, bytes over rate before and after a loss, closing, as
the events of `passage.py`.  A plan is valid as long as its client is online; a client that goes to sleep or leaves cuts
it, and `Leg.moved` is what had been sent.  Where a link can be full, `Planner.passage` takes a message event by event.

Both require a star whose clients keep their rates: no links between, no token buckets, no connections that are kept,
and no effect that shapes transfers or changes rates.  Everything else is simulated message by message (`network.py`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.core.record import SERVER
from fedsim.net.channel import SharedRoute
from fedsim.net.draws import Draws
from fedsim.net.effect import Effect
from fedsim.net.lanes import Lanes
from fedsim.net.lone import Rows
from fedsim.net.model import Model
from fedsim.net.node import Nodes
from fedsim.net.passage import Passage
from fedsim.net.shaping import half
from fedsim.net.sharing.link_state import EXACT
from fedsim.net.transfer import PLAIN
from fedsim.net.transport import Carrier

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Leg:
    """The passages of K messages, each a row (K,): seconds of the clock, wire bytes, bytes/s.

    The first `part` bytes start at `joins` at the rate `fast`; the others, after a loss, start at `rejoins` at the rate
    `slow`; all have been sent at `leaves` and received at `arrives`.
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
        model: Model,
        routes: Mapping[bool, SharedRoute],
        draws: Draws,
        carried: Mapping[bool, Floats],
        effects: Sequence[Effect],
        carrier: Carrier | None = None,
        on_open: bool = False,
    ) -> None:
        """Serve the clients of a network.

        `routes` are the server's links for uploads (True) and downloads, empty unless the network is a plain star;
        `carried` counts the bytes that access links have carried.  `carrier` is that of a transport; with `on_open` an
        upload uses the connection of its download.
        """
        self._env, self._nodes, self._model, self._routes = env, nodes, model, routes
        self._draws, self._carried = draws, carried
        self._carrier, self._on_open = carrier, on_open
        calm = all(not effect.shapes and (effect.calm or not effect.drives) for effect in effects)
        bursts = nodes.up_burst.any() or nodes.down_burst.any() or any(route.shaped for route in routes.values())
        asleep = not (nodes.uplink.all() and nodes.downlink.all())  # a rate of 0, at which no flow ever ends
        self.possible = bool(routes) and calm and not bursts and not asleep  # whether cohorts need no single messages
        self._never_full: bool | None = None
        self._lanes = {
            up: Lanes(env, nodes, model, up, route, carried[up]) for up, route in routes.items() if self.possible
        }

    def fits(self, clients: Ints, alone: bool) -> bool:
        """Return whether closed formulas hold for these clients: no link can be full while they are under way.

        With `alone` nothing else is under way until they have ended.
        """
        if not self.possible:
            return False
        if self._never_full is None:
            self._never_full = self._room(np.arange(len(self._nodes)))
        return self._never_full or (alone and self._room(clients))

    def plan(self, clients: Ints, sent: Floats, nbytes: Ints, upload: bool) -> Leg:
        """Return the passages of one message of `nbytes` to (or from) each client, sent at the seconds `sent`."""
        nodes = self._nodes
        own, reverse = (nodes.uplink, nodes.downlink) if upload else (nodes.downlink, nodes.uplink)
        trip = 2 * nodes.latency[clients] + nodes.jitter[clients]
        losses = nodes.loss_up[clients], nodes.loss_down[clients]
        handed: Floats | float = 0.0
        terms, carrier = PLAIN, self._carrier
        if carrier is not None:
            sent, handed = sent + carrier.held(clients, nbytes, upload), carrier.handed(nbytes, upload)
            nbytes, terms = carrier.carried(nbytes, upload), carrier.terms
        rates = own[clients] / BITS, reverse[clients] / BITS
        access = Rows(nbytes, trip, *rates, self._routes[upload].slowest, *losses, terms)
        draws, reused = self.draws(clients, upload, counted=True), upload and self._on_open
        lone = self._model.lone(access, draws, upload, reused)
        joins = sent + lone.before
        rejoins = joins + lone.part / lone.fast
        leaves = rejoins + (lone.size - lone.part) / lone.slow
        arrives = leaves + trip / 2 + lone.late + handed
        return Leg(joins, lone.part, lone.fast, rejoins, lone.slow, leaves, arrives, lone.size)

    def carry(self, clients: Ints, wire: Floats, upload: bool) -> None:
        """Count wire bytes (K,) that the access links of these clients have carried; no client occurs twice."""
        self._carried[upload][clients] += wire

    def _room(self, clients: Ints) -> bool:
        """Return whether both links have room for everything that these clients can send and receive at once."""
        rows = {True: self._nodes.uplink, False: self._nodes.downlink}
        rooms = {up: self._routes[up].links[0].capacity * (1 - EXACT) for up in rows}
        return all(math.isinf(rooms[up]) or rates[clients].sum() / BITS < rooms[up] for up, rates in rows.items())

    def draws(self, clients: Ints, upload: bool, *, counted: bool = False) -> Floats:
        """Return the draws (2, K) of the next message to (or from) each client, zeros if no packet can be lost."""
        found = np.zeros((2, len(clients)))
        rows = np.flatnonzero((self._nodes.loss_up[clients] > 0) | (self._nodes.loss_down[clients] > 0))
        if len(rows):
            pairs = [_ends(client, upload) for client in clients[rows].tolist()]
            found[:, rows] = self._draws.many(pairs)
            if counted:
                self._draws.count(pairs)
        return found

    def take_back(self, client: int, upload: bool) -> None:
        """Undo the count of the last planned message, which will not be sent or is planned again."""
        self._draws.take_back(_ends(client, upload))  # without losses nothing is drawn, and nothing counted

    def passage(
        self, client: int, upload: bool, nbytes: int, draws: tuple[float, float], arrived: Callable[[Passage], None]
    ) -> Passage:
        """Return the passage of a message that is sent now, whose owner begins it and may cut it.

        It proceeds event by event like those of the network, also where links are full, but has no row; no other
        passage of this client may be under way.  `draws` are the message's own, from `draws`.
        """
        lanes, ends = self._lanes[upload], _ends(client, upload)
        transfer = half(*ends, nbytes, client, upload, self._nodes, self._env.now)
        if transfer.loss_up or transfer.loss_down:
            self._draws.number(ends)
            transfer.handshake_draw, transfer.loss_draw = draws
        transfer.reused = upload and self._on_open
        if self._carrier is not None:
            self._carrier.take(transfer)
        return Passage(self._env, transfer, lanes, lanes.route, self._model, arrived)

    def change(self, client: int) -> None:
        """Have passages under way take a client's new rates."""
        for lanes in self._lanes.values():
            lanes.change(client)

    def halt(self) -> None:
        """Have clients leave whose passages are under way, in the order of their start: the server goes down."""
        for lanes in self._lanes.values():
            for passage in list(lanes.passages):
                self._nodes.leave(passage.transfer.client)


def _ends(client: int, upload: bool) -> tuple[int, int]:
    return (client, SERVER) if upload else (SERVER, client)

"""World: everything that protocols, streams and observers work with; it does not import torch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import simpy

from fedsim.clock.clients import Clients
from fedsim.clock.exchange import Exchange
from fedsim.clock.ledger import Ledger
from fedsim.clock.prices import CostMeter
from fedsim.clock.repartition import STEP, Repartitions
from fedsim.clock.sampler import Sampler
from fedsim.clock.server import ServerHost
from fedsim.core import record
from fedsim.core.arrays import Bools, Ints
from fedsim.core.record import ArrivalRow, Row
from fedsim.core.seeds import Streams
from fedsim.learner.contract import Learner, States
from fedsim.learner.ticket import Ticket
from fedsim.net.network import SimulatedNetwork

if TYPE_CHECKING:
    from fedsim.data.graph import Period


class Router:
    """Hands the row of an ended transfer to the host that received it, or writes it where no host waits for it."""

    def __init__(self, write: Callable[[Row], None]) -> None:
        """Write all rows until hosts are registered."""
        self._write = write
        self._hosts: dict[int, ServerHost] = {}

    def register(self, *hosts: ServerHost) -> None:
        """Hand these hosts what they receive."""
        self._hosts |= {host.node: host for host in hosts}

    def moved(self, row: record.TransferRow) -> None:
        """Pass a row on."""
        host = None if row.kind == STEP else self._hosts.get(row.dst)
        (self._write if host is None else host.moved)(row)


@dataclass
class World:
    """The simulation environment, the network, the hosts, and named random streams.

    `repartitions` moves nodes to new owners, where a server knows the graph of all clients.

    `edges` are the edge aggregators of a tree, in order.  `arrival` fires once per instant with the list of
    (client, period) pairs that have arrived in it.
    """

    env: simpy.Environment
    network: SimulatedNetwork
    learner: Learner
    server: ServerHost
    exchange: Exchange
    clients: Clients
    rng: Streams
    sampler: Sampler
    write: Callable[[Row], None]
    edges: Sequence[ServerHost] = ()
    ledger: Ledger | None = None
    costs: CostMeter | None = None
    repartitions: Repartitions | None = None
    arrival: simpy.Event = field(init=False)

    def __post_init__(self) -> None:
        """Start with no arrivals."""
        self._fresh: list[tuple[int, Period]] = []
        self._expect()

    def online(self) -> list[int]:
        """Return the clients online, in order."""
        return np.flatnonzero(self.network.nodes.online).tolist()

    def available(self, among: Bools | None = None) -> list[int]:
        """Return the clients (`among` those, (K,) bool) that are online, hold data and are not at work."""
        free: list[int] = self._free(among).tolist()
        return free

    def ready(self, among: Bools | None = None) -> int:
        """Return how many clients (`among` those, (K,) bool) are online, hold data and are not at work."""
        return len(self._free(among))

    def sample(self, count: int, among: Bools | None = None) -> list[int]:
        """Return at most `count` of the available clients, in order, as the scenario's sampler chooses."""
        free = self._free(among)
        chosen = self.sampler.choose(free, count, self.clients, self.rng("participation"))
        if len(chosen):
            self.clients.cohorts += 1
            if self.learner.private:
                self.learner.drawn(len(chosen), len(free))
        cohort: list[int] = chosen.tolist()
        return cohort

    def state_of(self, client: int) -> Ticket:
        """Return the state that a client predicts with: its own, or the server's if it has none."""
        return self.clients.states.get(client, self.server.state)

    def states(self) -> States:
        """Return the state shared by all clients, or one state per client if any has its own."""
        return {client: self.state_of(client) for client in self.clients} if self.clients.states else self.server.state

    def deliver(self, client: int, period: "Period") -> None:
        """Deliver a period to a client now."""
        if self.repartitions is not None:
            self.repartitions.begin(period.number)
        self.clients.arrive(client, period)
        self.write(ArrivalRow(self.env.now, client, period.number, self.server.version))
        self._fresh.append((client, period))
        if not self.arrival.triggered:
            self.arrival.succeed(self._fresh)

    def end(self) -> None:
        """End the run: cut transfers in transit, and write the rows that were kept back."""
        for host in (self.server, *self.edges):
            host.pending.closed = True
        for cohort in list(dict.fromkeys(self.clients.cohort_of.values())):
            cohort.end()
        self.network.close()
        self.clients.end()
        for host in (self.server, *self.edges):
            host.end()

    def _free(self, among: Bools | None) -> Ints:
        free = self.network.nodes.online & self.clients.has_data & ~self.clients.busy
        return np.flatnonzero(free if among is None else free & among)

    def _expect(self, _: simpy.Event | None = None) -> None:
        """Prepare the next arrival event, before processes that wait for this one continue."""
        self._fresh = []
        self.arrival = self.env.event()
        self.arrival.callbacks.append(self._expect)

"""World: everything that protocols, streams and observers work with; it does not import torch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.clients import Clients
from fedsim.clock.ledger import Ledger
from fedsim.clock.prices import Meter
from fedsim.clock.repartition import STEP, Repartitions
from fedsim.clock.sampler import Sampler
from fedsim.clock.server import ServerHost
from fedsim.core import record
from fedsim.core.record import Arrival, Row
from fedsim.core.seeds import Streams
from fedsim.learner.contract import Learner, States
from fedsim.learner.ticket import Ticket
from fedsim.net.network import Network

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Members = npt.NDArray[np.bool_]


@dataclass
class World:
    """The simulation environment, the network, the hosts, and named random streams.

    `repartitions` moves vertices to new owners, where a server knows the graph of all clients.

    `edges` are the edge aggregators of a tree, in order.  `arrival` fires once per instant with the list of
    (client, period) pairs that have arrived in it.
    """

    env: simpy.Environment
    network: Network
    learner: Learner
    server: ServerHost
    clients: Clients
    rng: Streams
    sampler: Sampler
    write: Callable[[Row], None]
    edges: Sequence[ServerHost] = ()
    ledger: Ledger | None = None
    costs: Meter | None = None
    repartitions: Repartitions | None = None
    arrival: simpy.Event = field(init=False)

    def __post_init__(self) -> None:
        """Start with no arrivals."""
        self._hosts: Mapping[int, ServerHost] = {host.node: host for host in (self.server, *self.edges)}
        self._fresh: list[tuple[int, Period]] = []
        self._expect()

    def online(self) -> list[int]:
        """Return the clients online, in order."""
        return np.flatnonzero(self.network.nodes.online).tolist()

    def available(self, among: Members | None = None) -> list[int]:
        """Return the clients (`among` those, (K,) bool) that are online, hold data and are not at work."""
        return [int(client) for client in self._free(among)]

    def ready(self, among: Members | None = None) -> int:
        """Return how many clients (`among` those, (K,) bool) are online, hold data and are not at work."""
        return len(self._free(among))

    def sample(self, count: int, among: Members | None = None) -> list[int]:
        """Return at most `count` of the available clients, in order, as the scenario's sampler chooses."""
        free = self._free(among)
        chosen = self.sampler.choose(free, count, self.clients, self.rng("participation"))
        if len(chosen):
            self.clients.cohorts += 1
            self.learner.drawn(len(chosen), len(free))
        return [int(client) for client in chosen]

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
        self.write(Arrival(self.env.now, client, period.number, self.server.version))
        self._fresh.append((client, period))
        if not self.arrival.triggered:
            self.arrival.succeed(self._fresh)

    def moved(self, row: record.Transfer) -> None:
        """Pass the row of an ended transfer to the receiving host, or write it."""
        host = None if row.kind == STEP else self._hosts.get(row.dst)
        (self.write if host is None else host.moved)(row)

    def end(self) -> None:
        """End the run: cut transfers in transit, and write the rows that were kept back."""
        for host in self._hosts.values():
            host.unread.closed = True
        for wave in list(dict.fromkeys(self.clients.joint.values())):
            wave.end()
        self.network.close()
        self.clients.end()
        for host in self._hosts.values():
            host.end()

    def _free(self, among: Members | None) -> npt.NDArray[np.int64]:
        free = self.network.nodes.online & self.clients.holding & ~self.clients.busy
        return np.flatnonzero(free if among is None else free & among)

    def _expect(self, _: simpy.Event | None = None) -> None:
        """Prepare the next arrival event, before processes that wait for this one continue."""
        self._fresh = []
        self.arrival = self.env.event()
        self.arrival.callbacks.append(self._expect)

"""The clients: which are available or busy, which have a state of their own, and how long their work takes.

A client is an index into a few arrays (busy, has data, training nodes, last request), so that a cohort can be drawn
from millions.  Work takes operations / speed, times the current slowdown, and is interrupted when the client goes to
sleep or leaves; the host's clock is never read.  A client's data and memory are kept by the learner.

Not modelled: several jobs on one client at a time, and memory limits.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import simpy

from fedsim.clock.client_statistics import ClientStatistics
from fedsim.clock.cohort.contract import Cohort
from fedsim.core.arrays import Floats, Ints
from fedsim.core.record import Cells, Row, SpanRow
from fedsim.core.seeds import Rng
from fedsim.learner.contract import Learner, Payloads
from fedsim.learner.ticket import Ticket
from fedsim.net.network import SimulatedNetwork

if TYPE_CHECKING:
    from fedsim.data.graph import Period


class Clients:
    """All clients, as arrays (K,) that samplers and servers may read.

    `busy`: at work; `has_data`: holds a period; `training_nodes`: of its latest period; `met`: periods received so
    far; `last_asked`: the number of the last request, counted over all clients from 1 (0: never asked).  `cohorts` is
    the number of cohorts that samplers have drawn, `statistics` what the server has observed.  `states` holds the
    states of clients that have one of their own, under protocols without a server (gossip, isolated).
    """

    def __init__(
        self,
        env: simpy.Environment,
        network: SimulatedNetwork,
        learner: Learner,
        speeds: Floats,
        rng: Rng,
        write: Callable[[Row], None],
        extend: Callable[[type[Row], Mapping[str, Cells]], None],
    ) -> None:
        """Create one client for each speed (operations per second), and watch their presence."""
        self.env, self.network, self.learner = env, network, learner
        self._speeds = speeds
        count = len(speeds)
        self.busy, self.has_data = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.training_nodes, self.last_asked = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.met = np.zeros(count, dtype=np.int64)
        self.states: dict[int, Ticket] = {}
        self._available: simpy.Event = env.event()
        self.rng, self._write, self._extend = rng, write, extend
        self._turn = 0
        self.cohorts = 0
        self._leave = network.makes_leave  # whether effects may have busy clients leave
        self._computing: dict[int, tuple[simpy.Process, float, str]] = {}
        self.cohort_of: dict[int, Cohort] = {}  # of each client that is asked in a cohort
        network.nodes.presence.start(env)
        network.nodes.presence.came = self.announce
        network.nodes.watch(self._changed, idle=False)

    @cached_property
    def statistics(self) -> ClientStatistics:
        """What the server has observed of clients that were asked one by one."""
        return ClientStatistics(len(self))

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, in order."""
        return iter(range(len(self)))

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self._speeds)

    def catch_up(self, clients: Sequence[int] | None = None) -> None:
        """Update the memory of these clients (default: all) with the work finished by now, in cohorts too."""
        if not self.cohort_of:
            return
        for client in [*self.cohort_of] if clients is None else clients:
            if client in self.cohort_of:
                self.cohort_of[client].catch_up(client)

    def arrive(self, client: int, period: "Period") -> None:
        """Hand a period's data to a client."""
        self.catch_up([client])
        self.learner.arrive(client, period)
        self.met[client] += 1
        if client in self.cohort_of:
            self.cohort_of[client].renew(client)
        self.training_nodes[client] = period.training_nodes
        if not self.has_data[client]:
            self.has_data[client] = True
            self.announce()

    def availability(self) -> Floats:
        """Return the share (K,) of the time so far that each client has been online; 1 at the very beginning."""
        return self.network.nodes.presence.share()

    @property
    def client_available(self) -> simpy.Event:
        """The event that fires when a client is free, comes online or holds data for the first time; once only."""
        self.network.nodes.presence.expect()
        return self._available

    def begin(self, client: int) -> None:
        """Mark a client as busy; effects may make it leave before it has finished.

        Raises ValueError if it is busy already.
        """
        if self.busy[client]:
            raise ValueError(f"client {client} is still at work for an earlier ask")
        self.busy[client] = True
        self.statistics.asked[client] += 1
        self.network.nodes.presence.attend(client)
        self._turn += 1
        self.last_asked[client] = self._turn
        if self._leave:
            self._stay(client)

    def join(self, clients: Sequence[int], cohort: Cohort) -> None:
        """Mark these clients as busy in a cohort.  Raises ValueError as `begin` does."""
        numbers = np.array(clients, dtype=np.int64)
        if self.busy[numbers].any():
            raise ValueError(f"client {numbers[self.busy[numbers]][0]} is still at work for an earlier ask")
        self.busy[numbers] = True
        presence = self.network.nodes.presence
        if presence.plans:
            presence.attend_all(numbers)
        else:
            presence.attended[numbers] += 1
        self.last_asked[numbers] = self._turn + 1 + np.arange(len(numbers))
        self._turn += len(numbers)
        if self._leave:
            for client in clients:
                self._stay(client)
        self.cohort_of.update(dict.fromkeys(clients, cohort))

    def leave(self, clients: Sequence[int]) -> None:
        """Mark these clients as free, and no longer in their cohort."""
        if not clients:
            return
        for client in clients:
            del self.cohort_of[client]
        numbers = np.array(clients, dtype=np.int64)
        self.network.nodes.presence.attended[numbers] -= 1
        self.busy[numbers] = False
        self.announce()

    def finish(self, client: int) -> None:
        """Mark a client as free."""
        self.busy[client] = False
        self.network.nodes.presence.dismiss(client)
        self.announce()

    def paces(self, clients: Ints) -> Floats:
        """Return the operations per second (K,) of each client at its current speed."""
        return self._speeds[clients] / self.network.nodes.slowdown[clients]

    def work(
        self, client: int, step: str, download: Ticket | None, payloads: Payloads, *, travels: bool = True
    ) -> Generator[simpy.Event, Any, Ticket | None]:
        """Have a client work on a download, which takes simulated time; return its upload.

        None if the client is offline, or goes to sleep or leaves before it has finished.
        """
        if not self.network.nodes.is_online(client):
            return None
        uploads, operations = payloads.work([client], step, [download], travels=travels)
        if not (yield from self.compute(client, float(operations[0]), payloads.span)):
            payloads.dropped(uploads[0])
            return None
        payloads.done([client], uploads)
        return uploads[0]

    def compute(self, client: int, operations: float, what: str) -> Generator[simpy.Event, Any, bool]:
        """Have a client compute that many operations, recorded as a span `what`; return whether it finished.

        It does not finish if it is offline, or goes to sleep or leaves before the end.
        """
        start, process = self.env.now, self.env.active_process
        if not self.network.nodes.is_online(client):
            return False
        assert process is not None
        self._computing[client] = process, start, what
        whole = yield from self._take(client, operations)
        del self._computing[client]
        self._write(SpanRow(client, start, self.env.now, what))
        return whole

    def end(self) -> None:
        """Write the spans of work that has not ended, and those offline."""
        for client, (_, since, what) in sorted(self._computing.items()):
            self._write(SpanRow(client, since, self.env.now, what))
        clients, starts, ends = self.network.nodes.presence.stretches()
        self._extend(SpanRow, {"client": clients, "start": starts, "end": ends, "what": "offline"})

    def _stay(self, client: int) -> None:
        """Have a client leave before it has finished, if an effect says so."""
        turn = self.last_asked[client]
        stays = self.network.stay(self.rng(f"stay {client}"))
        if np.isfinite(stays):

            def leave(_: simpy.Event) -> None:
                if client in self.cohort_of and self.cohort_of[client].ended(client):
                    return
                if self.busy[client] and self.last_asked[client] == turn:
                    self._write(SpanRow(client, self.env.now, self.env.now, "left"))
                    self.network.nodes.leave(client)

            self.env.timeout(stays).callbacks.append(leave)

    def _take(self, client: int, operations: float) -> Generator[simpy.Event, Any, bool]:
        """Spend the time that these operations take; return whether they were not interrupted."""
        while True:
            pace = float(self._speeds[client]) / float(self.network.nodes.slowdown[client])
            begun = self.env.now
            try:
                yield self.env.timeout(operations / pace)
            except simpy.Interrupt as stop:
                if stop.cause != "pace":
                    return False
                operations = max(0.0, operations - (self.env.now - begun) * pace)
            else:
                return True

    def _changed(self, client: int, what: str) -> None:
        """Interrupt a client's work when it goes to sleep or leaves; reschedule it when its pace changes."""
        if client in self.cohort_of and what in ("sleep", "leave"):
            self.cohort_of[client].cut(client)
        if client in self._computing and what != "wake":
            self._computing[client][0].interrupt(what)

    def announce(self) -> None:
        """Wake the processes that wait for a client to be free, to be online or to hold data."""
        if self._available.callbacks:
            available, self._available = self._available, self.env.event()
            available.succeed()

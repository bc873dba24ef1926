"""The clients: which are available or busy, which have a state of their own, and how long their work takes.

A client is an index into a few arrays (busy, holding data, training vertices, last ask), so that a cohort can be drawn
from millions.  Work takes operations / speed, times the current slowdown, and is interrupted when the client goes to
sleep or leaves; the host's clock is never read.  A client's data and memory are kept by the learner.

Not modelled: several jobs on one client at a time, and memory limits.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.masks import Masks, span_of
from fedsim.clock.reports import Reports
from fedsim.core.record import Column, Row, Span
from fedsim.learner.batch import Tickets
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import Ticket
from fedsim.net.network import Network

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Floats = npt.NDArray[np.float64]


class Joint(Protocol):
    """The asks of a whole cohort (`wave.py`), as its clients see them."""

    def cut(self, client: int) -> None:
        """Note that a client went to sleep, or leaves."""
        ...

    def ended(self, client: int) -> bool:
        """Return whether a client has finished its ask."""
        ...

    def catch_up(self, client: int) -> None:
        """Update the client's memory with the work that it has finished by now."""
        ...

    def renew(self, client: int) -> None:
        """Note that a client has just received data."""
        ...

    def end(self) -> None:
        """Close the books."""
        ...


class Clients:
    """All clients, as arrays (K,) that samplers and servers may read.

    `busy`: at work; `holding`: has data; `training_vertices`: of its latest period; `met`: periods received so far;
    `turns`: the number of the last ask, counted over all clients from 1 (0: never asked).  `cohorts` is the number of
    cohorts that samplers have drawn, `reports` what the server has observed.  `states` holds the states of clients that
    have one of their own, under protocols without a server (gossip, isolated).
    """

    def __init__(
        self,
        env: simpy.Environment,
        network: Network,
        learner: Learner,
        speeds: Floats,
        rng: Callable[[str], np.random.Generator],
        write: Callable[[Row], None],
        extend: Callable[[type[Row], Mapping[str, Column]], None],
        masks: Masks | None = None,
    ) -> None:
        """Create one client for each speed (operations per second), and watch their presence."""
        self.env, self.network, self.learner, self.masks = env, network, learner, masks
        self._speeds = speeds
        count = len(speeds)
        self.busy, self.holding = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.training_vertices, self.turns = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.met, self.reports = np.zeros(count, dtype=np.int64), Reports(count)
        self.states: dict[int, Ticket] = {}
        self._stirred: simpy.Event = env.event()
        self.rng, self._write, self._extend = rng, write, extend
        self._turn = 0
        self.cohorts = 0
        self._computing: dict[int, tuple[simpy.Process, float, str]] = {}
        self.joint: dict[int, Joint] = {}  # the wave of each client that belongs to one
        network.nodes.presence.start(env)
        network.nodes.presence.came = self.stir
        network.nodes.watch(self._changed, idle=False)

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, in order."""
        return iter(range(len(self)))

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self._speeds)

    def catch_up(self, clients: Sequence[int] | None = None) -> None:
        """Update the memory of these clients (default: all) with the work finished by now, in waves too."""
        if not self.joint:
            return
        for client in [*self.joint] if clients is None else clients:
            if client in self.joint:
                self.joint[client].catch_up(client)

    def arrive(self, client: int, period: "Period") -> None:
        """Hand a period's data to a client."""
        self.catch_up([client])
        self.learner.arrive(client, period)
        self.met[client] += 1
        if client in self.joint:
            self.joint[client].renew(client)
        self.training_vertices[client] = period.training_vertices
        if not self.holding[client]:
            self.holding[client] = True
            self.stir()

    def availability(self) -> Floats:
        """Return the share (K,) of the time so far that each client has been online; 1 at the very beginning."""
        return self.network.nodes.presence.share()

    @property
    def stirred(self) -> simpy.Event:
        """The event that fires when a client is free, comes online or holds data for the first time; once only."""
        self.network.nodes.presence.expect()
        return self._stirred

    def begin(self, client: int) -> None:
        """Mark a client as busy; effects may make it leave before it has finished.

        Raises ValueError if it is busy already.
        """
        if self.busy[client]:
            raise ValueError(f"client {client} is still at work for an earlier ask")
        self.busy[client] = True
        self.reports.asked[client] += 1
        self.network.nodes.presence.attend(client)
        self._turn += 1
        self.turns[client] = self._turn
        if self.network.makes_leave:
            self._stay(client)

    def join(self, clients: Sequence[int], wave: Joint) -> None:
        """Mark these clients as busy in a wave.  Raises ValueError as `begin` does."""
        numbers = np.array(clients, dtype=np.int64)
        if self.busy[numbers].any():
            raise ValueError(f"client {numbers[self.busy[numbers]][0]} is still at work for an earlier ask")
        self.busy[numbers] = True
        self.reports.asked[numbers] += 1
        self.network.nodes.presence.attend_all(numbers)
        self.turns[numbers] = self._turn + 1 + np.arange(len(numbers))
        self._turn += len(numbers)
        if self.network.makes_leave:
            for client in clients:
                self._stay(client)
        self.joint.update(dict.fromkeys(clients, wave))

    def part(self, clients: Sequence[int]) -> None:
        """Mark these clients of a wave as free."""
        if not clients:
            return
        for client in clients:
            del self.joint[client]
        numbers = np.array(clients, dtype=np.int64)
        self.network.nodes.presence.dismiss_all(numbers)
        self.busy[numbers] = False
        self.stir()

    def leave_wave(self, client: int) -> None:
        """Mark one client of a wave as free."""
        del self.joint[client]
        self.finish(client)

    def finish(self, client: int) -> None:
        """Mark a client as free."""
        self.busy[client] = False
        self.network.nodes.presence.dismiss(client)
        self.stir()

    def start(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> tuple[Sequence[Ticket | None], Floats]:
        """Begin each client's work on its download; return the uploads, and the operations (K,) that they take.

        An exchange of secure aggregation has no upload and takes no operations.
        """
        if self.masks is not None and self.masks.owns(step):
            return [None] * len(clients), np.zeros(len(clients))
        self.catch_up(clients)
        return self.learner.work(clients, step, downloads, travels=travels)

    def done(self, client: int, upload: Ticket | None) -> None:
        """Note that a client has finished a job; exchanges of secure aggregation leave its memory unchanged."""
        if upload is not None:
            self.learner.done(client, upload)

    def all_done(self, clients: Sequence[int], uploads: Sequence[Ticket | None], places: Sequence[int]) -> None:
        """Note the same of several clients, whose uploads are at these places."""
        if isinstance(uploads, Tickets):
            self.learner.all_done(clients, uploads, places)
        else:
            for client, place in zip(clients, places, strict=True):
                self.done(client, uploads[place])

    def seconds(self, clients: npt.NDArray[np.int64], operations: Floats) -> Floats:
        """Return the seconds (K,) that each client needs for its operations at its current speed."""
        return operations / self.paces(clients)

    def paces(self, clients: npt.NDArray[np.int64]) -> Floats:
        """Return the operations per second (K,) of each client at its current speed."""
        return self._speeds[clients] / self.network.nodes.slowdown[clients]

    def work(
        self, client: int, step: str, download: Ticket | None, *, travels: bool = True
    ) -> Generator[simpy.Event, Any, list[Ticket | None]]:
        """Have a client work on a download, which takes simulated time; return its upload in a list of one.

        The list is empty if the client is offline, or goes to sleep or leaves before it has finished.
        """
        if not self.network.nodes.is_online(client):
            return []
        (upload,), operations = self.start([client], step, [download], travels=travels)
        if not (yield from self.compute(client, float(operations[0]), span_of(step))):
            if upload is not None:
                self.learner.dropped(upload)
            return []
        self.done(client, upload)
        return [upload]

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
        self._write(Span(client, start, self.env.now, what))
        return whole

    def end(self) -> None:
        """Close the books: write the spans that are still open."""
        for client, (_, since, what) in sorted(self._computing.items()):
            self._write(Span(client, since, self.env.now, what))
        clients, starts, ends = self.network.nodes.presence.stretches()
        self._extend(Span, {"client": clients, "start": starts, "end": ends, "what": "offline"})

    def _stay(self, client: int) -> None:
        """Have a client leave before it has finished, if an effect says so."""
        turn = self.turns[client]
        stays = self.network.stay(self.rng(f"stay {client}"))
        if np.isfinite(stays):

            def leave(_: simpy.Event) -> None:
                if client in self.joint and self.joint[client].ended(client):
                    return
                if self.busy[client] and self.turns[client] == turn:
                    self._write(Span(client, self.env.now, self.env.now, "left"))
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
        if client in self.joint and what in ("sleep", "leave"):
            self.joint[client].cut(client)
        if client in self._computing and what != "wake":
            self._computing[client][0].interrupt(what)

    def stir(self) -> None:
        """Wake the processes that wait for a client to be free, to be online or to hold data."""
        if self._stirred.callbacks:
            stirred, self._stirred = self._stirred, self.env.event()
            stirred.succeed()

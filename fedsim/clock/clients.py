"""The clients: who is there and at work, whose state is its own, and how work takes time.

A client is a place in a few rows (who is busy, who holds data, how many examples, when last asked), so that a cohort
can be drawn from very many.  Work takes operations over speed, times the slowdown of the moment, and ends when the
client goes to sleep or leaves; nothing is read from the host's clock.  What a client holds and remembers is with the
learner.

What it does not model: several jobs on one client at a time, and memory limits.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.masks import Masks, span_of
from fedsim.core.record import Column, Row, Span
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import Ticket
from fedsim.net.network import Network

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Begun = tuple[Ticket | None, float]  # an upload to come, and the operations that the work takes


class Joint(Protocol):
    """The asks of a whole cohort (`wave.py`), as far as its clients must report to it."""

    def cut(self, client: int) -> None:
        """Note that a client went to sleep, or leaves."""
        ...

    def ended(self, client: int) -> bool:
        """Return whether a client is through with its ask."""
        ...

    def catch_up(self, client: int) -> None:
        """Have the client remember what it has done by now."""
        ...

    def renew(self, client: int) -> None:
        """Note that a client has just been given data."""
        ...

    def end(self) -> None:
        """Close the books."""
        ...


class Clients:
    """All clients, as rows (K,) that a sampler or a server may look at.

    `busy`: at work; `holding`: has data; `examples`: labelled vertices to train on; `met`: periods that have reached
    it; `turns`: the number of the last ask, counted over all clients from 1 (0: never asked).  `states` are the own
    states of clients that have one, where there is no server (gossip, isolated).
    """

    def __init__(
        self,
        env: simpy.Environment,
        network: Network,
        learner: Learner,
        speeds: npt.NDArray[np.float64],
        rng: Callable[[str], np.random.Generator],
        write: Callable[[Row], None],
        extend: Callable[[type[Row], Mapping[str, Column]], None],
        masks: Masks | None = None,
    ) -> None:
        """Stand for one client a speed (operations a second); watch who comes and goes."""
        self.env, self.network, self.learner, self.masks = env, network, learner, masks
        self._speeds = speeds
        count = len(speeds)
        self.busy, self.holding = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.examples, self.turns = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self.met = np.zeros(count, dtype=np.int64)
        self.states: dict[int, Ticket] = {}
        self._stirred: simpy.Event = env.event()
        self.rng, self._write, self._extend = rng, write, extend
        self._turn = 0
        self._computing: dict[int, tuple[simpy.Process, float, str]] = {}
        self.joint: dict[int, Joint] = {}  # the wave of each client that is asked in one
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
        """Have these clients, or all, remember what they have done by now, those of waves too."""
        for client in [*self.joint] if clients is None else clients:
            if client in self.joint:
                self.joint[client].catch_up(client)

    def arrive(self, client: int, period: "Period") -> None:
        """Let a period reach a client."""
        self.catch_up([client])
        self.learner.arrive(client, period)
        self.met[client] += 1
        if client in self.joint:
            self.joint[client].renew(client)
        self.examples[client] = period.examples
        if not self.holding[client]:
            self.holding[client] = True
            self.stir()

    def availability(self) -> npt.NDArray[np.float64]:
        """Return the share (K,) of the time so far that each client has been online; 1 at the very beginning."""
        return self.network.nodes.presence.share()

    @property
    def stirred(self) -> simpy.Event:
        """The event that fires when a client is free, comes online or holds data for the first time; once only."""
        self.network.nodes.presence.expect()
        return self._stirred

    def begin(self, client: int) -> None:
        """Note that a client is at work from now on; effects may make it leave in the middle of it.

        Raises ValueError if it is at work already.
        """
        if self.busy[client]:
            raise ValueError(f"client {client} is still at work for an earlier ask")
        self.busy[client] = True
        self.network.nodes.presence.attend(client)
        self._turn += 1
        self.turns[client] = turn = self._turn
        if not self.network.makes_leave:
            return
        stays = self.network.stay(self.rng(f"stay {client}"))
        if np.isfinite(stays):

            def leave(_: simpy.Event) -> None:
                if client in self.joint and self.joint[client].ended(client):
                    return
                if self.busy[client] and self.turns[client] == turn:
                    self._write(Span(client, self.env.now, self.env.now, "left"))
                    self.network.nodes.leave(client)

            self.env.timeout(stays).callbacks.append(leave)

    def join(self, clients: Sequence[int], wave: Joint) -> None:
        """Note that these clients are at work for a wave from now on.  Raises ValueError as `begin` does."""
        for client in clients:
            self.begin(client)
            self.joint[client] = wave

    def part(self, clients: Sequence[int]) -> None:
        """Note that these clients of a wave are free again."""
        for client in clients:
            del self.joint[client]
            self.network.nodes.presence.dismiss(client)
        self.busy[list(clients)] = False
        if clients:
            self.stir()

    def finish(self, client: int) -> None:
        """Note that a client is free again."""
        self.busy[client] = False
        self.network.nodes.presence.dismiss(client)
        self.stir()

    def start(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> list[Begun]:
        """Begin the work of each client on its download; return what comes of it, and its operations.

        An exchange of masking's own takes none and brings nothing.
        """
        if self.masks is not None and self.masks.owns(step):
            return [(None, 0.0)] * len(clients)
        self.catch_up(clients)
        uploads, operations = self.learner.work(clients, step, downloads, travels=travels)
        return [*zip(uploads, operations.tolist(), strict=True)]

    def done(self, client: int, upload: Ticket | None) -> None:
        """Note that a client has come to the end of a job; masking's own leave its memory as it was."""
        if upload is not None:
            self.learner.done(client, upload)

    def seconds(self, clients: npt.NDArray[np.int64], operations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the seconds (K,) that so many operations each take these clients at their present pace."""
        return operations / (self._speeds[clients] / self.network.nodes.slowdown[clients])

    def work(
        self, client: int, step: str, download: Ticket | None, *, travels: bool = True
    ) -> Generator[simpy.Event, Any, list[Ticket | None]]:
        """Let a client work on a download, which takes its time; return its upload, alone in a list.

        The list is empty where it is offline, or goes to sleep or leaves before it is through.
        """
        if not self.network.nodes.is_online(client):
            return []
        ((upload, operations),) = self.start([client], step, [download], travels=travels)
        if not (yield from self.compute(client, operations, span_of(step))):
            if upload is not None:
                self.learner.dropped(upload)
            return []
        self.done(client, upload)
        return [upload]

    def compute(self, client: int, operations: float, what: str) -> Generator[simpy.Event, Any, bool]:
        """Keep a client busy with so many operations, a span of that name; return whether it got through.

        Not where it is offline, or goes to sleep or leaves before.
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

    def _take(self, client: int, operations: float) -> Generator[simpy.Event, Any, bool]:
        """Spend the time that so many operations take; return whether nothing broke them off."""
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
        """Break off a client's work, or set it anew, when it goes to sleep, wakes, leaves or changes its pace."""
        if client in self.joint and what in ("sleep", "leave"):
            self.joint[client].cut(client)
        if client in self._computing and what != "wake":
            self._computing[client][0].interrupt(what)

    def stir(self) -> None:
        """Wake whoever waits for a client to be free, to be online or to hold data."""
        if self._stirred.callbacks:
            stirred, self._stirred = self._stirred, self.env.event()
            stirred.succeed()

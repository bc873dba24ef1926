"""The clients: what each holds and remembers, and how its work takes time.

A client is a small host and a place in a few rows (who is busy, who holds data, how many examples, when last asked),
so that a cohort can be drawn from very many.  Work takes operations over speed, times the slowdown of the moment, and
ends when the client goes to sleep or leaves; nothing is read from the host's clock.

What it does not model: several jobs on one client at a time, and memory limits.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.algorithm import Job, State
from fedsim.net.masking import STEPS
from fedsim.net.network import Network
from fedsim.net.promised import WorkPromise
from fedsim.net.wire import Tree
from fedsim.record import Column, Row, Span

if TYPE_CHECKING:
    from fedsim.data.graph import Graph, Period


class Backend(Protocol):
    """Who does the work: learn/cohort.py, or one that trains nothing."""

    def submit(self, job: Job) -> WorkPromise:
        """Queue a job."""
        ...

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        ...


class Joint(Protocol):
    """The asks of a whole cohort (`wave.py`), as far as its clients must tell it what happens to them."""

    def cut(self, client: int) -> None:
        """Hear that a client went to sleep, or leaves."""
        ...

    def ended(self, client: int) -> bool:
        """Return whether a client is through with its ask."""
        ...

    def catch_up(self, client: int) -> None:
        """Have the client remember what it has done by now."""
        ...

    def renew(self, client: int) -> None:
        """Hear that a client has just been given data."""
        ...

    def end(self) -> None:
        """Close the books."""
        ...


def span_of(step: str) -> str:
    """Return what the span of a client's work in this step is called."""
    return "mask" if step in STEPS else "train"


class ClientHost:
    """One client: what it holds, what it remembers, how fast it is (floating-point operations a second).

    `state` is its own where there is no server (gossip, isolated); `notes` are what a codec keeps for it (error
    feedback).
    """

    __slots__ = ("_jobs", "_last", "_memory", "_seed_of", "data", "notes", "number", "period", "seen", "speed", "state")

    def __init__(self, number: int, speed: float, seed_of: Callable[[int, int], int]) -> None:
        """Start with no data; `seed_of(client, job number)` gives each job its seed."""
        self.number, self.speed = number, speed
        self.data: Graph | None = None
        self.period = -1
        self.seen: list[Period] = []
        self.state: State | None = None
        self.notes: dict[str, Any] = {}
        self._jobs = 0
        self._seed_of = seed_of
        self._memory: dict[str, Any] = {}
        self._last: WorkPromise | None = None

    def arrive(self, period: "Period") -> None:
        """Hold this period's graph from now on; a job that has begun does not see it."""
        self.data, self.period = period.graph, period.number
        self.seen.append(period)

    @property
    def memory(self) -> dict[str, Any]:
        """The notebook as the last finished job left it (which settles that job)."""
        if self._last is not None:
            self._memory, self._last = self._last.memory(), None
        return self._memory

    def job(self, step: str, download: Tree) -> Job:
        """Return the work for this download with what the client holds at this moment."""
        self._jobs += step not in STEPS  # so that training draws the same, masked or not
        seed = self._seed_of(self.number, self._jobs)
        return Job(self.number, step, self.period, download, self.data, dict(self.memory), seed)  # type: ignore[arg-type]

    def again(self, job: Job) -> Job:
        """Return a job that has not begun with what the client holds at this moment."""
        return replace(job, period=self.period, data=self.data, memory=dict(self.memory))  # type: ignore[arg-type]

    def forget(self, step: str) -> None:
        """Hear that the last job, of this step, will never begin."""
        self._jobs -= step not in STEPS

    def finished(self, promise: WorkPromise) -> None:
        """Take over the memory of a job that trained to its end."""
        self._last = promise

    def notebook(self) -> tuple[dict[str, Any], bool]:
        """Return the memory as it was last read, and whether no job has finished since."""
        return self._memory, self._last is None

    def reopen(self, memory: dict[str, Any], settled: bool) -> None:
        """Take over both from a checkpoint; where a job has finished since, it is the one that this host knows of."""
        self._memory, self._last = memory, None if settled else self._last


class Clients(Mapping[int, ClientHost]):
    """All clients by number, and as rows (K,) what a sampler or a server may look at.

    `busy`: at work; `holding`: has data; `examples`: labelled vertices to train on; `turns`: the number of the last
    ask, counted over all clients from 1 (0: never asked).
    """

    def __init__(
        self,
        env: simpy.Environment,
        network: Network,
        backend: Backend,
        speeds: npt.NDArray[np.float64],
        seed_of: Callable[[int, int], int],
        rng: Callable[[str], np.random.Generator],
        write: Callable[[Row], None],
        extend: Callable[[type[Row], Mapping[str, Column]], None],
    ) -> None:
        """Stand for one client a speed (operations a second); watch who comes and goes."""
        self.env, self.network, self.backend = env, network, backend
        self._speeds, self._seed_of = speeds, seed_of
        self._hosts: dict[int, ClientHost] = {}  # of those that anybody has asked for
        count = len(speeds)
        self.busy, self.holding = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.examples, self.turns = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
        self._stirred: simpy.Event = env.event()
        self.rng, self._write, self._extend = rng, write, extend
        self._turn = 0
        self._computing: dict[int, tuple[simpy.Process, float, str]] = {}
        self.joint: dict[int, Joint] = {}  # the wave of each client that is asked in one
        network.nodes.presence.start(env)
        network.nodes.presence.came = self.stir
        network.nodes.watch(self._changed, idle=False)

    def known(self) -> list[ClientHost]:
        """Return the hosts of those that anybody has asked for, as they stand."""
        return [*self._hosts.values()]

    def __getitem__(self, client: int) -> ClientHost:
        """Return the host of that number, which remembers what it has done by now."""
        host = self.host(client)
        if client in self.joint:
            self.joint[client].catch_up(client)
        return host

    def host(self, client: int) -> ClientHost:
        """Return the host of that number as it stands.  Raises KeyError where there is none."""
        if client not in self._hosts:
            if not 0 <= client < len(self):
                raise KeyError(client)
            self._hosts[client] = ClientHost(int(client), float(self._speeds[client]), self._seed_of)
        return self._hosts[client]

    def __iter__(self) -> Iterator[int]:
        """Yield the numbers, in order."""
        return iter(range(len(self)))

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self._speeds)

    def arrive(self, client: int, period: "Period") -> None:
        """Let a period reach a client."""
        self[client].arrive(period)
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

    def start(self, client: int, step: str, download: Tree) -> tuple[Job, WorkPromise, float]:
        """Return the job of a download, the promise of what comes of it, and its operations."""
        job = self[client].job(step, download)
        promise = self.backend.submit(job)
        return job, promise, self.backend.flops(job)

    def restart(self, job: Job) -> tuple[Job, WorkPromise, float]:
        """Return the same of a job that has not begun, with what its client holds at this moment."""
        job = self[job.client].again(job)
        promise = self.backend.submit(job)
        return job, promise, self.backend.flops(job)

    def unstarted(self, job: Job) -> None:
        """Hear that the last job of a client will never begin."""
        self[job.client].forget(job.step)

    def done(self, client: int, step: str, promise: WorkPromise) -> None:
        """Hear that a client has come to the end of a job; masking's own leave its memory as it was."""
        if step not in STEPS:
            self._hosts[client].finished(promise)

    def seconds(self, clients: npt.NDArray[np.int64], operations: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the seconds (K,) that so many operations each take these clients at their present pace."""
        return operations / (self._speeds[clients] / self.network.nodes.slowdown[clients])

    def work(self, client: int, step: str, download: Tree) -> Generator[simpy.Event, Any, WorkPromise | None]:
        """Let a client work on a download, which takes its time; return the promise of what comes of it.

        None where it is offline, or goes to sleep or leaves before it is through.
        """
        if not self.network.nodes.is_online(client):
            return None
        _, promise, operations = self.start(client, step, download)
        if not (yield from self.compute(client, operations, span_of(step))):
            promise.cancel()
            return None
        self.done(client, step, promise)
        return promise

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
        """Hear that a client went to sleep, woke, left or changed its pace, and break off its work or set it anew."""
        if client in self.joint and what in ("sleep", "leave"):
            self.joint[client].cut(client)
        if client in self._computing and what != "wake":
            self._computing[client][0].interrupt(what)

    def stir(self) -> None:
        """Wake whoever waits for a client to be free, to be online or to hold data."""
        if self._stirred.callbacks:
            stirred, self._stirred = self._stirred, self.env.event()
            stirred.succeed()

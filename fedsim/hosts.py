"""The server and its clients: an ask goes down, work is done, a reply comes up.

`ServerHost.ask` starts a short-lived process for one exchange with one client; an idle client is a row in the
network's nodes and a small host, no process.  Training takes operations over device speed, an update takes the
algorithm's operations over the server's speed and queues for its cores; nothing is read from the host's clock.

What it does not model: a server that learns of a lost client only by a timeout (it knows at once), training that
slows down under other load on the device, and memory limits.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import simpy

from fedsim import record
from fedsim.algorithm import Algorithm, Job, Reply, State
from fedsim.net.message import Message
from fedsim.net.network import Network
from fedsim.net.transfer import Lost
from fedsim.net.wire import Tree
from fedsim.record import SERVER, Row, Span, Update

if TYPE_CHECKING:
    from fedsim.data.graph import Graph, Period


class WorkPromise(Protocol):
    """An upload that may not exist yet, and what comes with it."""

    @property
    def nbytes(self) -> int:
        """The upload's encoded size."""
        ...

    def value(self) -> Tree:
        """Return the upload."""
        ...

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        ...

    def cancel(self) -> None:
        """Forget the job."""
        ...


class Backend(Protocol):
    """Who does the work: learn/cohort.py, or a fake without torch."""

    def submit(self, job: Job) -> WorkPromise:
        """Queue a job."""
        ...

    def flops(self, job: Job) -> float:
        """Return the operations that the job takes."""
        ...


class ClientHost:
    """One client: what it holds, what it remembers, how fast it is (floating-point operations a second)."""

    def __init__(self, number: int, speed: float, seed_of: Callable[[int, int], int]) -> None:
        """Start with no data; `seed_of(client, job number)` gives each job its seed."""
        self.number, self.speed = number, speed
        self.data: Graph | None = None
        self.period = -1
        self.seen: list[Period] = []
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
        assert self.data is not None
        self._jobs += 1
        seed = self._seed_of(self.number, self._jobs)
        return Job(self.number, step, self.period, download, self.data, dict(self.memory), seed)

    def finished(self, promise: WorkPromise) -> None:
        """Take over the memory of a job that trained to its end."""
        self._last = promise


class Ask(simpy.Event):
    """The server's request to one client; always ends, with a Reply, or with None if the client was lost."""

    def __init__(self, env: simpy.Environment, client: int, step: str) -> None:
        """Begin open: a reply counts until the ask is closed."""
        super().__init__(env)
        self.client, self.step = client, step
        self.open = True


@dataclass
class ServerHost:
    """The server: its state and version, the asks under way, and the rows of what they moved."""

    env: simpy.Environment
    network: Network
    algorithm: Algorithm
    backend: Backend
    clients: Mapping[int, ClientHost]
    rng: Callable[[str], np.random.Generator]
    write: Callable[[Row], None]
    speed: float
    cores: int = 1
    state: State = field(init=False)
    version: int = field(default=0, init=False)
    rounds: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Start the algorithm and listen for clients that leave."""
        self.state = self.algorithm.start()
        self.updated: simpy.Event = self.env.event()
        self.stirred: simpy.Event = self.env.event()
        self.busy: dict[int, Ask] = {}
        self._queue = simpy.Resource(self.env, self.cores)
        self._training: dict[int, tuple[simpy.Process, float]] = {}
        self._arrived: dict[int, record.Transfer] = {}
        self._offline: dict[int, float] = {}
        self._lost = self._late = 0
        self._closed = False
        self.network.nodes.watch(self._changed)
        for client in np.flatnonzero(~np.asarray(self.network.nodes.online)):
            self._offline[int(client)] = self.env.now

    def ask(self, client: int, step: str = "train") -> Ask:
        """Send this client a download and await its upload.  Raises ValueError for a client that is at work already."""
        if client in self.busy:
            raise ValueError(f"client {client} is still at work for an earlier ask")
        ask = Ask(self.env, client, step)
        self._give_up(client)  # an earlier reply that nobody folded is late by now
        self.busy[client] = ask
        self.env.process(self._exchange(ask))
        return ask

    def close(self, ask: Ask) -> None:
        """Wait for this ask no longer: what it still brings, or has brought unread, is late."""
        lost = ask.triggered and ask.value is None  # counted as such when it was
        if ask.open and not lost:
            ask.open = False
            self._late += 1
            if ask.triggered:
                self._give_up(ask.client)

    def update(self, replies: Sequence[Reply], step: str = "train") -> Generator[simpy.Event, Any, None]:
        """Fold replies into the state, which takes the server's time; without any, only note that none came."""
        # in order of the client: what a set of replies amounts to must not depend on which came first
        opened = [replace(reply, upload=_opened(reply.upload)) for reply in sorted(replies, key=lambda r: r.client)]
        if opened:
            with self._queue.request() as core:
                yield core
                yield self.env.timeout(self.algorithm.server_flops(self.state, opened, step) / self.speed)
            self.state = self.algorithm.update(self.state, opened, step)
            self.version += 1
        for reply in opened:
            if (row := self._arrived.pop(reply.client, None)) is not None:
                self.write(row)
        asked = len(opened) + self._lost + self._late
        self.write(Update(self.env.now, self.version, step, asked, len(opened), self._lost, self._late))
        self._lost = self._late = 0
        if opened:
            updated, self.updated = self.updated, self.env.event()
            updated.succeed(self.version)
        yield self.env.timeout(0)  # the observers and streams that wait for the update go first

    def moved(self, row: record.Transfer) -> None:
        """Take the network's row of an ended transfer; an upload's is kept until its reply counts or does not."""
        if row.dst == SERVER and row.fate == "delivered" and not self._closed:
            self._arrived[row.src] = row
        else:
            self.write(row)

    def end(self) -> None:
        """Close the books: cut what still moves, and write the rows that were kept back and the spans still open."""
        self._closed = True
        self.network.close()
        for client, (_, since) in sorted(self._training.items()):
            self.write(Span(client, since, self.env.now, "train"))
        for client in sorted(self._arrived):
            self._give_up(client)
        for client, since in sorted(self._offline.items()):
            self.write(Span(client, since, self.env.now, "offline"))

    def _exchange(self, ask: Ask) -> Generator[simpy.Event, Any, None]:
        reply = None
        self._may_leave(ask)
        with suppress(Lost):
            reply = yield from (self._talk(ask) if self.algorithm.talks else self._alone(ask))
        del self.busy[ask.client]
        if reply is None and ask.open:
            self._lost += 1
        ask.succeed(reply)
        if not ask.open:
            self._give_up(ask.client)
        self._stir()

    def _talk(self, ask: Ask) -> Generator[simpy.Event, Any, Reply | None]:
        client, version = ask.client, self.version
        download = self.algorithm.download(self.state, client, ask.step)
        yield self.network.send(Message(SERVER, client, ask.step, download, version))
        promise = yield from self._train(ask, download)
        if promise is None:
            return None
        yield self.network.send(Message(client, SERVER, ask.step, promise, version))
        return Reply(client, version, download, promise)

    def _alone(self, ask: Ask) -> Generator[simpy.Event, Any, Reply | None]:
        """Work that needs no network: nothing is sent either way."""
        version = self.version
        promise = yield from self._train(ask, None)
        return None if promise is None else Reply(ask.client, version, None, promise)

    def _train(self, ask: Ask, download: Tree) -> Generator[simpy.Event, Any, WorkPromise | None]:
        host, start = self.clients[ask.client], self.env.now
        if not self.network.nodes.online[ask.client]:
            return None
        job = host.job(ask.step, download)
        promise = self.backend.submit(job)
        process = self.env.active_process
        assert process is not None
        self._training[ask.client] = process, start
        whole = True
        try:
            yield self.env.timeout(self.backend.flops(job) / host.speed)
        except simpy.Interrupt:
            promise.cancel()
            whole = False
        del self._training[ask.client]
        self.write(Span(ask.client, start, self.env.now, "train"))
        if not whole:
            return None
        host.finished(promise)
        return promise

    def _may_leave(self, ask: Ask) -> None:
        """Let effects say after how much work the client leaves in the middle of it."""
        stays = self.network.stay(self.rng(f"stay {ask.client}"))
        if np.isfinite(stays):

            def leave(_: simpy.Event) -> None:
                if self.busy.get(ask.client) is ask:
                    self.write(Span(ask.client, self.env.now, self.env.now, "left"))
                    self.network.nodes.leave(ask.client)

            self.env.timeout(stays).callbacks.append(leave)

    def _changed(self, client: int, what: str) -> None:
        """Hear that a client went to sleep, woke, or left: the network cuts its transfers, training ends here."""
        if what == "wake":
            if client in self._offline:
                self.write(Span(client, self._offline.pop(client), self.env.now, "offline"))
            self._stir()
            return
        if what == "sleep":
            self._offline[client] = self.env.now
        if client in self._training:
            self._training[client][0].interrupt(what)

    def _give_up(self, client: int) -> None:
        if (row := self._arrived.pop(client, None)) is not None:
            self.write(replace(row, fate="late"))

    def _stir(self) -> None:
        """Wake whoever waits for a client to be free or online."""
        stirred, self.stirred = self.stirred, self.env.event()
        stirred.succeed()


def _opened(upload: Any) -> Tree:
    return upload.value() if hasattr(upload, "value") else upload

"""A world without torch: an algorithm of one number, a backend of a few lines, a network without sharing."""

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import simpy
from contexts import within

from fedsim.clock.clients import Clients
from fedsim.clock.exchange import Exchange
from fedsim.clock.restarts import RestartingServer
from fedsim.clock.samplers.uniform import Uniform
from fedsim.clock.security.exchange import SecureExchange
from fedsim.clock.server import ServerHost
from fedsim.clock.world import Router, World
from fedsim.core import seeds, wire
from fedsim.core.record import SERVER, Row, SpanRow, TransferRow, UpdateRow
from fedsim.core.seeds import Streams
from fedsim.core.wire import Spec
from fedsim.learn.algorithm import Algorithm
from fedsim.learner.live import Live
from fedsim.net import masking
from fedsim.net.attackers import Attackers
from fedsim.net.message import Message
from fedsim.net.model import NetworkModel
from fedsim.net.network import SimulatedNetwork
from fedsim.net.node import Nodes
from fedsim.net.topology import edge_node

SPEED = 1e6  # operations a second of every client that is not told otherwise
SERVER_SPEED = 1e9


@dataclass(frozen=True)
class Period:
    """What a client holds; nobody looks inside."""

    number: int = 0
    graph: Any = "data"
    training_nodes: int = 1


@dataclass(frozen=True, eq=False)
class Number(Algorithm):
    """The state is one number, to which each update adds the replies' mean weight; ballast makes messages long."""

    down: int = 1000  # bytes of ballast
    up: int = 1000
    server_work: float = 0.0  # operations of an update
    exchanges: tuple[str, ...] = ("train",)

    def start(self):
        return {"model": 0.0, "clients": ()}

    def download(self, state, client, step):
        return {"model": state["model"], "ballast": Spec((self.down,), "uint8")}

    def work(self, job):
        job.memory["jobs"] = job.memory.get("jobs", 0) + 1
        return {"jobs": job.memory["jobs"], "ballast": Spec((self.up,), "uint8")}

    def update(self, state, replies, step):
        assert replies
        model = state["model"] + sum(reply.weight for reply in replies) / len(replies)
        return {"model": model, "clients": (*state["clients"], tuple(reply.client for reply in replies))}

    def steps(self, state):
        return self.exchanges

    def server_flops(self, state, replies, step):
        return self.server_work


@dataclass(frozen=True, eq=False)
class Silent(Number):
    """The same, but nothing travels."""

    talks = False


@dataclass
class FakePromise:
    """Does the work when somebody asks for it."""

    backend: "FakeBackend"
    job: Any
    cancelled: bool = False
    filled: Any = None
    like: Any = None
    declared: Any = None

    @property
    def nbytes(self):
        return wire.size(self.value())

    def value(self):
        if self.filled is None:
            time.sleep(self.backend.nap)
            self.filled = self.backend.algorithm.work(self.job)
        return self.filled

    def memory(self):
        assert not self.cancelled
        self.value()
        return self.job.memory

    def cancel(self):
        self.cancelled = True


@dataclass
class FakeBackend:
    """Every job takes `work` operations; real work takes `nap` seconds of the host."""

    algorithm: Algorithm
    work: float = 1e6
    nap: float = 0.0
    promises: list[FakePromise] = field(default_factory=list)

    def submit(self, job):
        self.promises.append(FakePromise(self, job))
        return self.promises[-1]

    def flops(self, job):
        return self.work


@dataclass
class Lab:
    """A world, its network and backend, and the rows written so far; `asked` counts the asks begun."""

    env: simpy.Environment
    nodes: Nodes
    network: SimulatedNetwork
    world: World
    learner: Live
    backend: FakeBackend
    rows: list[Row] = field(default_factory=list)
    asked: int = 0
    moved: list[TransferRow] = field(default_factory=list)  # what the network itself has told

    def at(self, second, call, *args):
        """Have something done at that time."""
        self.env.timeout(second - self.env.now).callbacks.append(lambda _: call(*args))

    def run(self, protocol=None):
        """Run a protocol to its end, or the clock as far as it goes, and close the books; return whether it ended."""
        done = self.env.process(protocol.run(self.world)) if protocol else None
        while self.env.peek() < float("inf") and not (done and done.processed):
            self.env.step()
        self.world.end()
        return bool(done and done.processed)

    def value(self, ticket):
        """What a ticket stands for."""
        value = ticket.value
        return getattr(value, "tree", value)

    @property
    def state(self):
        """The server's."""
        return self.value(self.world.server.state)

    def states(self):
        """Each client's own, in their order."""
        return [self.value(self.world.clients.states[client]) for client in self.world.clients]

    def memory(self, client):
        """What a client remembers by now."""
        self.world.clients.catch_up()
        return self.learner.clients[client].memory

    def of(self, table):
        return [row for row in self.rows if type(row) is table]

    @property
    def transfers(self):
        return self.of(TransferRow)

    @property
    def updates(self):
        return self.of(UpdateRow)

    @property
    def spans(self):
        return self.of(SpanRow)

    def fates(self):
        return Counter(row.fate for row in self.transfers)


def lab(
    clients=1,
    latency=0.1,
    rate=8e4,
    speed=SPEED,
    algorithm=None,
    cores=1,
    effects=(),
    seed=0,
    nap=0.0,
    work=1e6,
    links=SimulatedNetwork,
    edges=0,
    masks=None,
) -> Lab:
    """Build one: latency (s), rate (bit/s, up and down) and speed (operations/s), one for all clients or one each.

    `links` makes the network; `edges` is the number of edge aggregators, `masks` is for secure aggregation.
    """
    algorithm = within(algorithm or Number(), None)  # type: ignore[arg-type]
    env, rows, rng = simpy.Environment(), list[Row](), Streams(seed)
    columns = [np.broadcast_to(np.asarray(value, float), clients) for value in (latency, rate, rate)]
    nodes, moved, router = Nodes(*columns), list[TransferRow](), Router(rows.append)

    def told(row):
        moved.append(row)
        router.moved(row)

    network = links(env, nodes, rng=rng, record=told, effects=effects, model=NetworkModel())
    backend = FakeBackend(algorithm, work, nap)
    speeds = np.broadcast_to(np.asarray(speed, float), clients)
    attackers = Attackers.drawn(effects, clients, rng)
    learner = Live(algorithm, backend, Streams(seed), partial(seeds.of_jobs, seed), attackers=attackers)
    hosts = Clients(env, network, learner, speeds, rng, rows.append, partial(_extend, rows))
    computer = env, network, learner, hosts, rows.append, SERVER_SPEED, cores, masking.STEPS
    halts = network.server_status is not None
    above = (RestartingServer if halts else ServerHost)(*computer)
    below = [ServerHost(*computer, node=edge_node(edge)) for edge in range(edges)]
    exchange = Exchange(above) if masks is None else SecureExchange(above, masks, rng)
    router.register(above, *below)
    made = World(env, network, learner, above, exchange, hosts, rng, Uniform(), rows.append, below)
    for client in hosts:
        hosts.arrive(client, Period())  # type: ignore[arg-type]
    here = Lab(env, nodes, network, made, learner, backend, rows, 0, moved)
    for server in (above, *below):
        _count_asks(here, server)
    return here


def _extend(rows, table, columns):
    """Write the rows of equally long columns one by one; a column may be one value for all."""
    count = max(len(column) for column in columns.values() if not isinstance(column, str))
    whole = [[column] * count if isinstance(column, str) else column.tolist() for column in columns.values()]
    rows += [table(**dict(zip(columns, row, strict=True))) for row in zip(*whole, strict=True)]


def _count_asks(here, server):
    ask = server.ask

    def counted(client, step="train", payloads=None):
        here.asked += 1
        return ask(client, step, payloads)

    server.ask = counted


def download_bytes(algorithm: Number, client: int = 0, version: int = 0) -> int:
    return Message(SERVER, client, "train", algorithm.download({"model": 0.0}, client, "train"), version).nbytes


def upload_bytes(algorithm: Number, client: int = 0, version: int = 0) -> int:
    tree = {"jobs": 1, "ballast": Spec((algorithm.up,), "uint8")}
    return Message(client, SERVER, "train", tree, version).nbytes


def trip(algorithm: Number, latency=0.1, rate=8e4, speed=SPEED, work=1e6) -> float:
    """Seconds of one exchange by hand: down, work, up."""
    moving = 8 * (download_bytes(algorithm) + upload_bytes(algorithm)) / rate
    return 2 * latency + moving + work / speed


def check_books(here: Lab) -> None:
    """Every byte and every ask is accounted for."""
    carried = [(row.sent, row.arrived, row.src, row.dst, row.nbytes, row.wire_bytes) for row in here.moved]
    told = [(row.sent, row.arrived, row.src, row.dst, row.nbytes, row.wire_bytes) for row in here.transfers]
    assert sorted(told) == sorted(carried)
    assert {row.fate for row in here.transfers} <= {"delivered", "late", "discarded", "cut", "lost"}
    for row in here.updates:
        assert row.asked == row.folded + row.lost + row.late + row.refused
    for before, after in zip([0, *(row.version for row in here.updates)], here.updates, strict=False):
        assert after.version == before + (after.folded > 0)
    for span in here.spans:
        assert 0 <= span.start <= span.end <= here.env.now

"""The contract of a protocol: when clients are asked and with whom, never what is computed.

Most protocols are made of four calls: `select` draws a cohort, `world.server.begin_round` counts the round,
`world.exchange` asks the cohort and awaits its replies, and `world.server.update` folds them; `exchanges` names the
steps of a round.  Those without a server use `advance`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import simpy

from fedsim.clock.sampler import Cohorts
from fedsim.clock.world import World
from fedsim.core.arrays import Bools
from fedsim.core.units import Count, PositiveFraction
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.replies import Reply
from fedsim.net.topology import Topology

Steps = Generator[simpy.Event, Any, None]


class Protocol(ABC):
    """A process that asks clients and has the server fold their replies."""

    asks: ClassVar[bool] = True  # False if it only moves bytes and needs no algorithm
    shares_only: ClassVar[bool] = False  # True if peers' whole shares are all that travels
    sums: ClassVar[bool] = False  # True if the replies of one cohort are added, as secure aggregation requires
    by_chance: ClassVar[bool] = False  # True if an update folds only clients drawn for its round
    silent: ClassVar[bool] = False  # True if nothing travels, whatever the algorithm

    @abstractmethod
    def run(self, world: World) -> Steps:
        """Run to the end, as a process of the world's environment."""

    @abstractmethod
    def share(self, world: World) -> float:
        """Return the progress from 0 to 1, for the progress bar."""

    def refuse(self, algorithm: Algorithm, topology: Topology) -> str | None:
        """Return why the algorithm or the topology does not fit, with a remedy, or None; called before the run."""
        if not topology.has_server:
            return "needs a server, and a network of peers has none: take the protocol 'gossip', or the topology 'star'"
        return None

    def folded(self, clients: int) -> int | None:
        """Return how many replies, each of weight 1 at most, an update folds; None if that is not known in advance."""
        return None

    def cohorts(self, clients: int) -> Cohorts | None:
        """Return what is drawn from that many clients, one cohort for each round; None if it is not drawn so."""
        return None

    def suits(self, clients: int) -> None:  # noqa: B027
        """Check that the protocol's options and tables suit that many clients; called before the run.

        Raises UserError, naming the file and its line, if one does not.
        """


@dataclass(frozen=True, kw_only=True)
class CohortProtocol(Protocol):
    """A protocol that asks a fraction of all clients, or a fixed number, at a time."""

    or_all: ClassVar[bool] = False  # True if all clients are wanted unless one of the two is given

    participation: PositiveFraction | None = None  # share of all clients asked each round
    clients: Count | None = None  # or their number

    def __post_init__(self) -> None:
        """Check that exactly one of the two is given."""
        if self.or_all and self.participation is None and self.clients is None:
            return
        if (self.participation is None) == (self.clients is None):
            raise ValueError("give either 'participation' (a fraction of the clients) or 'clients' (a count), not both")

    def cohort_size(self, world: World) -> int:
        """Return how many of all clients are wanted."""
        return self.cohort_of(len(world.clients))

    def cohort_of(self, among: int) -> int:
        """Return how many of that many clients are wanted: the fraction rounded up (as in POWER, KDD 2025, Fig. 7)."""
        if self.clients is not None:
            return min(self.clients, among)
        assert self.participation is not None
        return max(1, math.ceil(self.participation * among - 1e-9))


@dataclass(frozen=True, kw_only=True)
class Rounds(CohortProtocol):
    """A protocol of a fixed number of rounds."""

    rounds: Count  # number of rounds

    def share(self, world: World) -> float:
        """Return the share of rounds that have begun."""
        return min(1.0, world.server.rounds / self.rounds)


def exchanges(world: World) -> Iterator[str]:
    """Yield the steps of a round, each once the one before is folded, which may request further steps.

    If the server restarts, the round ends and its replies are lost.
    """
    if world.learner.one_step:
        yield "train"
        return
    waiting, restarts = world.learner.steps(world.server.state), world.server.restarts
    while waiting and world.server.restarts == restarts:
        step, before = waiting.pop(0), world.server.state
        yield step
        if world.server.state is not before:  # unchanged if nobody has replied
            waiting = [*world.learner.more(world.server.state, step), *waiting]


def select(world: World, count: int, among: Bools | None = None) -> Generator[simpy.Event, Any, list[int]]:
    """Sample up to `count` available clients (out of `among`), waiting until there is at least one.

    Also waits while the server is down.
    """
    while not (world.server.serving and (cohort := world.sample(count, among))):
        yield world.clients.client_available
    return cohort


def advance(world: World, client: int, step: str, version: int) -> Generator[simpy.Event, Any, bool]:
    """Have a client work on its own state and fold the result into it; return whether it succeeded.

    It takes simulated time (the spans `train` and `mix`).  A client that goes to sleep or leaves counts as lost, one
    whose values are not finite as refused; its state stays unchanged.
    """
    learner, clients, state = world.learner, world.clients, world.clients.states[client]
    (download,) = learner.downloads(state, [client], step)
    upload = yield from clients.work(client, step, download, learner, travels=False)
    if upload is None:
        world.server.counts.lost += 1
        return False
    opened = world.server.open([Reply(client, version, download, upload)], step, state)
    if not opened.accepted:
        return False
    if not (yield from clients.compute(client, opened.operations, "mix")):
        world.server.counts.lost += 1
        return False
    clients.states[client] = learner.aggregate(state, opened.accepted, step).state
    return True

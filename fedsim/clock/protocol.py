"""The contract of a protocol: when clients are asked and with whom, never what is computed.

`select`, `exchange` and `gather` are what most protocols are made of, and `advance` those without a server.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import simpy

from fedsim.clock.ask import Ask
from fedsim.clock.sampler import Cohorts
from fedsim.clock.world import Members, World
from fedsim.core.units import Count, Fraction
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Algorithm, declared
from fedsim.learner.ticket import Reply, Ticket
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

    participation: Fraction | None = None  # share of all clients asked each round
    clients: Count | None = None  # or their number

    def __post_init__(self) -> None:
        """Check that exactly one of the two is given."""
        if self.or_all and self.participation is None and self.clients is None:
            return
        if (self.participation is None) == (self.clients is None):
            raise ValueError("give either 'participation' (a fraction of the clients) or 'clients' (a count), not both")
        if self.participation == 0:
            raise ValueError("participation: must be above 0, or no client would ever take part")

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


def own_steps(algorithm: Algorithm) -> bool:
    """Return whether the algorithm defines its own exchanges, which need rounds with one cohort throughout."""
    return declared(algorithm, "own_steps")


def exchanges(world: World) -> Iterator[str]:
    """Yield the steps of a round, each once the one before is folded, which may request further steps.

    If the server restarts, the round ends and its replies are lost.
    """
    waiting, restarts = world.learner.steps(world.server.state), world.server.restarts
    while waiting and world.server.restarts == restarts:
        step, before = waiting.pop(0), world.server.state
        yield step
        if world.server.state is not before:  # unchanged if nobody has replied
            waiting = [*world.learner.more(world.server.state, step), *waiting]


def select(world: World, count: int, among: Members | None = None) -> Generator[simpy.Event, Any, list[int]]:
    """Sample up to `count` available clients (out of `among`), waiting until there is at least one.

    Also waits while the server is down.
    """
    while not (world.server.serving and (cohort := world.sample(count, among))):
        yield world.clients.stirred
    return cohort


def gather(
    world: World, asks: Sequence[Ask], want: int, before: float = math.inf
) -> Generator[simpy.Event, Any, list[Reply]]:
    """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival.

    Asks without a reply by then are closed: their replies will be late.
    """
    if not asks:
        return []
    done, replies, waiting = world.env.event(), list[Reply](), set[simpy.Event](asks)

    def ended(event: simpy.Event) -> None:
        waiting.discard(event)
        if done.triggered:
            return
        if event.value is not None:
            replies.append(event.value)
        if len(replies) == want or not waiting:
            done.succeed()

    for ask in asks:
        if ask.processed:
            ended(ask)
        else:
            ask.callbacks.append(ended)
    yield done if math.isinf(before) else done | world.env.timeout(before)
    counted = {id(reply) for reply in replies}
    for ask in asks:
        if not (ask.processed and (ask.value is None or id(ask.value) in counted)):
            world.server.close(ask)
    return replies


def own_state(world: World, client: int) -> Ticket:
    """Return the client's own state, under protocols without a server."""
    return world.clients.states[client]


def advance(world: World, client: int, step: str, version: int) -> Generator[simpy.Event, Any, bool]:
    """Have a client work on its own state and fold the result into it; return whether it succeeded.

    It takes simulated time (the spans `train` and `mix`).  A client that goes to sleep or leaves counts as lost, one
    whose values are not finite as refused; its state stays unchanged.
    """
    learner, clients, state = world.learner, world.clients, own_state(world, client)
    (download,) = learner.downloads(state, [client], step)
    worked = yield from clients.work(client, step, download, travels=False)
    if not worked:
        world.server.note(lost=1)
        return False
    replies = world.server.screen([Reply(client, version, download, worked[0])])
    if not replies:
        return False
    if not (yield from clients.compute(client, learner.operations(state, replies, step), "mix")):
        world.server.note(lost=1)
        return False
    clients.states[client] = learner.fold(state, replies, step).state
    return True


def exchange(
    world: World,
    cohort: Sequence[int],
    step: str,
    want: int | None = None,
    before: float = math.inf,
    beside: Mapping[int, Tree] | None = None,
) -> Generator[simpy.Event, Any, Sequence[Reply]]:
    """Ask a cohort and wait as `gather` does, for all replies by default; return the replies.

    `beside` is what masking sends each client with its download.  No other client may be asked until this returns, so
    the cohort can be asked as one wave where the network allows it: many times faster, with the same times, bytes and
    fates.
    """
    want = len(cohort) if want is None else want
    if world.server.wanted is None:  # a later exchange of a round, which only its cohort can answer
        world.server.wanted = len(cohort)
    wave = world.server.ask_all(cohort, step, want >= len(cohort) and math.isinf(before), beside)
    if wave is None:
        extra = beside or {}
        asks = [world.server.ask(client, step, extra.get(client)) for client in cohort]
        return (yield from gather(world, asks, want, before))
    return (yield from wave.first(want, before))

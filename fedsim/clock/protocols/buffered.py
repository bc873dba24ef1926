"""Asynchronous updates from a buffer (FedBuff: Nguyen et al., AISTATS 2022; with a buffer of 1, FedAsync).

A fixed number of clients is at work at any time: whenever one has replied or is lost, another is asked at once, with
the current model.  That does not include the reply that has just arrived, since folding takes time.  Replies wait in
the buffer until there are `buffer` of them; the server then folds them, one update after another, while it continues to
ask clients and receive replies.  A reply folded tau updates after its client downloaded the model has the weight
rate * s(tau), where s is 1 (constant), (1 + tau) ** -a (polynomial), or 1 up to tau = b and 1 / (a (tau - b) + 1) above
(hinge): Xie, Koyejo and Gupta, "Asynchronous Federated Optimization", 2019, section 5.2.  Before the last update the
server stops asking, and clients still at work are late.

Not modelled: FedAsync's proximal term, which belongs to the algorithm.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Literal

import simpy
from pydantic import NonNegativeInt

from fedsim.clock.protocol import Rounds, Steps
from fedsim.clock.requests import Request
from fedsim.clock.world import World
from fedsim.core.units import Count, NonNegative, Positive
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.replies import Reply
from fedsim.net.topology import Topology

DEFAULTS = {"constant": (0.0, 0.0), "polynomial": (0.5, 0.0), "hinge": (10.0, 4.0)}  # a, b as in FedAsync


@dataclass(frozen=True, kw_only=True)
class Buffered(Rounds):
    """`rounds` is the number of updates; `participation` or `clients` is the number of clients at work at a time."""

    buffer: Count  # replies per update
    staleness: Literal["constant", "polynomial", "hinge"] = "polynomial"  # how a stale reply is discounted
    a: NonNegative | None = None  # how fast the weight falls; if not given, 0.5 for polynomial and 10 for hinge
    b: NonNegative | None = None  # staleness from which it falls, in updates (hinge); if not given, 4
    rate: Positive = 1.0  # the server's mixing rate; 1 adds the mean of the buffer as it is
    most_stale: NonNegativeInt | None = None  # replies that are more updates behind than this are discarded

    def __post_init__(self) -> None:
        """Raise ValueError for a constant that the kind of staleness does not use."""
        super().__post_init__()
        for name, value, used in (
            ("a", self.a, self.staleness != "constant"),
            ("b", self.b, self.staleness == "hinge"),
        ):
            if value is not None and not used:
                raise ValueError(f"{name}: has no meaning where staleness is '{self.staleness}'; leave it out")

    def refuse(self, algorithm: Algorithm, topology: Topology) -> str | None:
        """Return why not: rounds of several steps need a cohort, and here clients are asked one by one."""
        if algorithm.own_steps:
            name = type(algorithm).__name__
            return (
                f"has no rounds with one cohort, which the steps of {name} need: take the protocol 'sync' or 'deadline'"
            )
        return super().refuse(algorithm, topology)

    def folded(self, clients: int) -> int | None:
        """Return the size of the buffer; a rate above 1 would let a reply weigh more."""
        return self.buffer if self.rate <= 1 else None

    def discount(self, behind: int) -> float:
        """Return s, the weight of a reply that is `behind` updates old."""
        a, b = (
            given if own is None else own for own, given in zip((self.a, self.b), DEFAULTS[self.staleness], strict=True)
        )
        if self.staleness == "hinge":
            return 1.0 if behind <= b else 1.0 / (a * (behind - b) + 1.0)
        return float((1.0 + behind) ** -a)

    def run(self, world: World) -> Steps:
        """Fold replies, while a second process keeps enough clients at work."""
        server, came, under_way = world.server, simpy.Store(world.env), dict[int, Request]()
        last = world.env.event()
        world.env.process(self._keep_asking(world, came, under_way, last))
        while server.rounds < self.rounds:
            batch = yield from self._fill(world, came)
            server.begin_round()
            if server.rounds == self.rounds:
                last.succeed()
                for ask in under_way.values():
                    server.close(ask)
                for reply in came.items:
                    server.discard(reply)
            yield from server.update(batch)

    def _fill(self, world: World, came: simpy.Store) -> Generator[simpy.Event, Any, list[Reply]]:
        """Return the next buffer of replies, weighted; the version cannot change before they are folded."""
        batch: list[Reply] = []
        while len(batch) < self.buffer:
            reply = yield came.get()
            batch = [*world.server.remembered(batch)]  # a restart empties the buffer
            behind = world.server.version - reply.version
            if self.most_stale is not None and behind > self.most_stale:
                world.server.discard(reply)
            else:
                batch.append(replace(reply, weight=self.rate * self.discount(behind)))
        return batch

    def _keep_asking(self, world: World, came: simpy.Store, under_way: dict[int, Request], last: simpy.Event) -> Steps:
        """Ask a client for each that has finished, until the last update."""

        def ended(ask: simpy.Event) -> None:
            if isinstance(ask, Request) and ask.open:
                del under_way[id(ask)]
                if ask.value is not None:
                    came.put(ask.value)

        wanted = self.cohort_size(world)
        while not last.triggered:
            missing = wanted - len(world.server.busy) if world.server.serving else 0
            for client in world.sample(missing) if missing else ():
                ask = world.server.ask(client)
                under_way[id(ask)] = ask
                ask.callbacks.append(ended)
            yield world.clients.client_available

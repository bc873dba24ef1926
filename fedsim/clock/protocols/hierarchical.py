"""Rounds in two tiers (HierFAVG: Liu, Zhang, Song and Letaief, ICC 2020): clients, edge aggregators, the cloud.

A cloud round begins when a client is available at any edge, or as many clients as `least` asks for.  The cloud sends
its share to every edge, from which the edge starts; all edges then run `edge_rounds` synchronous rounds with their own
clients, at the same time, and send their shares up.  When all have finished, or the time is up, the cloud merges the
shares, each weighted by the total mass of the clients folded into it (`Algorithm.mass`; for FedAvg what they hold),
which takes simulated time, and counts one update.

An edge without available clients when it would ask them skips the rest of its round; one that has folded nothing sends
nothing.  An edge that has not finished when the time is up is interrupted: its clients are late, those folded already
included, and its share arrives late.  An edge keeps its own state between rounds and replaces only the shared part.  If
the cloud restarts during a round, the edges continue, and what they send it is lost.

Not modelled: edges that exchange models, and clients that change edges.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from fedsim.clock.exchange import gather
from fedsim.clock.protocol import Rounds, Steps
from fedsim.clock.quorum import Quorum
from fedsim.clock.requests import Request, RoundCounts
from fedsim.clock.server import ServerHost
from fedsim.clock.world import World
from fedsim.core.arrays import Bools
from fedsim.core.record import SERVER
from fedsim.core.units import Count, Duration
from fedsim.learn.algorithm import Algorithm
from fedsim.learner.ticket import Share
from fedsim.net.message import Message
from fedsim.net.topology import Topology
from fedsim.net.transfer import Delivery, Lost


@dataclass
class EdgeRound:
    """One edge's part of a cloud round: the clients folded with their masses, and the share sent to the cloud."""

    edge: ServerHost
    members: Bools
    masses: dict[int, float] = field(default_factory=dict)
    folded: int = 0
    share: Share | None = None
    arrived: bool = False
    asks: Sequence[Request] = ()  # not folded yet
    moving: Delivery | None = None


@dataclass(frozen=True, kw_only=True)
class Hierarchical(Quorum, Rounds):
    """`participation` or `clients` is the number of an edge's clients in each of its rounds."""

    edge_rounds: Count = 1  # rounds of each edge per round of the cloud
    wait: Duration | None = None  # how long the cloud waits for its edges, at most

    def most_of(self, clients: int) -> int:
        """Return all of them: each edge wants its own number, and only the topology knows the edges."""
        return clients

    def refuse(self, algorithm: Algorithm, topology: Topology) -> str | None:
        """Return why not: it needs edges, and states that can be merged."""
        name = type(algorithm).__name__
        if not topology.has_edges:
            return "needs edge aggregators between clients and cloud: take the topology 'tree', or the protocol 'sync'"
        if not algorithm.talks:
            return f"merges what edges send, and {name} sends nothing: take the protocol 'sync'"
        if algorithm.own_steps:
            return f"asks for one exchange at a time, and {name} has steps of its own: take the protocol 'sync'"
        return super().refuse(algorithm, topology)

    def run(self, world: World) -> Steps:
        """Run the edges, merge their shares."""
        node_of = np.array([world.network.layout.edge_of(client) for client in world.clients])
        members = [node_of == edge.node for edge in world.edges]
        wanted = sum(self.cohort_of(int(own.sum())) for own in members if own.any())
        for _ in range(self.rounds):
            yield from self.gathered(world, wanted)
            while not (world.server.serving and world.available()):
                yield world.clients.client_available
            world.server.begin_round(wanted * self.edge_rounds)
            restarts = world.server.restarts
            legs = [EdgeRound(edge, own) for edge, own in zip(world.edges, members, strict=True) if own.any()]
            yield from self._send_out(world, legs)
            brought = [leg for leg in legs if leg.arrived and world.server.restarts == restarts]
            if brought:
                masses = [sum(leg.masses.values()) for leg in brought]
                weights = masses if any(masses) else [1.0] * len(brought)
                if not (yield from world.server.mix([leg.share for leg in brought if leg.share], weights)):
                    brought = []
            counts = world.server.counts
            for leg in legs:
                counts.add(leg.edge.counts)
                leg.edge.counts = RoundCounts()
            folded = sum(leg.folded for leg in brought)
            rest = sum(leg.folded for leg in legs) - folded
            counts.add(RoundCounts(late=rest) if world.server.restarts == restarts else RoundCounts(lost=rest))
            yield from world.server.record_update("train", folded, 0.0)

    def _send_out(self, world: World, legs: Sequence[EdgeRound]) -> Steps:
        """Run a round at all edges in parallel, for as long as the cloud waits."""
        share = world.learner.share(world.server.state)
        runs = [world.env.process(self._leg(world, leg, share)) for leg in legs]
        through = world.env.all_of(runs)
        yield through if self.wait is None else through | world.env.timeout(self.wait)
        for run in runs:
            if run.is_alive:
                run.interrupt("late")
        yield world.env.all_of(runs)

    def _leg(self, world: World, leg: EdgeRound, share: Share) -> Steps:
        """Run one edge's round; its results are in `leg`."""
        try:
            yield from self._through(world, leg, share)
        except Lost:
            return
        except simpy.Interrupt:
            for ask in leg.asks:
                leg.edge.close(ask)
            if leg.moving is not None:
                leg.moving.fate = "late"

    def _through(self, world: World, leg: EdgeRound, share: Share) -> Steps:
        edge, cloud = leg.edge, world.server
        edge.version = cloud.version
        request = yield from self._move(world, leg, _message(SERVER, edge.node, share, cloud.version))
        edge.state = world.learner.mix(edge.state, [share], [1.0])
        for _ in range(self.edge_rounds):
            cohort = world.sample(self.cohort_of(int(leg.members.sum())), leg.members)
            if not cohort:
                break
            edge.begin_round()
            leg.asks = [edge.ask(client) for client in cohort]
            replies = yield from gather(edge, leg.asks, len(cohort))
            folded = yield from edge.aggregate(replies)
            leg.asks = ()
            leg.folded += len(folded)
            masses = world.learner.aggregation_weights(folded)
            leg.masses.update((reply.client, mass) for reply, mass in zip(folded, masses, strict=True))
        if leg.folded:
            leg.share = world.learner.share(edge.state)
            yield from self._move(world, leg, _message(edge.node, SERVER, leg.share, cloud.version), request)
            leg.arrived = True

    def _move(
        self, world: World, leg: EdgeRound, message: Message, answers: Delivery | None = None
    ) -> Generator[simpy.Event, Any, Delivery]:
        leg.moving = moving = world.network.send(message, answers)
        yield moving
        leg.moving = None
        return moving


def _message(src: int, dst: int, share: Share, version: int) -> Message:
    return Message.carrying(src, dst, "share", share.ticket.nbytes, version, (share.ticket, None))

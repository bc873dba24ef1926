"""Gossip: peers without a server; each trains, sends its share to its neighbours, and mixes what it has received.

Decentralised SGD in its asynchronous form (D-PSGD: Lian et al., NeurIPS 2017; AD-PSGD: Lian et al., ICML 2018), with
whole shares instead of averaged pairs.  A peer's round begins when it is online and holds data.  It works on its own
state as a client works on a download, and folds the outcome into its state as a server would, in its own time.  It
sends its share to all neighbours, waits until these transfers have ended, one way or the other, and then mixes its own
with the newest share of each neighbour that has come since it last mixed.  Nobody waits for another's share.

Each peer's round is an update of its own: one row, and where it came through a new version.  A peer that goes to sleep
or leaves before its state is updated has lost the round; after that, it merely mixes later.  `staleness` is by how many
rounds the senders of the shares mixed had been behind the peer on average, those ahead of it counted as 0.  A share
that nobody mixes any more has been delivered all the same.

A peer that has computed values that are not finite refuses its own work: its state stays, it sends nothing, and
its row counts it as refused.  A share with such numbers is discarded by whoever receives it.

The codec `up` compresses what a peer sends, once for all its neighbours.

Not modelled: rounds in step with the neighbours, and shares that are sent on.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import simpy

from fedsim.clock.protocol import Protocol, Steps, advance, own_state, own_steps
from fedsim.clock.world import World
from fedsim.core.units import Count
from fedsim.learn.algorithm import Algorithm
from fedsim.learner.ticket import Share
from fedsim.net.message import Message
from fedsim.net.topology import Topology
from fedsim.net.transfer import Delivery, Lost


@dataclass(frozen=True, kw_only=True)
class Gossip(Protocol):
    """Ends when every peer has begun and finished its rounds."""

    shares_only: ClassVar[bool] = True

    rounds: Count  # rounds of each peer
    weights: Literal["equal", "metropolis"] = "equal"  # of a peer's own and the received shares, in mixing

    def refuse(self, algorithm: Algorithm, topology: Topology) -> str | None:
        """Return why not: it needs neighbours, and an algorithm whose state can be shared."""
        name = type(algorithm).__name__
        if not topology.has_peers:
            return "needs clients that have neighbours: take the topology 'peers', or the protocol 'sync'"
        if not algorithm.talks:
            return f"mixes what peers send, and {name} sends nothing: take the protocol 'sync' and the topology 'star'"
        if algorithm.ranks_replies:
            return f"folds one reply at a time, and {name} compares a cohort's: leave algorithm.aggregation out"
        if own_steps(algorithm):
            return f"has no rounds with one cohort, which the steps of {name} need: take the protocol 'sync'"
        return None

    def share(self, world: World) -> float:
        """Return the peers' rounds begun as a share of all."""
        return min(1.0, world.server.rounds / (self.rounds * len(world.clients)))

    def run(self, world: World) -> Steps:
        """Set off a round of every peer that is there and still has some to go."""
        peers = _Peers(self, world)
        while peers.left:
            for client in world.available(peers.due):
                peers.begin(client)
            yield world.clients.stirred


class _Peers:
    """What the peers have done so far, and what has reached each since it last mixed: (sender's round, share)."""

    def __init__(self, gossip: Gossip, world: World) -> None:
        self.gossip, self.world = gossip, world
        self.due = np.ones(len(world.clients), dtype=bool)
        self.through = np.zeros(len(world.clients), dtype=np.int64)
        self.left = len(world.clients) * gossip.rounds
        self.inboxes: list[dict[int, tuple[int, Share]]] = [{} for _ in world.clients]
        for client in world.clients:
            world.clients.states[client] = world.server.state

    def begin(self, client: int) -> None:
        self.due[client] = False
        self.world.server.rounds += 1
        self.world.clients.begin(client)
        self.world.env.process(self._round(client))

    def _round(self, client: int) -> Steps:
        staleness = 0.0
        updated = yield from advance(self.world, client, "train", int(self.through[client]))
        if updated:
            yield from self._send(client)
            staleness = yield from self._mix(client)
        yield from self.world.server.count("train", int(updated), staleness)
        self.left -= 1
        self.through[client] += 1
        self.due[client] = self.through[client] < self.gossip.rounds
        self.world.clients.finish(client)

    def _send(self, client: int) -> Steps:
        """Send the peer's share to its neighbours, and wait until all of it has arrived or is lost."""
        state, number = own_state(self.world, client), int(self.through[client])
        share = self.world.learner.share(state, client)
        network = self.world.network
        sent: list[Delivery] = []
        for neighbour in network.neighbours(client):
            label = share.ticket, None
            delivery = network.send(Message.carrying(client, neighbour, "share", share.ticket.nbytes, number, label))
            delivery.fate = "delivered" if share.finite else "discarded"
            if share.finite:
                delivery.callbacks.append(partial(self._received, share))
            sent.append(delivery)
        for delivery in sent:
            with suppress(Lost):
                yield delivery
        yield self.world.env.timeout(0)  # what arrives in the same instant is there

    def _received(self, share: Share, delivery: simpy.Event) -> None:
        if delivery.ok:
            message: Any = delivery.value
            self.inboxes[message.dst][message.src] = message.version, share

    def _mix(self, client: int) -> Generator[simpy.Event, Any, float]:
        """Merge what has come with the peer's own; return by how many rounds it was behind on average."""
        learner, number = self.world.learner, int(self.through[client])
        received, state = dict(self.inboxes[client]), own_state(self.world, client)
        if not received:
            return 0.0
        shares = [learner.share(state), *(share for _, share in received.values())]
        operations = sum(share.operations for share in shares)
        if not (yield from self.world.clients.compute(client, operations, "mix")):
            return 0.0
        self.world.clients.states[client] = learner.mix(state, shares, self._weights(client, list(received)))
        for neighbour, entry in received.items():
            if self.inboxes[client][neighbour] is entry:  # no newer one has come meanwhile
                del self.inboxes[client][neighbour]
        return sum(max(0, number - round_) for round_, _ in received.values()) / len(received)

    def _weights(self, client: int, senders: list[int]) -> list[float]:
        """Return the weights of the own share and of the senders': equal, or by Metropolis's rule.

        Metropolis: 1 / (1 + the larger of both peers' numbers of neighbours), and oneself the rest (Xiao, Boyd
        and Lall, IPSN 2005), which keeps the mean over all peers where everybody hears everybody.
        """
        if self.gossip.weights == "equal":
            return [1.0] * (1 + len(senders))
        degree = {peer: len(self.world.network.neighbours(peer)) for peer in (client, *senders)}
        theirs = [1.0 / (1 + max(degree[client], degree[sender])) for sender in senders]
        return [1.0 - sum(theirs), *theirs]

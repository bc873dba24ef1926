"""Gossip: peers without a server; each trains, sends its share to its neighbours, and mixes the shares it has received.

Decentralised SGD in its asynchronous form (D-PSGD: Lian et al., NeurIPS 2017; AD-PSGD: Lian et al., ICML 2018), with
whole shares instead of averaged pairs.  A peer's round begins when it is online and holds data.  It works on its own
state as a client works on a download, and folds the result into its state as a server would, on its own computer.  It
sends its share to all neighbours, waits until these transfers have succeeded or failed, and then mixes its own share
with the newest one of each neighbour received since it last mixed.  Peers do not wait for others' shares.

Each peer's round is one update: one row, and a new version if it succeeds.  A peer that goes to sleep or leaves before
its state is updated loses the round; afterwards, it only mixes later.  `staleness` is the mean number of rounds by
which the senders of the mixed shares were behind the peer; senders ahead of it count as 0.  A share that arrives too
late to be mixed still counts as delivered.

A peer whose computed values are not finite refuses its own work: its state stays, it sends nothing, and its row counts
it as refused.  The receiver discards a share that is not finite.

The codec `up` compresses what a peer sends, once for all its neighbours.

Not modelled: rounds synchronised with the neighbours, and shares that are forwarded.
"""

from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import simpy

from fedsim.clock.protocol import Protocol, Steps, advance
from fedsim.clock.world import World
from fedsim.core.units import Count
from fedsim.learn.algorithm import Algorithm
from fedsim.learner.ticket import Share
from fedsim.net.message import Message
from fedsim.net.topology import Topology
from fedsim.net.transfer import Delivery, Lost


@dataclass(frozen=True, kw_only=True)
class Gossip(Protocol):
    """Ends when every peer has finished its rounds."""

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
        if algorithm.own_steps:
            return f"has no rounds with one cohort, which the steps of {name} need: take the protocol 'sync'"
        return None

    def share(self, world: World) -> float:
        """Return the share of the peers' rounds that have begun."""
        return min(1.0, world.server.rounds / (self.rounds * len(world.clients)))

    def run(self, world: World) -> Steps:
        """Start a round of every available peer that has rounds left."""
        peers = _Peers(self, world)
        while peers.left:
            for client in world.available(peers.due):
                peers.begin(client)
            yield world.clients.client_available


class _Peers:
    """The peers' progress, and the shares each has received since it last mixed: (sender's round, share)."""

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
        self.world.server.begin_round()
        self.world.clients.begin(client)
        self.world.env.process(self._round(client))

    def _round(self, client: int) -> Steps:
        staleness = 0.0
        updated = yield from advance(self.world, client, "train", int(self.through[client]))
        if updated:
            yield from self._send(client)
            staleness = yield from self._mix(client)
        yield from self.world.server.record_update("train", int(updated), staleness)
        self.left -= 1
        self.through[client] += 1
        self.due[client] = self.through[client] < self.gossip.rounds
        self.world.clients.finish(client)

    def _send(self, client: int) -> Steps:
        """Send the peer's share to its neighbours, and wait until every transfer has arrived or is lost."""
        state, number = self.world.clients.states[client], int(self.through[client])
        share = self.world.learner.share(state, client)
        network = self.world.network
        sent: list[Delivery] = []
        for neighbour in network.layout.neighbours(client):
            label = share.ticket, None
            delivery = network.send(Message.carrying(client, neighbour, "share", share.ticket.nbytes, number, label))
            delivery.fate = "delivered" if share.finite else "discarded"
            if share.finite:
                delivery.callbacks.append(partial(self._received, share))
            sent.append(delivery)
        for delivery in sent:
            with suppress(Lost):
                yield delivery
        yield self.world.env.timeout(0)  # so that what arrives at the same instant counts

    def _received(self, share: Share, delivery: simpy.Event) -> None:
        if delivery.ok:
            message: Any = delivery.value
            self.inboxes[message.dst][message.src] = message.version, share

    def _mix(self, client: int) -> Generator[simpy.Event, Any, float]:
        """Mix the received shares with the peer's own; return by how many rounds they were behind on average."""
        learner, number = self.world.learner, int(self.through[client])
        received, state = dict(self.inboxes[client]), self.world.clients.states[client]
        if not received:
            return 0.0
        shares = [learner.share(state), *(share for _, share in received.values())]
        operations = sum(share.operations for share in shares)
        if not (yield from self.world.clients.compute(client, operations, "mix")):
            return 0.0
        self.world.clients.states[client] = learner.mix(state, shares, self._weights(client, list(received)))
        for neighbour, entry in received.items():
            if self.inboxes[client][neighbour] is entry:  # no newer one has arrived meanwhile
                del self.inboxes[client][neighbour]
        return sum(max(0, number - round_) for round_, _ in received.values()) / len(received)

    def _weights(self, client: int, senders: list[int]) -> list[float]:
        """Return the weights of the peer's own share and of the senders': equal, or by the Metropolis rule.

        Metropolis: 1 / (1 + the larger of both peers' degrees), and the rest for the peer itself (Xiao, Boyd and Lall,
        IPSN 2005), which preserves the mean over all peers if every share arrives.
        """
        if self.gossip.weights == "equal":
            return [1.0] * (1 + len(senders))
        degree = {peer: len(self.world.network.layout.neighbours(peer)) for peer in (client, *senders)}
        theirs = [1.0 / (1 + max(degree[client], degree[sender])) for sender in senders]
        return [1.0 - sum(theirs), *theirs]

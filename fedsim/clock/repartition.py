"""Repartition: what travels where nodes get another owner, as a step of its own beside those of the algorithm.

When the first client's period of a snapshot arrives, the server, which knows all edges and no features, notifies each
client of the nodes that it gives up; the client answers with their features and labels; once all of them have
answered, every new owner receives these, and those of the snapshot's edges at them that are now its own.  The rows
have the kind `repartition`.  Features that owners derive from edges (`bins`) are not sent, nor labels that are unknown.

These are real transfers over the links that training uses, between cohorts at the earliest; one that is cut
or lost is sent again once its client is online.  No client waits for them: it works on its new graph at once, as if the
server had begun early enough.  Not modelled: new nodes and edges, which arise at their owners, the server's work,
and states of recurrent models, which an algorithm sends itself.
"""

from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from fedsim.core import wire
from fedsim.core.arrays import Ints
from fedsim.core.record import SERVER
from fedsim.core.wire import Spec, Tree
from fedsim.net.message import Message
from fedsim.net.transfer import Lost

if TYPE_CHECKING:
    from fedsim.clock.world import World
    from fedsim.data.time.temporal import Overview

STEP = "repartition"
Process = Generator[Any, Any, None]


class Repartitions:
    """Moves nodes between the clients of a world whose server knows this overview."""

    def __init__(self, world: "World", overview: "Overview") -> None:
        """Expect the first snapshot, at which nothing moves."""
        self._world, self._overview, self._latest = world, overview, 0

    def begin(self, period: int) -> None:
        """Begin to move what changes its owner up to this period, unless that has begun before."""
        for t in range(self._latest + 1, min(period, len(self._overview.owners) - 1) + 1):
            if len(moved(self._overview, t)[0]):
                self._world.env.process(self._run(t))
        self._latest = max(self._latest, period)

    def _run(self, t: int) -> Process:
        env, (_, before, after) = self._world.env, moved(self._overview, t)
        yield env.all_of([env.process(self._given_up(t, client)) for client in np.unique(before).tolist()])
        for client in np.unique(after).tolist():
            env.process(self._send(SERVER, client, taken(self._overview, t, client)))

    def _given_up(self, t: int, client: int) -> Process:
        notice, answer = given_up(self._overview, t, client)
        yield from self._send(SERVER, client, notice)
        yield from self._send(client, SERVER, answer)

    def _send(self, src: int, dst: int, payload: Tree) -> Process:
        world, client = self._world, max(src, dst)
        size = wire.size(payload)
        while True:
            while world.clients.cohort_of or not (world.network.nodes.is_online(client) and world.server.serving):
                yield world.clients.client_available
            version = world.server.version
            with suppress(Lost):
                yield world.network.send(Message.carrying(src, dst, STEP, size, version, (None, payload)))
                return


def moved(overview: "Overview", t: int) -> tuple[Ints, Ints, Ints]:
    """Return the nodes that another client owned in the snapshot before, ascending, and both owners of each."""
    before, after = overview.owners[t - 1], overview.owners[t]
    nodes = np.flatnonzero((before >= 0) & (after >= 0) & (before != after))
    return nodes, before[nodes], after[nodes]


def given_up(overview: "Overview", t: int, client: int) -> tuple[Tree, Tree]:
    """Return how the server notifies a client of the nodes that it gives up, and what the client answers."""
    nodes, before, _ = moved(overview, t)
    ids = nodes[before == client].astype(np.int32)
    return {"period": t, "ids": ids}, {"ids": ids, **_rows(overview, t, len(ids))}


def taken(overview: "Overview", t: int, client: int) -> Tree:
    """Return what the server sends a client that gets nodes of others."""
    nodes, _, after = moved(overview, t)
    own = nodes[after == client]
    new = np.zeros(len(overview.owners[t]), dtype=bool)
    new[own] = True
    source, target = overview.snapshots[t]["edges"].numpy()
    inside = (overview.owners[t][source] == client) & (overview.owners[t][target] == client)
    at = inside & (new[source] | new[target]) & (source < target)
    edges = np.stack([source[at], target[at]]).astype(np.int32)
    return {"period": t, "ids": own.astype(np.int32), "edges": edges, **_rows(overview, t, len(own))}


def _rows(overview: "Overview", t: int, count: int) -> dict[str, Spec]:
    """Return the features and labels of that many nodes, as far as they travel."""
    snapshot, found = overview.snapshots[t], {}
    if "bins" not in snapshot:
        found["x"] = Spec((count, snapshot["x"].shape[1]), "float32")
    if bool((snapshot["y"] >= 0).any()):
        found["y"] = Spec((count,), "int32")
    return found

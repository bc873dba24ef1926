"""Lanes: those on which something is under way, by the nodes that they belong to; an idle client has none."""

from functools import partial

import numpy as np
import simpy

from fedsim.net.access import AccessLane
from fedsim.net.fabric import Fabric
from fedsim.net.lane import BITS, Lane, Track
from fedsim.net.model import Model
from fedsim.net.node import Nodes
from fedsim.net.passage import Passage
from fedsim.net.sharing.bucket import Bucket
from fedsim.net.topology import Layout, Route
from fedsim.net.trunk import Trunk


class Lanes:
    """Finds the lane and the track of a route, and the bytes that clients' access links have carried."""

    def __init__(self, env: simpy.Environment, nodes: Nodes, model: Model, layout: Layout, fabric: Fabric) -> None:
        """Start with none."""
        self._env, self._nodes, self._model, self._layout, self._fabric = env, nodes, model, layout, fabric
        self._access: dict[tuple[int, bool], AccessLane[Passage]] = {}
        self._trunks: dict[tuple[int, int], Trunk[Passage]] = {}
        self._buckets: dict[tuple[int, bool], Bucket] = {}
        self.carried = {up: np.zeros(len(nodes)) for up in (True, False)}  # wire bytes

    def find(self, src: int, dst: int, route: Route) -> tuple[Lane[Passage], Track]:
        """Return the lane and the track of messages from one node to another."""
        if route.out is not None and route.into is not None:
            return self._between(route.out, route.into), self._fabric.between(route.out, route.into)
        track = self._fabric.track(route)
        if route.out is not None:
            return self._lane(route.out, True), track
        if route.into is not None:
            return self._lane(route.into, False), track
        return self._trunk(src, dst, track), track

    def of(self, client: int) -> list[Lane[Passage]]:
        """Return the lanes that begin or end at a client."""
        found: list[Lane[Passage] | None] = [self._access.get((client, up)) for up in (False, True)]
        for other in self._layout.neighbours(client):
            found += [self._trunks.get((client, other)), self._trunks.get((other, client))]
        return [lane for lane in found if lane]

    def release(self, src: int, dst: int, lane: Lane[Passage]) -> None:
        """Forget the lane of messages from one node to another if nothing is under way on it."""
        if lane.passages:
            return
        if isinstance(lane, AccessLane):
            self._access.pop((lane.client, lane.upload))
            self._dismiss(lane.client)
        else:
            self._trunks.pop((src, dst))
            for client in _clients(src, dst):
                self._dismiss(client)

    def _lane(self, client: int, upload: bool) -> AccessLane[Passage]:
        key = client, upload
        if key not in self._access:
            self._attend(client)
            self._access[key] = AccessLane[Passage](
                self._env, self._nodes, client, upload, self._model, self._bucket(client, upload), self.carried[upload]
            )
        return self._access[key]

    def _attend(self, client: int) -> None:
        """Have the clock stop where this client goes or its rates change: something moves over its links."""
        self._nodes.presence.attend(client)
        self._nodes.rates.attend(client)

    def _dismiss(self, client: int) -> None:
        self._nodes.presence.dismiss(client)
        self._nodes.rates.dismiss(client)

    def _bucket(self, client: int, upload: bool) -> Bucket | None:
        """Return the bucket of a client's access link, None where it holds nothing."""
        key, bursts = (client, upload), self._nodes.up_burst if upload else self._nodes.down_burst
        if key not in self._buckets and bursts[client]:
            self._buckets[key] = Bucket(float(bursts[client]))
        return self._buckets.get(key)

    def _between(self, src: int, dst: int) -> Trunk[Passage]:
        if (src, dst) not in self._trunks:
            for client in _clients(src, dst):
                self._attend(client)
            meters = (self.carried[True], src), (self.carried[False], dst)
            rates = partial(_between_peers, self._nodes, src, dst)
            self._trunks[src, dst] = Trunk[Passage](self._env, self._model, rates, meters)
        return self._trunks[src, dst]

    def _trunk(self, src: int, dst: int, track: Track) -> Trunk[Passage]:
        if (src, dst) not in self._trunks:
            back = self._fabric.track(self._layout.route(dst, src)).slowest
            self._trunks[src, dst] = Trunk[Passage](self._env, self._model, lambda: (track.slowest, back))
        return self._trunks[src, dst]


def _clients(*ends: int) -> list[int]:
    return [end for end in ends if end >= 0]


def _between_peers(nodes: Nodes, src: int, dst: int) -> tuple[float, float]:
    """Return the rates (bytes/s) from one peer to another and back."""
    up, down = nodes.rates.current[True], nodes.rates.current[False]
    there, back = min(up[src], down[dst]), min(up[dst], down[src])
    return float(there) / BITS, float(back) / BITS

"""OpenChannels: the channels on which something is under way, by their nodes; an idle client has none."""

from functools import partial

import numpy as np
import simpy

from fedsim.net.access_channel import AccessChannel
from fedsim.net.channel import BITS, Channel, SharedRoute
from fedsim.net.model import Model
from fedsim.net.node import Nodes
from fedsim.net.pair_channel import PairChannel
from fedsim.net.passage import Passage
from fedsim.net.shared_links import SharedLinks
from fedsim.net.sharing.bucket import Bucket
from fedsim.net.topology import Layout, Route


class OpenChannels:
    """Opens and closes channels, and counts the bytes that each client's access link has carried."""

    def __init__(self, env: simpy.Environment, nodes: Nodes, model: Model, layout: Layout, links: SharedLinks) -> None:
        """Start with none."""
        self._env, self._nodes, self._model, self._layout, self._links = env, nodes, model, layout, links
        self._access: dict[tuple[int, bool], AccessChannel[Passage]] = {}
        self._pairs: dict[tuple[int, int], PairChannel[Passage]] = {}
        self._buckets: dict[tuple[int, bool], Bucket] = {}
        self.carried = {up: np.zeros(len(nodes)) for up in (True, False)}  # wire bytes

    def find(self, src: int, dst: int, route: Route) -> tuple[Channel[Passage], SharedRoute]:
        """Return the channel for messages from one node to another, and the shared part of their route."""
        if route.out is not None and route.into is not None:
            return self._between(route.out, route.into), self._links.between(route.out, route.into)
        shared = self._links.over(route)
        if route.out is not None:
            return self._access_channel(route.out, True), shared
        if route.into is not None:
            return self._access_channel(route.into, False), shared
        return self._pair(src, dst, shared), shared

    def of(self, client: int) -> list[Channel[Passage]]:
        """Return the channels that begin or end at a client."""
        found: list[Channel[Passage] | None] = [self._access.get((client, up)) for up in (False, True)]
        for other in self._layout.neighbours(client):
            found += [self._pairs.get((client, other)), self._pairs.get((other, client))]
        return [channel for channel in found if channel]

    def release(self, src: int, dst: int, channel: Channel[Passage]) -> None:
        """Close the channel from one node to another if nothing is under way on it."""
        if channel.passages:
            return
        if isinstance(channel, AccessChannel):
            self._access.pop((channel.client, channel.upload))
            self._dismiss(channel.client)
        else:
            self._pairs.pop((src, dst))
            for client in _clients(src, dst):
                self._dismiss(client)

    def _access_channel(self, client: int, upload: bool) -> AccessChannel[Passage]:
        key = client, upload
        if key not in self._access:
            self._attend(client)
            self._access[key] = AccessChannel[Passage](
                self._env, self._nodes, client, upload, self._model, self._bucket(client, upload), self.carried[upload]
            )
        return self._access[key]

    def _attend(self, client: int) -> None:
        """Have the clock stop when this client's presence or rates change: something moves over its links."""
        self._nodes.presence.attend(client)
        self._nodes.rates.attend(client)

    def _dismiss(self, client: int) -> None:
        self._nodes.presence.dismiss(client)
        self._nodes.rates.dismiss(client)

    def _bucket(self, client: int, upload: bool) -> Bucket | None:
        """Return the bucket of a client's access link, or None if it has none."""
        key, bursts = (client, upload), self._nodes.up_burst if upload else self._nodes.down_burst
        if key not in self._buckets and bursts[client]:
            self._buckets[key] = Bucket(float(bursts[client]))
        return self._buckets.get(key)

    def _between(self, src: int, dst: int) -> PairChannel[Passage]:
        if (src, dst) not in self._pairs:
            for client in _clients(src, dst):
                self._attend(client)
            meters = (self.carried[True], src), (self.carried[False], dst)
            rates = partial(_between_peers, self._nodes, src, dst)
            self._pairs[src, dst] = PairChannel[Passage](self._env, self._model, rates, meters)
        return self._pairs[src, dst]

    def _pair(self, src: int, dst: int, there: SharedRoute) -> PairChannel[Passage]:
        if (src, dst) not in self._pairs:
            back = self._links.over(self._layout.route(dst, src)).slowest
            self._pairs[src, dst] = PairChannel[Passage](self._env, self._model, lambda: (there.slowest, back))
        return self._pairs[src, dst]


def _clients(*ends: int) -> list[int]:
    return [end for end in ends if end >= 0]


def _between_peers(nodes: Nodes, src: int, dst: int) -> tuple[float, float]:
    """Return the rates (bytes/s) from one peer to another and back."""
    up, down = nodes.rates.current[True], nodes.rates.current[False]
    there, back = min(up[src], down[dst]), min(up[dst], down[src])
    return float(there) / BITS, float(back) / BITS

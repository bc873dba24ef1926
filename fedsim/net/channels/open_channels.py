"""OpenChannels: the channels on which something is under way, by their nodes; an idle client has none."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import simpy

from fedsim.core.arrays import Floats
from fedsim.net.channels.access_channel import AccessChannel, PairChannel
from fedsim.net.channels.channel import BITS, Channel, SharedRoute
from fedsim.net.links.shared_links import SharedLinks
from fedsim.net.model import NetworkModel
from fedsim.net.node import Nodes
from fedsim.net.topology import Layout, Route


class OpenChannels:
    """Opens and closes channels, and counts in `carried` the wire bytes of each client's access link, up and down."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        model: NetworkModel,
        layout: Layout,
        links: SharedLinks,
        carried: Mapping[bool, Floats],
    ) -> None:
        """Start with none."""
        self._env, self._nodes, self._model, self._layout, self._links = env, nodes, model, layout, links
        self._access: dict[tuple[int, bool], AccessChannel] = {}
        self._pairs: dict[tuple[int, int], PairChannel] = {}
        self._idle_since: dict[tuple[int, bool], float] = {}  # of access links with token buckets
        self.carried = carried

    def find(self, src: int, dst: int, route: Route) -> tuple[Channel, SharedRoute]:
        """Return the channel for messages from one node to another, and the shared part of their route."""
        if route.out is not None and route.into is not None:
            meters = (self.carried[True], src), (self.carried[False], dst)
            channel = self._pair(src, dst, partial(_between_peers, self._nodes, src, dst), meters)
            return channel, self._links.between(src, dst)
        shared = self._links.over(route)
        if route.out is not None:
            return self._access_channel(route.out, True), shared
        if route.into is not None:
            return self._access_channel(route.into, False), shared
        reverse = self._links.over(self._layout.route(dst, src)).slowest
        return self._pair(src, dst, lambda: (shared.slowest, reverse)), shared

    def of(self, client: int) -> list[Channel]:
        """Return the channels that begin or end at a client."""
        channels: list[Channel | None] = [self._access.get((client, up)) for up in (False, True)]
        for other in self._layout.neighbours(client):
            channels += [self._pairs.get((client, other)), self._pairs.get((other, client))]
        return [channel for channel in channels if channel]

    def release(self, src: int, dst: int, channel: Channel) -> None:
        """Close the channel from one node to another if nothing is under way on it."""
        if channel.passages:
            return
        if isinstance(channel, AccessChannel):
            self._access.pop((channel.client, channel.upload))
            if channel.burst:
                self._idle_since[channel.client, channel.upload] = channel.idle_since
            self._dismiss(channel.client)
        else:
            self._pairs.pop((src, dst))
            for client in _clients(src, dst):
                self._dismiss(client)

    def _access_channel(self, client: int, upload: bool) -> AccessChannel:
        key = client, upload
        if key not in self._access:
            self._attend(client)
            idle_since = self._idle_since.get(key, -math.inf)
            self._access[key] = AccessChannel(
                self._env, self._nodes, client, upload, self._model, self.carried[upload], idle_since
            )
        return self._access[key]

    def _attend(self, client: int) -> None:
        """Have the clock stop when this client's presence or rates change: something moves over its links."""
        self._nodes.presence.attend(client)
        self._nodes.rates.attend(client)

    def _dismiss(self, client: int) -> None:
        self._nodes.presence.dismiss(client)
        self._nodes.rates.dismiss(client)

    def _pair(
        self, src: int, dst: int, rates: Callable[[], tuple[float, float]], meters: Sequence[tuple[Floats, int]] = ()
    ) -> PairChannel:
        if (src, dst) not in self._pairs:
            for client in _clients(src, dst):
                self._attend(client)
            self._pairs[src, dst] = PairChannel(self._env, self._model, rates, meters)
        return self._pairs[src, dst]


def _clients(*ends: int) -> list[int]:
    return [end for end in ends if end >= 0]


def _between_peers(nodes: Nodes, src: int, dst: int) -> tuple[float, float]:
    """Return the rates (bytes/s) from one peer to another and back."""
    up, down = nodes.rates.current[True], nodes.rates.current[False]
    forward, reverse = min(up[src], down[dst]), min(up[dst], down[src])
    return float(forward) / BITS, float(reverse) / BITS

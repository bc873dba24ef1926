"""Fabric: the links of a layout, as objects that carry flows.

Where every route crosses one shared link, as in a star, each is a `Link`; elsewhere they are pipes of one `Mesh`.
Among peers the clients' access links are pipes as well, made when a client first sends or receives.
"""

import math
from collections.abc import Mapping

import simpy

from fedsim.net.lane import BITS, Track
from fedsim.net.model import Model
from fedsim.net.node import Nodes
from fedsim.net.sharing.link import Link
from fedsim.net.sharing.mesh import Mesh
from fedsim.net.sharing.pipe import Pipe
from fedsim.net.topology import Cable, Route


class Fabric:
    """All shared links by name, in `links`, and the tracks over them."""

    def __init__(
        self, env: simpy.Environment, nodes: Nodes, model: Model, cables: Mapping[str, Cable], meshed: bool
    ) -> None:
        """Make the links; `meshed` where a route may cross several of them."""
        self._nodes, self._model = nodes, model
        self._mesh = Mesh(env)
        self._rates = {name: _bytes_a_second(cable.rate) for name, cable in cables.items()}
        self.links: dict[str, Link | Pipe] = {}
        for name, cable in cables.items():
            capacity = model.capacity(self._rates[name])
            self.links[name] = (
                self._mesh.pipe(capacity, cable.buffer, cable.burst)
                if meshed
                else Link(env, capacity, cable.buffer, cable.burst)
            )
        self._tracks: dict[tuple[str, ...], Track] = {}
        self._access: dict[tuple[int, bool], Pipe] = {}

    def track(self, route: Route) -> Track:
        """Return the track over a route's shared links."""
        if route.links not in self._tracks:
            self._tracks[route.links] = self._laid(route.links)
        return self._tracks[route.links]

    def between(self, src: int, dst: int) -> Track:
        """Return the track from a client to its neighbour, over the access links of both."""
        pipes = self._pipe(src, True), self._pipe(dst, False)
        return Track(self._mesh.path(pipes), pipes, math.inf)

    def refresh(self, client: int) -> None:
        """Give a client's pipes its present rates."""
        for upload, rates in self._nodes.rates.current.items():
            if pipe := self._access.get((client, upload)):
                pipe.set_capacity(self._model.capacity(float(rates[client]) / BITS))

    def _laid(self, names: tuple[str, ...]) -> Track:
        slowest = min((self._rates[name] for name in names), default=math.inf)
        lines = tuple(self.links[name] for name in names)
        if len(lines) == 1 and isinstance(lines[0], Link):
            return Track(lines[0], lines, slowest)
        return Track(self._mesh.path([line for line in lines if isinstance(line, Pipe)]), lines, slowest)

    def _pipe(self, client: int, upload: bool) -> Pipe:
        if (client, upload) not in self._access:
            nodes = self._nodes
            rates = nodes.rates.current[upload]
            buffers, bursts = (nodes.up_buffer, nodes.up_burst) if upload else (nodes.down_buffer, nodes.down_burst)
            buffer = None if math.isnan(buffers[client]) else float(buffers[client])
            capacity = self._model.capacity(float(rates[client]) / BITS)
            self._access[client, upload] = self._mesh.pipe(capacity, buffer, float(bursts[client]))
        return self._access[client, upload]


def _bytes_a_second(rate: float | None) -> float:
    return math.inf if rate is None else rate / BITS

"""SharedLinks: the links of a layout as objects, and the pools of flows over them.

If every route crosses a single shared link, as in a star, each is a `Link`; otherwise they are links of one `Mesh`.
Among peers the clients' access links belong to the mesh as well; each is made when its client first sends or receives.
"""

import math
from collections.abc import Mapping

import simpy

from fedsim.net.channel import BITS, SharedRoute
from fedsim.net.draws import Draws
from fedsim.net.model import Model
from fedsim.net.node import Nodes
from fedsim.net.sharing.link import Link
from fedsim.net.sharing.mesh import Mesh
from fedsim.net.sharing.mesh_link import MeshLink
from fedsim.net.topology import LinkSpec, Route


class SharedLinks:
    """All shared links by name, in `by_name`, and the shared parts of routes."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        model: Model,
        specs: Mapping[str, LinkSpec],
        overflows: Draws,
        *,
        meshed: bool,
    ) -> None:
        """Make the links; `meshed` if a route may cross several of them.  `overflows` are draws for full queues."""
        self._nodes, self._model, self._overflows = nodes, model, overflows
        self._mesh = Mesh(env)
        self._rates = {name: _bytes_a_second(spec.rate) for name, spec in specs.items()}
        self.by_name: dict[str, Link | MeshLink] = {}
        for name, spec in specs.items():
            capacity = model.capacity(self._rates[name])
            self.by_name[name] = (
                self._mesh.link(capacity, spec.buffer, spec.burst)
                if meshed
                else Link(env, capacity, spec.buffer, spec.burst)
            )
        self._routes: dict[tuple[str, ...], SharedRoute] = {}
        self._access: dict[tuple[int, bool], MeshLink] = {}

    def over(self, route: Route) -> SharedRoute:
        """Return the shared part of a route."""
        if route.links not in self._routes:
            self._routes[route.links] = self._made(route.links)
        return self._routes[route.links]

    def between(self, src: int, dst: int) -> SharedRoute:
        """Return the route from a client to its neighbour, over the access links of both."""
        links = self._access_link(src, True), self._access_link(dst, False)
        return SharedRoute(self._mesh.pool(links), links, math.inf, self._overflows)

    def refresh(self, client: int) -> None:
        """Update the capacities of a client's access links."""
        for upload, rates in self._nodes.rates.current.items():
            if link := self._access.get((client, upload)):
                link.set_capacity(self._model.capacity(float(rates[client]) / BITS))

    def _made(self, names: tuple[str, ...]) -> SharedRoute:
        slowest = min((self._rates[name] for name in names), default=math.inf)
        links = tuple(self.by_name[name] for name in names)
        if len(links) == 1 and isinstance(links[0], Link):
            return SharedRoute(links[0], links, slowest, self._overflows)
        pool = self._mesh.pool([link for link in links if isinstance(link, MeshLink)])
        return SharedRoute(pool, links, slowest, self._overflows)

    def _access_link(self, client: int, upload: bool) -> MeshLink:
        if (client, upload) not in self._access:
            nodes = self._nodes
            rates = nodes.rates.current[upload]
            buffers, bursts = (nodes.up_buffer, nodes.up_burst) if upload else (nodes.down_buffer, nodes.down_burst)
            buffer = None if math.isnan(buffers[client]) else float(buffers[client])
            capacity = self._model.capacity(float(rates[client]) / BITS)
            self._access[client, upload] = self._mesh.link(capacity, buffer, float(bursts[client]))
        return self._access[client, upload]


def _bytes_a_second(rate: float | None) -> float:
    return math.inf if rate is None else rate / BITS

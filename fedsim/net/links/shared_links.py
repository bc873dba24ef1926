"""SharedLinks: the links of a layout as objects, and the pools of flows over them.

If every route crosses a single shared link, as in a star, each is a `Link`; otherwise they are links of one
`Mesh`. Among peers the clients' access links belong to the mesh as well; each is made when its client first
sends or receives.
"""

import math
from collections.abc import Mapping
from functools import partial

import simpy

from fedsim.net.channels.channel import BITS, SharedRoute
from fedsim.net.draws import Draws
from fedsim.net.links.link import Link
from fedsim.net.links.mesh import Mesh
from fedsim.net.links.mesh_link import MeshLink
from fedsim.net.model import NetworkModel
from fedsim.net.node import Nodes
from fedsim.net.topology import LinkSpec, Route


class SharedLinks:
    """All shared links by name, in `by_name`, and the shared parts of routes."""

    def __init__(
        self,
        env: simpy.Environment,
        nodes: Nodes,
        model: NetworkModel,
        specs: Mapping[str, LinkSpec],
        overflows: Draws,
        *,
        meshed: bool,
    ) -> None:
        """Make the links; `meshed` if a route may cross several of them.  `overflows` are draws for full queues."""
        self._nodes, self._model, self._overflows = nodes, model, overflows
        self._mesh = Mesh(env)
        self._rates = {name: math.inf if spec.rate is None else spec.rate / BITS for name, spec in specs.items()}
        self.by_name: dict[str, Link | MeshLink] = {}
        for name, spec in specs.items():
            capacity = model.capacity(self._rates[name])
            make = self._mesh.link if meshed else partial(Link, env)
            self.by_name[name] = make(capacity, spec.buffer, spec.burst)
        self._routes: dict[tuple[str, ...], SharedRoute] = {}
        self._access: dict[tuple[int, bool], MeshLink] = {}

    def over(self, route: Route) -> SharedRoute:
        """Return the shared part of a route."""
        if route.links not in self._routes:
            slowest = min((self._rates[name] for name in route.links), default=math.inf)
            links = tuple(self.by_name[name] for name in route.links)
            plain = [link for link in links if isinstance(link, Link)]  # one, where routes cross a single link
            pool = plain[0] if plain else self._mesh.pool([link for link in links if isinstance(link, MeshLink)])
            self._routes[route.links] = SharedRoute(pool, links, slowest, self._overflows)
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

    def _access_link(self, client: int, upload: bool) -> MeshLink:
        if (client, upload) not in self._access:
            capacity = self._model.capacity(float(self._nodes.rates.current[upload][client]) / BITS)
            self._access[client, upload] = self._mesh.link(capacity, *self._nodes.queueing(client, upload))
        return self._access[client, upload]

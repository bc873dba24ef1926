"""Tree: edge aggregators stand between the clients and the server."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.record import SERVER
from fedsim.core.units import Count, Rate, Seconds
from fedsim.net.topology import Layout, LinkSpec, Route, Topology, edge_node, edge_number


@dataclass(frozen=True)
class Tree(Topology):
    """Each client has one edge aggregator, which has a link of its own to the server.

    A message between client and server is relayed by the edge on one TCP connection from end to end; client and edge,
    edge and server can also talk with one another.  Edges are always online and lose nothing.  A client's latency is
    that to its edge.  The links are "edge 0 ingress" and "edge 0 egress" towards the clients, "edge 0 uplink" and
    "edge 0 downlink" towards the server, and so on for each edge.  Not modelled: more than one level of edges, clients
    that change their edge, edges that talk with one another.
    """

    edges: Count  # number of edge aggregators
    uplink: Rate  # from each edge to the server
    downlink: Rate  # from the server to each edge
    latency: Seconds  # between edge and server, one way
    assign: Literal["contiguous", "round_robin", "random"] = "contiguous"  # of clients to edges, in equal numbers
    ingress: Rate | None = None  # capacity that an edge's clients share for uploads; null: unlimited
    egress: Rate | None = None  # the same for downloads

    has_edges: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise ValueError for a latency that is negative or not finite, and for rates that are not above 0."""
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise ValueError(f"tree: option 'latency' is {self.latency} s; it must be finite and not negative")
        for name in ("uplink", "downlink", "ingress", "egress"):
            rate = getattr(self, name)
            if rate is not None and not (math.isfinite(rate) and rate > 0):
                raise ValueError(f"tree: option '{name}' is {rate} bit/s; it must be finite and above 0")

    def lay(self, clients: int, rng: np.random.Generator) -> Layout:
        """Return the layout; ScenarioError if an edge would have no client."""
        if self.edges > clients:
            message = (
                f"there are {self.edges} edges for {clients} clients; give at most {clients}, so that each has a client"
            )
            raise ScenarioError([Problem("network.topology.edges", message)])
        links = {}
        for edge in range(self.edges):
            links[f"edge {edge} ingress"] = LinkSpec(self.ingress)
            links[f"edge {edge} uplink"] = LinkSpec(self.uplink)
            links[f"edge {edge} downlink"] = LinkSpec(self.downlink)
            links[f"edge {edge} egress"] = LinkSpec(self.egress)
        return _Tree(clients, links, self.edges, ASSIGN[self.assign](clients, self.edges, rng).tolist(), self.latency)


def _contiguous(clients: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    return np.arange(clients) * edges // clients


def _round_robin(clients: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    return np.arange(clients) % edges


def _random(clients: int, edges: int, rng: np.random.Generator) -> np.ndarray:
    return rng.permutation(_round_robin(clients, edges, rng))


ASSIGN: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "contiguous": _contiguous,
    "round_robin": _round_robin,
    "random": _random,
}


class _Tree(Layout):
    def __init__(
        self, clients: int, links: dict[str, LinkSpec], edges: int, edge_of: list[int], latency: float
    ) -> None:
        super().__init__(clients, links, edges)
        self._edge_of, self._latency = edge_of, latency

    def route(self, src: int, dst: int) -> Route:
        if self.is_client(src):
            edge = self._edge_of[src]
            if dst == SERVER:
                return Route(src, (f"edge {edge} ingress", f"edge {edge} uplink", "ingress"), None, self._latency)
            if dst == edge_node(edge):
                return Route(src, (f"edge {edge} ingress",), None)
        elif self.is_client(dst):
            edge = self._edge_of[dst]
            if src == SERVER:
                return Route(None, ("egress", f"edge {edge} downlink", f"edge {edge} egress"), dst, self._latency)
            if src == edge_node(edge):
                return Route(None, (f"edge {edge} egress",), dst)
        elif dst == SERVER and 0 <= edge_number(src) < self.edges:
            return Route(None, (f"edge {edge_number(src)} uplink", "ingress"), None, self._latency)
        elif src == SERVER and 0 <= edge_number(dst) < self.edges:
            return Route(None, ("egress", f"edge {edge_number(dst)} downlink"), None, self._latency)
        raise ValueError(
            f"there is no route from {src} to {dst}: in a tree a client (0 to {self.clients - 1}) talks with its edge "
            f"and the server ({SERVER}), and an edge ({edge_node(self.edges - 1)} to {edge_node(0)}) with the server"
        )

    def edge_of(self, client: int) -> int:
        if not self.is_client(client):
            raise ValueError(f"there is no client {client}: they are numbered from 0 to {self.clients - 1}")
        return edge_node(self._edge_of[client])

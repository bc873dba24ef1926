"""Tree: edge aggregators stand between the clients and the server."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from fedsim.core.errors import ScenarioError
from fedsim.core.record import SERVER
from fedsim.core.units import Count, Rate, Seconds
from fedsim.net.topology import Layout, LinkSpec, Route, Topology, edge_node, edge_number


@dataclass(frozen=True)
class EdgeTree(Topology):
    """Each client has one edge aggregator, which has a link of its own to the server.

    A message between client and server is relayed by the edge on one TCP connection from end to end; client
    and edge, edge and server can also talk with one another.  Edges are always online and lose nothing.  A
    client's latency is that to its edge.  The links are "edge 0 ingress" and "edge 0 egress" towards the
    clients, "edge 0 uplink" and "edge 0 downlink" towards the server, and so on for each edge.  Not modelled:
    more than one level of edges, clients that change their edge, edges that talk with one another.
    """

    edges: Count  # number of edge aggregators
    uplink: Rate  # from each edge to the server
    downlink: Rate  # from the server to each edge
    latency: Seconds  # between edge and server, one way
    assign: Literal["contiguous", "round_robin", "random"] = "contiguous"  # of clients to edges, in equal numbers
    ingress: Rate | None = None  # capacity that an edge's clients share for uploads; null: unlimited
    egress: Rate | None = None  # the same for downloads

    has_edges: ClassVar[bool] = True

    def lay(self, clients: int, rng: np.random.Generator) -> Layout:
        """Return the layout; ScenarioError if an edge would have no client."""
        if self.edges > clients:
            message = (
                f"there are {self.edges} edges for {clients} clients; give at most {clients}, so that each has a client"
            )
            raise ScenarioError.at("network.topology.edges", message)
        rates = {"ingress": self.ingress, "uplink": self.uplink, "downlink": self.downlink, "egress": self.egress}
        links = {f"edge {edge} {way}": LinkSpec(rates[way]) for edge in range(self.edges) for way in rates}
        numbers = np.arange(clients)
        edge_of = numbers * self.edges // clients if self.assign == "contiguous" else numbers % self.edges
        if self.assign == "random":
            edge_of = rng.permutation(edge_of)
        return _Tree(clients, links, self.edges, edge_of.tolist(), self.latency)


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

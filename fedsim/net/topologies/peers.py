"""Peers: clients communicate with their neighbours in a graph, without a server."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from fedsim.core.arrays import Ints
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.units import Count, Fraction, nearest
from fedsim.net.measurements import graphs
from fedsim.net.topology import Layout, Route, Topology

OPTIONS = {"ring": ("degree",), "regular": ("degree",), "erdos_renyi": ("degree", "p"), "barabasi_albert": ("m",)}


@dataclass(frozen=True)
class Peers(Topology):
    """Neighbours send directly to each other, over the sender's uplink and the receiver's downlink.

    The graph is `ring` (each client with its `degree` nearest, by number), `regular` (each client with
    `degree` others at random; drawn again until it is connected), `erdos_renyi` (each pair with probability
    `p`, or with the one that gives a mean `degree`; drawn again until it is connected), `barabasi_albert`
    (each new client connects to `m` existing ones, in proportion to their degrees), or a CSV file of edges
    with the columns a and b.  It must be connected.  Latency and jitter of both ends add up; losses at both
    ends are independent.  Not modelled: graphs that change, links between networks, messages that are
    relayed.
    """

    graph: str  # ring, regular, erdos_renyi, barabasi_albert, or a file
    degree: Count | None = None  # neighbours per client (ring: 2 by default; regular), or their mean (erdos_renyi)
    p: Fraction | None = None  # probability of an edge between two clients (erdos_renyi)
    m: Count | None = None  # edges that each new client adds (barabasi_albert)

    has_server: ClassVar[bool] = False
    has_peers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise ValueError if the graph is neither known nor a file, and for options that it does not have."""
        if self.graph not in OPTIONS and not os.path.isfile(self.graph):
            near = nearest(self.graph, OPTIONS)
            raise ValueError(
                f"peers: option 'graph' is {self.graph!r}, which is neither one of {', '.join(OPTIONS)} nor a file"
                + (f"; did you mean {near!r}?" if near else "")
            )
        own = OPTIONS.get(self.graph, ())
        for name in ("degree", "p", "m"):
            if getattr(self, name) is not None and name not in own:
                has = f"it has {' or '.join(own)}" if own else "a file needs none"
                raise ValueError(f"peers: the graph {self.graph!r} has no option '{name}'; {has}")
        if self.graph == "ring" and self.degree is not None and self.degree % 2:
            raise ValueError(f"peers: option 'degree' is {self.degree}; in a ring it must be even, half on either side")
        if self.graph == "regular" and self.degree is None:
            raise ValueError("peers: the graph 'regular' needs 'degree', the neighbours of each client")
        if self.graph == "erdos_renyi" and (self.degree is None) == (self.p is None):
            raise ValueError("peers: the graph 'erdos_renyi' needs either 'p' or 'degree', not both")
        if self.graph == "barabasi_albert" and self.m is None:
            raise ValueError("peers: the graph 'barabasi_albert' needs 'm', the edges that each client brings")

    def lay(self, clients: int, rng: np.random.Generator) -> Layout:
        """Return the layout; ScenarioError or UserError if this number of clients cannot be connected that way."""
        if clients < 2:
            raise ScenarioError.at("clients.count", f"there is {clients} client; peers need at least two")
        pairs = self._pairs(clients, rng)
        apart = graphs.apart(pairs, clients)
        if apart is not None:
            raise UserError(
                f"{self.graph}: the graph is not connected: nothing leads from client 0 to client {apart}; add an edge"
            )
        return _Peers(clients, graphs.neighbours(pairs, clients))

    def _pairs(self, clients: int, rng: np.random.Generator) -> Ints:
        match self.graph:
            case "ring":
                degree = self.degree or 2
                self._below("degree", degree, max(3, clients))
                return graphs.ring(clients, degree)
            case "regular":
                return self._regular(clients, self.degree or 0, rng)
            case "erdos_renyi":
                if self.degree is not None:
                    self._below("degree", self.degree, clients)
                p = self.p if self.degree is None else self.degree / (clients - 1)
                return self._drawn(clients, p or 0.0, rng)
            case "barabasi_albert":
                self._below("m", self.m or 0, clients)
                return graphs.barabasi_albert(clients, self.m or 0, rng)
            case _:
                return graphs.from_file(Path(self.graph), clients)

    def _regular(self, clients: int, degree: int, rng: np.random.Generator) -> Ints:
        self._below("degree", degree, clients)
        pairs = None if clients * degree % 2 else graphs.regular(clients, degree, rng)
        if pairs is None:
            message = f"no connected graph was found in which each of {clients} clients has {degree} neighbours; " + (
                "one of the two numbers must be even" if clients * degree % 2 else "take a higher degree"
            )
            raise ScenarioError.at("network.topology.degree", message)
        return pairs

    def _drawn(self, clients: int, p: float, rng: np.random.Generator) -> Ints:
        pairs = graphs.erdos_renyi(clients, p, rng)
        if pairs is None:
            name = "p" if self.degree is None else "degree"
            needed = math.log(clients) / (clients if self.degree is None else 1)
            message = (
                f"none of {graphs.DRAWS} graphs drawn for {clients} clients was connected; "
                f"raise it well above {needed:.2g}, or take the graph 'ring'"
            )
            raise ScenarioError.at(f"network.topology.{name}", message)
        return pairs

    def _below(self, name: str, value: int, clients: int) -> None:
        if value >= clients:
            message = f"{value} is too much for {clients} clients; it must be below their number"
            raise ScenarioError.at(f"network.topology.{name}", message)


class _Peers(Layout):
    def __init__(self, clients: int, neighbours: Sequence[tuple[int, ...]]) -> None:
        super().__init__(clients)
        self._neighbours = neighbours
        self._near = [frozenset(near) for near in neighbours]

    def route(self, src: int, dst: int) -> Route:
        if self.is_client(src) and dst in self._near[src]:
            return Route(src, (), dst)
        raise ValueError(
            f"there is no route from {src} to {dst}: among peers a client (0 to {self.clients - 1}) talks with its "
            "neighbours in the graph, and there is no server"
        )

    def neighbours(self, client: int) -> tuple[int, ...]:
        return self._neighbours[client]

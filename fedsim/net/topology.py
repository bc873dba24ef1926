"""The contract of a topology: which links there are, and the route that a message takes from one node to another.

A topology is a frozen dataclass of options; `lay` returns its `Layout` for a number of clients.  The server's
access link (`ingress`, `egress`) and the clients' access links are not part of it: they have their own keys
in a scenario.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

FIRST_EDGE = -2  # the node number of edge aggregator 0; the next is -3


@dataclass(frozen=True, slots=True)
class LinkSpec:
    """One direction of a shared link: bit/s (None: unlimited), buffer (bytes; None: derived), token bucket (bytes)."""

    rate: float | None
    buffer: float | None = None
    burst: float = 0.0


@dataclass(frozen=True, slots=True)
class Route:
    """The path from one node to another, link by link.

    `out` is the client whose uplink it begins on and `into` the client whose downlink it ends on, None if
    that end is no client; `links` are the names of the shared links between.  `latency` is in seconds, one
    way, and adds to those of the clients.
    """

    out: int | None
    links: tuple[str, ...]
    into: int | None
    latency: float = 0.0


class Layout(ABC):
    """A topology laid out for `clients` clients: its `links` by name, and its number of edge aggregators, `edges`."""

    def __init__(self, clients: int, links: Mapping[str, LinkSpec] | None = None, edges: int = 0) -> None:
        """Take the shared links, without the server's own."""
        self.clients, self.links, self.edges = clients, dict(links or {}), edges

    @abstractmethod
    def route(self, src: int, dst: int) -> Route:
        """Return the route from one node to another; ValueError if there is none."""

    def edge_of(self, client: int) -> int:
        """Return the node number of a client's edge aggregator; ValueError if there are none."""
        raise ValueError(f"client {client} has no edge aggregator: only the topology 'tree' has them")

    def neighbours(self, client: int) -> tuple[int, ...]:
        """Return the clients that a client can talk with, ascending; empty if clients talk with servers only."""
        return ()

    def is_client(self, node: int) -> bool:
        """Return whether a node number is a client's."""
        return 0 <= node < self.clients


class Topology(ABC):
    """A frozen dataclass of options, one file in `topologies/`."""

    has_server: ClassVar[bool] = True  # clients talk with the server (node -1)
    has_edges: ClassVar[bool] = False  # there are edge aggregators (nodes -2, -3, ...) between clients and server
    has_peers: ClassVar[bool] = False  # clients talk with their neighbours

    @abstractmethod
    def lay(self, clients: int, rng: np.random.Generator) -> Layout:
        """Return the layout for this number of clients, with everything random in it drawn from `rng`.

        Raises ScenarioError if the options do not fit that number.
        """


def edge_node(number: int) -> int:
    """Return the node number of the edge aggregator that is counted from 0."""
    return FIRST_EDGE - number


def edge_number(node: int) -> int:
    """Return the number (from 0) of the edge aggregator with this node number; negative if it is not one."""
    return FIRST_EDGE - node

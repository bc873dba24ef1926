"""The contract of a topology: which links there are, and how a message goes from one node to another.

A topology is a frozen dataclass of options; `lay` makes of it a `Layout` for so many clients.  The server's own access
link (`ingress`, `egress`) and the clients' access links are no part of it: they have keys of their own.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

FIRST_EDGE = -2  # the node number of edge aggregator 0; the next is -3


@dataclass(frozen=True, slots=True)
class Cable:
    """One direction of a shared link: bit/s (None: unlimited); bytes before it (None: from the rate); its tokens."""

    rate: float | None
    buffer: float | None = None
    burst: float = 0.0


@dataclass(frozen=True, slots=True)
class Route:
    """One way through the network, link by link.

    `out` is the client on whose uplink it begins and `into` the one on whose downlink it ends, None where that end is
    no client; `links` are the shared links between, by name.  `latency` is in seconds, one way, and comes on top of
    those of the clients.
    """

    out: int | None
    links: tuple[str, ...]
    into: int | None
    latency: float = 0.0


class Layout(ABC):
    """A topology laid out for `clients` clients: its links by name, in `cables`, and its `edges` edge aggregators."""

    def __init__(self, clients: int, cables: Mapping[str, Cable] | None = None, edges: int = 0) -> None:
        """Take the shared links beside the server's own."""
        self.clients, self.cables, self.edges = clients, dict(cables or {}), edges

    @abstractmethod
    def route(self, src: int, dst: int) -> Route:
        """Return the way from one node to another; ValueError where there is none."""

    def edge_of(self, client: int) -> int:
        """Return the node number of a client's edge aggregator; ValueError where there are none."""
        raise ValueError(f"client {client} has no edge aggregator: only the topology 'tree' has them")

    def neighbours(self, client: int) -> tuple[int, ...]:
        """Return the clients that a client can talk with, ascending; empty where clients talk with servers only."""
        return ()

    def is_client(self, node: int) -> bool:
        """Tell whether a node number is a client's."""
        return 0 <= node < self.clients


class Topology(ABC):
    """A frozen dataclass of options, one file in `topologies/`."""

    has_server: ClassVar[bool] = True  # clients talk with the server (node -1)
    has_edges: ClassVar[bool] = False  # there are edge aggregators (nodes -2, -3, ...) between clients and server
    has_peers: ClassVar[bool] = False  # clients talk with their neighbours

    @abstractmethod
    def lay(self, clients: int, rng: np.random.Generator) -> Layout:
        """Return the layout for so many clients, with all that is random in it drawn from `rng`.

        Raises ScenarioError where the options do not fit that many clients.
        """


def edge_node(number: int) -> int:
    """Return the node number of the edge aggregator that is counted from 0."""
    return FIRST_EDGE - number


def edge_number(node: int) -> int:
    """Return which edge aggregator, from 0, a node number is; negative if it is none."""
    return FIRST_EDGE - node

"""The contract of a topology: which links there are, and how a message goes from one node to another."""

from abc import ABC
from typing import ClassVar


class Topology(ABC):
    """A frozen dataclass of options, one file in `topologies/`."""

    has_server: ClassVar[bool] = True  # clients talk with the server (node -1)
    has_edges: ClassVar[bool] = False  # there are edge aggregators (nodes -2, -3, ...) between clients and server
    has_peers: ClassVar[bool] = False  # clients talk with their neighbours

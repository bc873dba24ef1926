"""What clients see of graphs on which they are scored, and what they exchange for that (`Algorithm.sees_all`).

For a graph of a later period this stands for the exchange that a prediction on it requires.  Nothing is sent and no
time passes: its bytes are written beside the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedsim.core.wire import Tree

if TYPE_CHECKING:
    from fedsim.data.graph import Graph


@dataclass(frozen=True, eq=False)
class Sight:
    """A graph on which a client's model is about to be scored.

    `period` is the number of the graph's own period, which may be later than the client's; `params` are the model's,
    `state` is the server's, and `memory` the client's, read-only.  `met` is the client's period for which the graph is
    scored, an earlier one where the algorithm `recalls`; None: its latest.
    """

    client: int
    period: int
    graph: Graph
    params: Tree
    state: Mapping[str, Any]
    memory: Mapping[str, Any]
    met: int | None = None


@dataclass(frozen=True, eq=False)
class Seen:
    """The graph of a `Sight` with what the client knows of it, and the bytes that the client exchanges to know it."""

    graph: Graph
    up: int = 0
    down: int = 0

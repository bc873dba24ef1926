"""What a module's forward pass takes: a + b rows + c edges, fitted to three sizes of one client's data.

The operations of each size are counted while they run (`operations.py`).  A module may state them itself in a method
`flops(rows, edges)`.  Not modelled: work that grows faster than rows and edges, such as attention between all rows.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from fedsim.data.graph import Graph, graph_of, take_rows
from fedsim.learn.modules.operations import counted

ROWS = 16  # of the smallest size that is counted


class PassCosts:
    """The cost of one forward pass, counted once a run."""

    def __init__(self, module: nn.Module, sample: Graph, call: Callable[[Graph], Any]) -> None:
        """Count the module's passes over graphs made of the sample's rows."""
        self._stated = getattr(module, "flops", None)
        self._module, self._sample, self._call = module, sample, call
        self._terms: tuple[float, float, float] | None = None

    def of(self, graph: Graph) -> float:
        """Return the operations of one forward pass over this graph."""
        rows, edges = len(graph["y"]), graph["edges"].shape[1]
        if not rows:
            return 0.0
        if callable(self._stated):
            return float(self._stated(rows, edges))
        if self._terms is None:
            self._terms = self._fitted(self._sample)
        once, a_row, an_edge = self._terms
        return max(0.0, once + a_row * rows + an_edge * edges)

    def _fitted(self, graph: Graph) -> tuple[float, float, float]:
        few, more = self._counted(graph, ROWS, 0), self._counted(graph, 2 * ROWS, 0)
        linked = self._counted(graph, ROWS, ROWS)
        a_row = (more - few) / ROWS
        return few - a_row * ROWS, a_row, (linked - few) / ROWS

    def _counted(self, graph: Graph, rows: int, edges: int) -> float:
        """Return the operations on so many rows of the graph, repeated where it has fewer, and edges in a ring."""
        device = graph["y"].device
        places = torch.arange(rows, device=device) % len(graph["y"])
        ring = torch.arange(edges, device=device)
        ends = torch.stack([ring, (ring + 1) % rows])
        sized = graph_of(take_rows(graph["x"], places), ends, graph["y"][places])
        if "edge_attr" in graph:
            sized["edge_attr"] = graph["edge_attr"].new_zeros(edges, graph["edge_attr"].shape[1])
        if "edge_weight" in graph:
            sized["edge_weight"] = graph["edge_weight"].new_ones(edges)
        self._module.eval()
        return counted(lambda: self._call(sized))

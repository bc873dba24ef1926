"""A GCN whose first layer's sums over neighbours are computed before training (FedGCN: Yao et al., NeurIPS 2023).

    h = dropout(relu((A X) W₁ + b₁)),  then  A h W + b  a layer

with A the adjacency with self-loops, weighted by `norm`.  The graph's `x` is A X; if surrounding vertices are given
too, with `degree`, later layers sum over the larger graph's neighbourhoods at the vertices whose own are complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from fedsim.data.graph import Graph
from fedsim.learn import layout, ops
from fedsim.learn.convolution import Norm, aggregate
from fedsim.learn.model import Model, glorot
from fedsim.learn.snapshots import places, spread

Received = Mapping[str, Any]  # what a client has received or sent, by name


@dataclass(frozen=True)
class SummedGCN(Model):
    """Glorot weights, zero biases, as in `models/gcn.py`."""

    norm: Norm = "sym"

    def layer_init(self, inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
        """Return weight (F, H) and bias (H,)."""
        return {"weight": glorot(inputs, outputs, generator), "bias": torch.zeros(outputs)}

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Transform, and propagate unless h are the features."""
        moved = ops.linear(h, params["weight"], graph)
        summed = moved if h is graph["x"] else aggregate(moved, graph, self.norm)
        return summed + ops.by_row(params["bias"], graph)

    def layer_flops(self, vertices: int, edges: int, nonzeros: int, inputs: int, outputs: int) -> float:
        """Two operations a multiply-add: the product with the weights, and each edge and self-loop."""
        return 2.0 * nonzeros * outputs + 2.0 * (edges + vertices) * outputs

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of one forward pass, the first layer's without its edges."""
        first = self.widths(graph["x"].shape[1], classes)[1]
        edges = graph["edges"].shape[1] + len(graph["y"])
        return super().flops(graph, classes) - 2.0 * edges * first


def weighed(rows: Tensor, degree: Tensor, norm: Norm, end: str) -> Tensor:
    """Return rows (N, F) times A's weights at the `source` or the `target` of an edge.

    `sym` is d^-1/2 at both ends, `mean` 1/d at the target, `sum` 1; degrees (N,) count the vertex itself.
    """
    if norm == "sum" or (norm == "mean" and end == "source"):
        return rows
    size = degree.clamp(min=1).to(rows.dtype).unsqueeze(1)
    return rows * size.rsqrt() if norm == "sym" else rows / size


def local_sums(x: Tensor, degree: Tensor, graph: Graph, norm: Norm) -> Tensor:
    """Return the sums (N, F) over neighbours in this graph and the vertex itself, not yet weighted at the target."""
    return ops.propagate(weighed(x, degree, norm, "source"), graph, "closed")


def local_degree(graph: Graph) -> Tensor:
    """Return the number (N,) of each vertex's neighbours in this graph, itself included."""
    return layout.of(graph).degree


def nothing(vertices: Tensor, x: Tensor) -> Received:
    """Return what a client has received before the first message."""
    none = {"others": x[:0], "halo": x[:0], "count": x.new_zeros(0), "degree": x.new_zeros(0)}
    return {**none, "own": vertices[:0], "edges": vertices.new_zeros(2, 0)}


def total(uploads: Sequence[Received], wanted: Tensor) -> Tensor:
    """Return the sums (w, F) of all uploads' rows at these vertices (w,)."""
    width = uploads[0]["rows"].shape[1]
    found: Tensor = uploads[0]["rows"].new_zeros(len(wanted), width)
    for one in uploads:
        n = len(one["own"])
        found = found + spread(wanted, (one["own"], one["rows"][:n])) + spread(wanted, (one["ids"], one["rows"][n:]))
    return found


def widened(graph: Graph, sums: Tensor, degree: Tensor, received: Received) -> Graph:
    """Return the graph with vertices elsewhere behind its own, joined to them by edges that lead here."""
    n, more = len(sums), len(received["halo"])
    place, there = places(graph["vertex"], received["edges"][1])
    across = torch.stack([n + received["edges"][0], place])[:, there]
    none = torch.zeros(more, dtype=torch.bool, device=sums.device)
    zeros = none.long()
    return Graph(
        x=torch.cat([sums, received["halo"]]),
        edges=torch.cat([graph["edges"], across], 1),
        y=torch.cat([graph["y"], zeros]),
        train=torch.cat([graph["train"], none]),
        val=torch.cat([graph["val"], none]),
        test=torch.cat([graph["test"], none]),
        client=torch.cat([graph["client"], zeros]),
        sizes=graph["sizes"] + more,
        degree=torch.cat([degree, received["degree"]]),
    )

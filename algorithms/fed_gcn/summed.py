"""A GCN whose first layer's sums over neighbours are computed before training (FedGCN: Yao et al., NeurIPS 2023).

    h = dropout(relu((A X) W₁ + b₁)),  then  A h W + b  a layer

with A the adjacency with self-loops, weighted by `norm`.  The graph's `x` is A X; if surrounding nodes are given
too, with `degree`, later layers sum over the larger graph's neighbourhoods at the nodes whose own are complete.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.continual.snapshots import places, spread
from fedsim.learn.engine import ops
from fedsim.learn.layers.convolution import Norm, aggregate
from fedsim.learn.models.gcn import GCN

Received = Mapping[str, Any]  # what a client has received or sent, by name


@dataclass(frozen=True)
class SummedGCN(GCN):
    """A GCN whose first layer does not propagate."""

    norm: Norm = "sym"

    def layer(self, params: dict[str, Tensor], h: Tensor, graph: Graph) -> Tensor:
        """Transform, and propagate unless h are the features."""
        moved = ops.linear(h, params["weight"], graph)
        summed = moved if h is graph["x"] else aggregate(moved, graph, self.norm)
        return summed + ops.by_row(params["bias"], graph)

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of one forward pass, the first layer's without its edges."""
        first = self.widths(graph["x"].shape[1], classes)[1]
        return super().flops(graph, classes) - 2.0 * (graph["edges"].shape[1] + len(graph["y"])) * first


def weighed(rows: Tensor, degree: Tensor, norm: Norm, end: str) -> Tensor:
    """Return rows (N, F) times A's weights at the `source` or the `target` of an edge.

    `sym` is d^-1/2 at both ends, `mean` 1/d at the target, `sum` 1; degrees (N,) count the node itself.
    """
    if norm == "sum" or (norm == "mean" and end == "source"):
        return rows
    size = degree.clamp(min=1).to(rows.dtype).unsqueeze(1)
    return rows * size.rsqrt() if norm == "sym" else rows / size


def local_sums(x: Tensor, degree: Tensor, graph: Graph, norm: Norm) -> Tensor:
    """Return the sums (N, F) over neighbours in this graph and the node itself, not yet weighted at the target."""
    return ops.propagate(weighed(x, degree, norm, "source"), graph, "closed")


def nothing(nodes: Tensor, x: Tensor) -> Received:
    """Return what a client has received before the first message."""
    none = {"others": x[:0], "halo": x[:0], "count": x.new_zeros(0), "degree": x.new_zeros(0)}
    return {**none, "own": nodes[:0], "edges": nodes.new_zeros(2, 0)}


def total(uploads: Sequence[Received], wanted: Tensor) -> Tensor:
    """Return the sums (w, F) of all uploads' rows at these nodes (w,)."""
    sums: Tensor = uploads[0]["rows"].new_zeros(len(wanted), uploads[0]["rows"].shape[1])
    for upload in uploads:
        at_own, at_others = upload["rows"].tensor_split([len(upload["own"])])
        sums = sums + spread(wanted, (upload["own"], at_own)) + spread(wanted, (upload["ids"], at_others))
    return sums


def widened(graph: Graph, sums: Tensor, degree: Tensor, received: Received) -> Graph:
    """Return the graph with nodes elsewhere behind its own, joined to them by edges that lead here."""
    more, (place, known) = len(received["halo"]), places(graph["node"], received["edges"][1])
    across = torch.stack([len(sums) + received["edges"][0], place])[:, known]
    y, train, val, test, client = (F.pad(graph[name], (0, more)) for name in ("y", "train", "val", "test", "client"))
    x, edges = torch.cat([sums, received["halo"]]), torch.cat([graph["edges"], across], 1)
    sizes, degrees = graph["sizes"] + more, torch.cat([degree, received["degree"]])
    return Graph(x=x, edges=edges, y=y, train=train, val=val, test=test, client=client, sizes=sizes, degree=degrees)

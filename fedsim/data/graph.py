"""Graph: a plain tree of tensors, one client's graph or K clients' side by side.

A graph holds `x` (N, F) float32, dense or sparse CSR; `edges` (2, E) int64, source over target, both directions
of an undirected edge; `y` (N,) int64; the boolean masks `train`, `val`, `test` (N,); `client` (N,) int64, sorted,
whose each vertex is; `sizes` (K,) int64.  A dict and not a `torch_geometric.data.Data`, because it travels, is
hashed and is joined with others.  It models one static graph of one period: no edge weights, no edge features,
no timestamps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor


class Graph(TypedDict):
    """See the module's docstring; `seed` (K,) int64 is present while training and drives dropout."""

    x: Tensor
    edges: Tensor
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    client: Tensor
    sizes: Tensor
    seed: NotRequired[Tensor]
    arrived: NotRequired[Tensor]  # (N,) bool, of a snapshot of the whole graph: who is there by then
    layout: NotRequired[Any]  # what fedsim.learn.layout has derived from the rest; never travels


@dataclass(frozen=True)
class Period:
    """One stretch of a client's stream: its number from 0, and the graph that the client holds in it."""

    number: int
    graph: Graph

    @property
    def examples(self) -> int:
        """The vertices to train on."""
        return int(self.graph["train"].sum())


def graph_of(
    x: Tensor,
    edges: Tensor,
    y: Tensor,
    train: Tensor | None = None,
    val: Tensor | None = None,
    test: Tensor | None = None,
) -> Graph:
    """Return one client's graph; masks that are not given are empty."""
    n, device = len(y), y.device
    none = torch.zeros(n, dtype=torch.bool, device=device)
    return Graph(
        x=x if x.layout == torch.sparse_csr else x.float(),
        edges=edges.long(),
        y=y.long(),
        train=none if train is None else train,
        val=none if val is None else val,
        test=none if test is None else test,
        client=torch.zeros(n, dtype=torch.long, device=device),
        sizes=torch.tensor([n], device=device),
    )


def sparse_if_worth(x: Tensor, below: float = 0.2, wide: int = 64) -> Tensor:
    """Return x (N, F) as CSR where it is wide and less than that share of it non-zero, and as it is otherwise."""
    filled = int((x != 0).sum()) / max(1, x.numel())
    if filled >= below or x.shape[1] <= wide:
        return x.float()
    crow, column, value = _csr_parts(x.float())
    return csr(crow, column, value, tuple(x.shape))


def csr(crow: Tensor, column: Tensor, value: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a CSR tensor without torch's beta warning and without checking it again."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(crow, column, value, size=tuple(shape), check_invariants=False)


def _csr_parts(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    row, column = torch.nonzero(x, as_tuple=True)
    crow = torch.zeros(x.shape[0] + 1, dtype=torch.long)
    crow[1:] = torch.bincount(row, minlength=x.shape[0]).cumsum(0)
    return crow, column, x[row, column]


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return those rows of x, dense or CSR, in the order given."""
    if x.layout != torch.sparse_csr:
        return x[rows]
    crow, column, value = x.crow_indices(), x.col_indices(), x.values()
    start, count = crow[rows], crow[rows + 1] - crow[rows]
    new = torch.zeros(len(rows) + 1, dtype=torch.long, device=rows.device)
    new[1:] = count.cumsum(0)
    pick = torch.arange(int(new[-1]), device=rows.device) - torch.repeat_interleave(new[:-1] - start, count)
    return csr(new, column[pick], value[pick], (len(rows), x.shape[1]))


def under(parts: Sequence[Tensor]) -> Tensor:
    """Return features one below the other, all dense or all CSR of the same width."""
    if parts[0].layout != torch.sparse_csr:
        return torch.cat(list(parts))
    crow = [parts[0].crow_indices()]
    filled = 0
    for before, part in pairwise(parts):
        filled += before.values().numel()
        crow.append(part.crow_indices()[1:] + filled)
    column = torch.cat([part.col_indices() for part in parts])
    value = torch.cat([part.values() for part in parts])
    return csr(torch.cat(crow), column, value, (sum(part.shape[0] for part in parts), parts[0].shape[1]))


def induced(graph: Graph, vertices: np.ndarray | Tensor) -> Graph:
    """Return the subgraph on these vertices, numbered in the order given; edges that leave it are dropped."""
    rows = torch.as_tensor(np.asarray(vertices), dtype=torch.long)
    number = torch.full((len(graph["y"]),), -1, dtype=torch.long)
    number[rows] = torch.arange(len(rows))
    edges = number[graph["edges"]]
    edges = edges[:, (edges >= 0).all(0)]
    masks = [graph[name][rows] for name in ("train", "val", "test")]
    return graph_of(take_rows(graph["x"], rows), edges, graph["y"][rows], *masks)


def to_device(graph: Graph, device: str) -> Graph:
    """Return the graph on that device; the same graph where it is there already."""
    if graph["y"].device == torch.device(device):
        return graph
    return Graph(**{name: value.to(device) for name, value in graph.items() if name != "layout"})  # type: ignore[typeddict-item, attr-defined, no-any-return]


def with_masks(graph: Graph, train: Tensor, val: Tensor, test: Tensor) -> Graph:
    """Return the same graph (same tensors) with other masks."""
    return Graph(**{**graph, "train": train, "val": val, "test": test})

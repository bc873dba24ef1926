"""Graph: a plain tree of tensors, of one client's graph or of K clients' graphs side by side.

A graph holds `x` (N, F) float32, dense or sparse CSR; `edges` (2, E) int64, source over target, both directions
of an undirected edge; `y` (N,) int64; the boolean masks `train`, `val`, `test` (N,); `client` (N,) int64, sorted,
whose each vertex is; `sizes` (K,) int64.  Vertex pairs that a link predictor is scored on are `pairs` (2, P) int64,
`links` (P,) bool, whether the edge is there, and `asked` (P,) int8: 1 validates, 2 tests.  Where events are
predicted, `moments` (P,) are the seconds that pairs are asked about, and the graph holds the client's `events` so far
(`fedsim.data.event_pairs`).  A dict and not a `torch_geometric.data.Data`, because it is sent, hashed and joined with
others.  It models one static graph of one period: no edge weights, and no edge features but those of events.  A
snapshot of a graph that changes has further keys for its vertices (`VERTEX_KEYS`), and a whole graph that changes those
of `fedsim.data.temporal`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NotRequired, TypedDict

import numpy as np
import torch
from torch import Tensor


class Graph(TypedDict):
    """See the module's docstring; `seed` (K,) int64 is present while training and seeds everything drawn then."""

    x: Tensor
    edges: Tensor
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor
    client: Tensor
    sizes: Tensor
    seed: NotRequired[Tensor]
    vertex: NotRequired[Tensor]  # (N,) int64: the vertices' numbers in the whole graph
    pairs: NotRequired[Tensor]
    links: NotRequired[Tensor]
    asked: NotRequired[Tensor]
    moments: NotRequired[Tensor]  # (P,) float64: the seconds about which pairs are asked
    events: NotRequired[Tensor]  # (2, M) int64: rows of the ends of events, in order of time
    happened: NotRequired[Tensor]  # (M,) float64: their seconds, ascending at each client
    message: NotRequired[Tensor]  # (M, D) float: their features; of a whole graph: see fedsim.data.temporal
    fresh: NotRequired[Tensor]  # (M,) bool: those of the graph's own period, which are trained on
    taken: NotRequired[Tensor]  # (N,) bool, of places of sequences (learn/histories.py): those that hold something
    period: NotRequired[Tensor]  # (N,) int64: while scoring, the number of the period of the vertex's graph
    state: NotRequired[Tensor]  # (N, S) float: a recurrent model's state of every vertex; absent: zeros
    halo: NotRequired[Tensor]  # (N,) bool: vertices whose states are read, but never updated; absent: none
    degree: NotRequired[Tensor]  # (N,) float: neighbours in the whole graph, the vertex itself counted
    delta: NotRequired[Tensor]  # (N, F) float: delta1, delta2, … for the current layer
    delta1: NotRequired[Tensor]  # (N, F_1) float: correction of layer 1's sums over neighbours; absent: zeros
    delta2: NotRequired[Tensor]  # (N, F_2) float: the same for layer 2, and so on; absent: zeros
    far: NotRequired[Tensor]  # (N, F) float: sums over cut neighbours that layer 1 passes to layer 2
    target: NotRequired[Tensor]  # (N, H) float: the target of an embedding in distillation
    changed: NotRequired[Tensor]  # (N,) bool: own edges or features differ from the period before
    arrived: NotRequired[Tensor]  # (N,) bool, of a snapshot of the whole graph: vertices arrived by then
    since: NotRequired[Tensor]  # these and the next: see fedsim.data.temporal
    until: NotRequired[Tensor]
    span: NotRequired[Tensor]
    born: NotRequired[Tensor]
    frames: NotRequired[Tensor]
    framed: NotRequired[Tensor]
    bins: NotRequired[Tensor]
    layout: NotRequired[Any]  # derived from the rest by fedsim.learn.layout; never sent


VERTEX_KEYS = (
    "vertex",
    "changed",
    "state",
    "halo",
    "degree",
    "far",
    "target",
)  # one row per vertex, like all keys that begin with "delta"
ABSENT_IS_ZERO = ("state", "halo", "far", "target")  # absent means zeros, as for the deltas


def vertex_keys(graph: Iterable[str]) -> list[str]:
    """Return the optional keys of a graph with one row per vertex."""
    return [key for key in graph if key in VERTEX_KEYS or key.startswith("delta")]


@dataclass(frozen=True)
class Period:
    """One period of a client's stream: its number from 0, and the graph that the client holds in it.

    `ahead`: graphs of later periods that the observer scores in place of this one for the splits val and test; the
    client never sees them.
    """

    number: int
    graph: Graph
    ahead: tuple[Graph, ...] = ()

    def scored(self, split: str) -> tuple[Graph, ...]:
        """Return the graphs on which that split is scored."""
        return self.ahead if self.ahead and split != "train" else (self.graph,)

    @property
    def training_vertices(self) -> int:
        """The number of labelled vertices to train on."""
        return int(self.graph["train"].sum())


def graph_of(
    x: Tensor,
    edges: Tensor,
    y: Tensor,
    train: Tensor | None = None,
    val: Tensor | None = None,
    test: Tensor | None = None,
) -> Graph:
    """Return one client's graph; masks default to empty."""
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
    """Return x (N, F) as CSR if it has `wide` columns and a share of non-zeros below `below`, otherwise unchanged."""
    filled = int((x != 0).sum()) / max(1, x.numel())
    if filled >= below or x.shape[1] <= wide:
        return x.float()
    crow, column, value = _csr_parts(x.float())
    return csr(crow, column, value, tuple(x.shape))


def csr(crow: Tensor, column: Tensor, value: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a CSR tensor without torch's beta warning and its checks."""
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


def as_dense(x: Tensor) -> Tensor:
    """Return x, dense or CSR, as a dense tensor."""
    return x.to_dense() if x.layout == torch.sparse_csr else x


def under(parts: Sequence[Tensor]) -> Tensor:
    """Return features stacked by rows, all dense or all CSR of the same width."""
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
    """Return the subgraph on these vertices, numbered in the order given; edges that leave it are dropped.

    So are pairs
    """
    device = graph["y"].device
    rows = torch.as_tensor(vertices, dtype=torch.long, device=device)
    number = torch.full((len(graph["y"]),), -1, dtype=torch.long, device=device)
    number[rows] = torch.arange(len(rows), device=device)
    edges = number[graph["edges"]]
    edges = edges[:, (edges >= 0).all(0)]
    return part(graph, rows, edges)


def part(graph: Graph, rows: Tensor, edges: Tensor) -> Graph:
    """Return these vertices of a graph as one client's, with their rows and these edges."""
    masks = [graph[name][rows] for name in ("train", "val", "test")]
    own = graph_of(take_rows(graph["x"], rows), edges, graph["y"][rows], *masks)
    more = {name: graph[name][rows] for name in vertex_keys(graph)}  # type: ignore[literal-required]
    return with_keys(own, more) if more else own


def to_device(graph: Graph, device: str, moved: dict[int, Tensor] | None = None) -> Graph:
    """Return the graph on that device; the same graph where it is there already.

    With `moved`, a cache that is filled, graphs that share tensors share them there too; it must not outlive them.
    """
    if graph["y"].device == torch.device(device):
        return graph
    there = {} if moved is None else moved
    own: dict[str, Any] = {name: value for name, value in graph.items() if name != "layout"}
    for value in own.values():
        if id(value) not in there:
            there[id(value)] = value.to(device)
    return with_keys(Graph(**own), {name: there[id(value)] for name, value in own.items()})  # type: ignore[typeddict-item]


def with_keys(graph: Graph, keys: Mapping[str, Tensor]) -> Graph:
    """Return the same graph with some keys added or replaced."""
    return Graph(**{**graph, **keys})  # type: ignore[typeddict-item]


def with_masks(graph: Graph, train: Tensor, val: Tensor, test: Tensor) -> Graph:
    """Return the same graph (same tensors) with other masks."""
    return Graph(**{**graph, "train": train, "val": val, "test": test})

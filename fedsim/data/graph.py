"""Graph: a plain tree of tensors, of one client's graph or of K clients' graphs side by side.

A dict and not a `torch_geometric.data.Data`, because it is sent, hashed and joined with others.  It models
one static graph of one period; rows of data without edges are a graph without edges.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor


class Always(TypedDict):
    """The keys of every graph: N nodes, E entries of edges, K clients."""

    x: Tensor  # (N, F) float32, dense or sparse CSR; for modules rows may have any shape (N, ...)
    y: Tensor  # (N,) int64, below 0: unlabelled
    train: Tensor  # (N,) bool, as are `val` and `test`
    val: Tensor
    test: Tensor
    client: Tensor  # (N,) int64, sorted: whose each node is
    edges: Tensor  # (2, E) int64, source over target, both directions of an undirected edge
    sizes: Tensor  # (K,) int64: the nodes of each client


class Graph(Always, total=False):
    """A graph, with the keys of `Always` and those below where they apply."""

    # Rows of nodes, which go wherever these go (`node_keys`); so do delta1, delta2, and so on.
    node: Tensor  # (N,) int64: the nodes' numbers in the whole graph
    changed: Tensor  # (N,) bool: edges to nodes of the same client, or features, differ from the period before
    state: Tensor  # (N, S) float: a recurrent model's state of every node; absent: zeros
    halo: Tensor  # (N,) bool: nodes whose states are read, but never updated; absent: none
    degree: Tensor  # (N,) float: neighbours in the whole graph, the node itself counted
    far: Tensor  # (N, F) float: sums over cut neighbours that layer 1 passes to layer 2; absent: zeros
    target: Tensor  # (N, H) float: the target of an embedding in distillation; absent: zeros
    real: Tensor  # (N, T) float: real targets, where the data have no classes; then `y` is 0
    delta1: Tensor  # (N, F_1) float: correction of layer 1's sums over neighbours; absent: zeros
    delta2: Tensor  # (N, F_2) float: the same for layer 2, and so on; absent: zeros
    delta: Tensor  # (N, F) float: that of the layer which is computed now

    # Rows of entries of edges, which go wherever these go (`edge_keys`); for models that are torch modules.
    edge_attr: Tensor  # (E, D) float
    edge_weight: Tensor  # (E,) float

    # Rows of nodes that stay behind when nodes are taken.
    arrived: Tensor  # (N,) bool, of a snapshot of the whole graph: nodes arrived by then
    period: Tensor  # (N,) int64: while scoring, the number of the period of the node's graph
    taken: Tensor  # (N,) bool, of places of sequences (learn/pairs/histories.py): those that hold something

    # Pairs of nodes that a link predictor is scored on.
    pairs: Tensor  # (2, P) int64
    links: Tensor  # (P,) bool: whether the edge is there
    asked: Tensor  # (P,) int8: 1 validates, 2 tests
    moments: Tensor  # (P,) float64: where events are predicted, the seconds that pairs are asked about

    # Events so far, of a client's graph or a snapshot (fedsim/data/time/event_pairs.py).
    events: Tensor  # (2, M) int64: rows of the ends of events, in order of time
    happened: Tensor  # (M,) float64: their seconds, ascending at each client
    message: Tensor  # (M, D) float: their features; of a graph that changes: (E, D), those of the entries of edges
    fresh: Tensor  # (M,) bool: those of the graph's own period, which are trained on

    # A whole graph that changes (fedsim/data/time/temporal.py).
    since: Tensor  # (E,) float64: the second from which an entry of edges is there
    until: Tensor  # (E,) float64: the second until which it is; infinity: it is never removed
    span: Tensor  # (2,) float64: start and end of the recording
    born: Tensor  # (N,) float64: the second from which a node is there; absent: that of its first edge
    frames: Tensor  # (S, N, F) float32: the features that are in force, in place of `x`,
    framed: Tensor  # (S,) float64: from these seconds on
    bins: Tensor  # (F,) int64: lower bounds of degrees, if the features are one-hot codes of binned degrees

    # Neither sent nor kept.
    seed: Tensor  # (K,) int64, while training: seeds everything drawn then
    layout: Any  # derived from the rest by fedsim.learn.engine.layout


MASKS = ("train", "val", "test")
NODE_KEYS = ("node", "changed", "state", "halo", "degree", "far", "target", "real")  # and all that begin with "delta"
EDGE_KEYS = ("edge_attr", "edge_weight")
ABSENT_IS_ZERO = ("state", "halo", "far", "target")  # absent means zeros, as for the deltas


def node_keys(graph: Iterable[str]) -> list[str]:
    """Return the optional keys of a graph with one row per node."""
    return [key for key in graph if key in NODE_KEYS or key.startswith("delta")]


def edge_keys(graph: Mapping[str, Any], entries: Tensor) -> dict[str, Tensor]:
    """Return the optional keys of a graph with one row per entry of its edges, for these entries."""
    return {key: graph[key][entries] for key in EDGE_KEYS if key in graph}


def has_edge_keys(graph: Mapping[str, Any]) -> bool:
    """Return whether edges have attributes or weights."""
    return any(key in graph for key in EDGE_KEYS)


def places_of(entries: Tensor, edges: Tensor, nodes: int) -> Tensor:
    """Return the place (W,) of each entry (2, W) among edges (2, E) without repeats, -1 where it is none."""
    known, order = (edges[0] * nodes + edges[1]).sort()
    wanted = entries[0] * nodes + entries[1]
    place = torch.searchsorted(known, wanted).clamp(max=max(0, len(known) - 1))
    if not len(known):
        return torch.full_like(wanted, -1)
    return torch.where(known[place] == wanted, order[place], -1)


@dataclass(frozen=True)
class Period:
    """One period of a client's stream: its number from 0, and the graph that the client holds in it.

    `ahead`: graphs of later periods that the observer scores in place of this one for the splits val and
    test; the client never sees them.
    """

    number: int
    graph: Graph
    ahead: tuple[Graph, ...] = ()

    @property
    def training_nodes(self) -> int:
        """The number of labelled nodes to train on."""
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
    """Return x (N, F) as CSR if it is wide and its share of non-zeros is below `below`, else unchanged."""
    filled = int((x != 0).sum()) / max(1, x.numel())
    if x.ndim > 2 or filled >= below or x.shape[1] <= wide:
        return x.float()
    x = x.float()
    row, column = torch.nonzero(x, as_tuple=True)
    crow = F.pad(torch.bincount(row, minlength=len(x)).cumsum(0), (1, 0))
    return csr(crow, column, x[row, column], tuple(x.shape))


def csr(crow: Tensor, column: Tensor, value: Tensor, shape: Sequence[int]) -> Tensor:
    """Return a CSR tensor without torch's beta warning and its checks."""
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)", category=UserWarning)
        return torch.sparse_csr_tensor(crow, column, value, size=tuple(shape), check_invariants=False)


def take_rows(x: Tensor, rows: Tensor) -> Tensor:
    """Return those rows of x, dense or CSR, in the order given."""
    if x.layout != torch.sparse_csr:
        return x[rows]
    crow, column, value = x.crow_indices(), x.col_indices(), x.values()
    start, count = crow[rows], crow[rows + 1] - crow[rows]
    new = F.pad(count.cumsum(0), (1, 0))
    pick = torch.arange(int(new[-1]), device=rows.device) - torch.repeat_interleave(new[:-1] - start, count)
    return csr(new, column[pick], value[pick], (len(rows), x.shape[1]))


def as_dense(x: Tensor) -> Tensor:
    """Return x, dense or CSR, as a dense tensor."""
    return x.to_dense() if x.layout == torch.sparse_csr else x


def under(parts: Sequence[Tensor]) -> Tensor:
    """Return features of the same width stacked by rows: CSR if all are, else dense."""
    if any(part.layout != torch.sparse_csr for part in parts):
        return torch.cat([as_dense(part) for part in parts])
    counts = torch.cat([part.crow_indices().diff() for part in parts])
    column = torch.cat([part.col_indices() for part in parts])
    value = torch.cat([part.values() for part in parts])
    return csr(F.pad(counts.cumsum(0), (1, 0)), column, value, (len(counts), parts[0].shape[1]))


def induced(graph: Graph, nodes: np.ndarray | Tensor) -> Graph:
    """Return the subgraph on these nodes, numbered in this order; edges that leave it and pairs go."""
    device = graph["y"].device
    rows = torch.as_tensor(nodes, dtype=torch.long, device=device)
    number = torch.full((len(graph["y"]),), -1, dtype=torch.long, device=device)
    number[rows] = torch.arange(len(rows), device=device)
    edges = number[graph["edges"]]
    inside = (edges >= 0).all(0)
    return part(graph, rows, edges[:, inside], inside)


def numbers_among(nodes: Tensor, ends: Tensor) -> Tensor:
    """Return the places among these nodes of some ends of edges, of any shape; -1 for other nodes."""
    size = max((int(numbers.max()) + 1 for numbers in (nodes, ends) if numbers.numel()), default=0)
    place = torch.full((size,), -1, dtype=torch.long)
    place[nodes] = torch.arange(len(nodes))
    return place[ends]


def part(graph: Graph, rows: Tensor, edges: Tensor, entries: Tensor) -> Graph:
    """Return these nodes of a graph as one client's, with their rows and these edges, renumbered.

    `entries` are the places or a mask of these edges among those of the graph.
    """
    masks = [graph[name][rows] for name in MASKS]  # type: ignore[literal-required]
    taken = graph_of(take_rows(graph["x"], rows), edges, graph["y"][rows], *masks)
    of_nodes = {name: graph[name][rows] for name in node_keys(graph)}  # type: ignore[literal-required]
    return with_keys(taken, {**of_nodes, **edge_keys(graph, entries)})


def to_device(graph: Graph, device: str, moved: dict[int, Tensor] | None = None) -> Graph:
    """Return the graph on that device; the same graph where it is there already.

    With `moved`, a cache that is filled, graphs that share tensors share them there too; it must not outlive
    them.
    """
    if graph["y"].device == torch.device(device):
        return graph
    moved = {} if moved is None else moved
    tensors: dict[str, Any] = {name: value for name, value in graph.items() if name != "layout"}
    for name, value in tensors.items():
        if id(value) not in moved:
            moved[id(value)] = value.to(device)
        tensors[name] = moved[id(value)]
    return Graph(**tensors)  # type: ignore[typeddict-item, no-any-return]


def with_keys(graph: Graph, keys: Mapping[str, Tensor]) -> Graph:
    """Return the same graph with some keys added or replaced."""
    return Graph(**{**graph, **keys})  # type: ignore[typeddict-item]


def with_masks(graph: Graph, train: Tensor, val: Tensor, test: Tensor) -> Graph:
    """Return the same graph (same tensors) with other masks."""
    return with_keys(graph, {"train": train, "val": val, "test": test})


def classes_of(graphs: Sequence[Graph]) -> int:
    """Return the number of classes over all these graphs: the largest label plus one."""
    return max((int(graph["y"].max()) + 1 for graph in graphs if len(graph["y"])), default=0)

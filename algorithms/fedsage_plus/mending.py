"""Graphs with nodes taken away, and with nodes put in: what a generator of neighbours learns from, and makes.

An impaired graph lacks some validation nodes; the generator learns to predict, for a node that remains, how many
of its neighbours are gone and what they were like.  A mended graph holds generated nodes after its own, each joined
both ways to the node that it was generated for, without a label and in no split.  Neighbours are in-neighbours,
which are all of them where edges stand in both directions.  Graphs of one client only, no client axis.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, graph_of, induced
from fedsim.learn.continual.replay import dense
from fedsim.learn.engine import layout
from fedsim.learn.task import Task


class Impaired(NamedTuple):
    """A graph of N' nodes, its n training `rows`, and for each of these how many neighbours are gone, and which.

    `counts` (n,) float, at most M; `lost` (n, M, F), zero where `real` (n, M) is false; `reach` are the rows on whose
    generated neighbours a model of two layers depends at the training rows.
    """

    graph: Graph
    rows: Tensor
    counts: Tensor
    lost: Tensor
    real: Tensor
    reach: Tensor


def impaired(graph: Graph, share: float, most: int, generator: torch.Generator) -> Impaired:
    """Return the graph without ⌊share · n_val⌋ random validation nodes; the generator is the CPU's.

    Of more than `most` lost neighbours the first count.
    """
    val = graph["val"].nonzero().squeeze(1)
    order = torch.randperm(len(val), generator=generator).to(val.device)
    gone = torch.zeros_like(graph["val"])
    gone[val[order[: int(share * len(val))]]] = True
    number = torch.cumsum(~gone, 0) - 1
    damaged = induced(graph, (~gone).nonzero().squeeze(1))
    rows = damaged["train"].nonzero().squeeze(1)
    source, target = graph["edges"]
    across = gone[source] & graph["train"][target]
    pairs = torch.unique(torch.stack([number[target[across]], source[across]]), dim=1)
    return Impaired(damaged, rows, *_lost(graph, rows, pairs, most), reach(damaged))


def _lost(graph: Graph, rows: Tensor, pairs: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, lost features and which are real, from sorted pairs (row that has stayed, node that is gone)."""
    place = torch.searchsorted(rows, pairs[0].contiguous())
    counts = torch.bincount(place, minlength=len(rows))
    rank = torch.arange(len(place), device=place.device) - (counts.cumsum(0) - counts)[place]
    first = rank < most
    counts = counts.clamp(max=most)
    lost = torch.zeros(len(rows), most, graph["x"].shape[1], device=rows.device)
    lost[place[first], rank[first]] = dense(graph, pairs[1][first])
    return counts.float(), lost, torch.arange(most, device=rows.device) < counts.unsqueeze(1)


def reach(graph: Graph) -> Tensor:
    """Return the training nodes and their neighbours, in order."""
    near = graph["train"].clone()
    source, target = graph["edges"]
    near[source[graph["train"][target]]] = True
    return near.nonzero().squeeze(1)


def mended(graph: Graph, x: Tensor, owner: Tensor) -> Graph:
    """Return the graph, its features dense, with nodes x (M, F) after its own, joined to `owner` (M,) both ways."""
    n, more = len(graph["y"]), len(x)
    new = torch.arange(n, n + more, device=x.device)
    edges = torch.cat([graph["edges"], torch.stack([new, owner]), torch.stack([owner, new])], dim=1)
    rows = [F.pad(graph[name], (0, more)) for name in ("y", "train", "val", "test")]
    return graph_of(torch.cat([as_dense(graph["x"]), x]), edges, *rows)


def extends(larger: Graph, graph: Graph) -> bool:
    """Return whether the larger graph was made from this one by `mended`; of graphs of one client, edges tell.

    It was not if it lacks something that this one has: `mended` knows nothing of snapshots.
    """
    first, edges = graph["edges"], larger["edges"]
    if graph.keys() - larger.keys() - {"layout"} or edges.shape[1] < first.shape[1]:
        return False
    same_edges = torch.equal(edges[:, : first.shape[1]], first)
    return same_edges and torch.equal(larger["y"][: len(graph["y"])], graph["y"])


def unmended(graph: Graph) -> Graph:
    """Return the graph as `mended` does, with nothing put in."""
    return mended(graph, as_dense(graph["x"])[:0], graph["y"][:0])


def flops(task: Task, graph: Graph, share: float, most: int) -> float:
    """Return the operations of a training step on a mended graph of the expected size."""
    nodes, edges = len(graph["y"]), graph["edges"].shape[1]
    new = min(most * nodes, edges * int(share * int(graph["val"].sum())) / max(1, nodes))
    nonzeros, total = layout.of(graph).nonzeros + new * task.features, 0.0
    for inputs, outputs in pairwise(task.model.widths(task.features, task.outputs)):
        sizes = nodes + new, edges + 2 * new, nonzeros  # on average, hence not whole
        total += task.model.layer_flops(*sizes, inputs, outputs)  # type: ignore[arg-type]
        nonzeros = (nodes + new) * outputs
    return 3 * total


def strangers(graph: Graph, count: int, most: int, generator: torch.Generator) -> Tensor:
    """Return the features (count, most, F) of random neighbours of random nodes that have some.

    There is one edge at least.  The generator is the CPU's.
    """
    near = layout.of(graph).matrix("sum").rows
    crow, column = near.crow.long(), near.column.long()
    degree = crow.diff()
    some = degree.nonzero().squeeze(1)
    nodes = some[torch.randint(len(some), (count,), generator=generator).to(some.device)].unsqueeze(1)
    drawn = torch.rand(count, most, generator=generator).to(some.device)
    place = (drawn * degree[nodes]).long().clamp(max=degree[nodes] - 1)
    return dense(graph, column[crow[nodes] + place].flatten()).view(count, most, -1)

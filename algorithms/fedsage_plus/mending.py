"""Graphs with vertices taken away, and with vertices put in: what a generator of neighbours learns from, and makes.

An impaired graph lacks some validation vertices; the generator learns to predict, for a vertex that remains, how many
of its neighbours are gone and what they were like.  A mended graph holds generated vertices after its own, each joined
both ways to the vertex that it was generated for, without a label and in no split.  Neighbours are in-neighbours,
which are all of them where edges stand in both directions.  Graphs of one client only, no client axis.
"""

from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, graph_of, take_rows
from fedsim.learn import layout
from fedsim.learn.replay import dense
from fedsim.learn.task import Task


class Impaired(NamedTuple):
    """A graph of N' vertices, its n training `rows`, and for each of these how many neighbours are gone, and which.

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
    """Return the graph without ⌊share · n_val⌋ random validation vertices; the generator is the CPU's.

    Of more than `most` lost neighbours the first count.
    """
    val = graph["val"].nonzero().squeeze(1)
    order = torch.randperm(len(val), generator=generator).to(val.device)
    gone = torch.zeros_like(graph["val"])
    gone[val[order[: int(share * len(val))]]] = True
    kept = (~gone).nonzero().squeeze(1)
    number = torch.cumsum(~gone, 0) - 1
    source, target = graph["edges"]
    inside = ~gone[source] & ~gone[target]
    damaged = graph_of(
        take_rows(graph["x"], kept), number[graph["edges"][:, inside]], graph["y"][kept], graph["train"][kept]
    )
    rows = damaged["train"].nonzero().squeeze(1)
    across = gone[source] & graph["train"][target]
    pairs = torch.unique(torch.stack([number[target[across]], source[across]]), dim=1)
    return Impaired(damaged, rows, *_lost(graph, rows, pairs, most), reach(damaged))


def _lost(graph: Graph, rows: Tensor, pairs: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, lost features and which are real, from sorted pairs (row that has stayed, vertex that is gone)."""
    place = torch.searchsorted(rows, pairs[0].contiguous())
    counts = torch.bincount(place, minlength=len(rows))
    rank = torch.arange(len(place), device=place.device) - (counts.cumsum(0) - counts)[place]
    first = rank < most
    counts = counts.clamp(max=most)
    lost = torch.zeros(len(rows), most, graph["x"].shape[1], device=rows.device)
    lost[place[first], rank[first]] = dense(graph, pairs[1][first])
    return counts.float(), lost, torch.arange(most, device=rows.device) < counts.unsqueeze(1)


def reach(graph: Graph) -> Tensor:
    """Return the training vertices and their neighbours, in order."""
    near = graph["train"].clone()
    source, target = graph["edges"]
    near[source[graph["train"][target]]] = True
    return near.nonzero().squeeze(1)


def mended(graph: Graph, x: Tensor, owner: Tensor) -> Graph:
    """Return the graph, its features dense, with vertices x (M, F) after its own, joined to `owner` (M,) both ways."""
    own, device = graph["x"], x.device
    n, more = len(graph["y"]), len(x)
    new = torch.arange(n, n + more, device=device)
    edges = torch.cat([graph["edges"], torch.stack([new, owner]), torch.stack([owner, new])], dim=1)
    y = torch.cat([graph["y"], graph["y"].new_zeros(more)])
    none = torch.zeros(more, dtype=torch.bool, device=device)
    masks = [torch.cat([graph["train"], none]), torch.cat([graph["val"], none]), torch.cat([graph["test"], none])]
    whole = as_dense(own)
    return graph_of(torch.cat([whole, x]), edges, y, *masks)


def extends(larger: Graph, graph: Graph) -> bool:
    """Return whether the larger graph was made from this one by `mended`; of graphs of one client, edges tell.

    It was not if it lacks something that this one has: `mended` knows nothing of snapshots.
    """
    own, edges = graph["edges"], larger["edges"]
    if graph.keys() - larger.keys() - {"layout"}:
        return False
    if len(larger["y"]) < len(graph["y"]) or edges.shape[1] < own.shape[1]:
        return False
    return torch.equal(edges[:, : own.shape[1]], own) and torch.equal(larger["y"][: len(graph["y"])], graph["y"])


def unmended(graph: Graph) -> Graph:
    """Return the graph as `mended` does, with nothing put in."""
    device = graph["y"].device
    x = torch.zeros(0, graph["x"].shape[1], device=device)
    return mended(graph, x, torch.zeros(0, dtype=torch.long, device=device))


def flops(task: Task, graph: Graph, share: float, most: int) -> float:
    """Return the operations of a training step on a mended graph of the expected size."""
    vertices, edges = len(graph["y"]), graph["edges"].shape[1]
    hidden = int(share * int(graph["val"].sum()))
    new = min(most * vertices, edges * hidden / max(1, vertices))
    nonzeros, total = layout.of(graph).nonzeros + new * task.features, 0.0
    for inputs, outputs in pairwise(task.model.widths(task.features, task.outputs)):
        sizes = vertices + new, edges + 2 * new, nonzeros  # on average, hence not whole
        total += task.model.layer_flops(*sizes, inputs, outputs)  # type: ignore[arg-type]
        nonzeros = (vertices + new) * outputs
    return 3 * total


def strangers(graph: Graph, count: int, most: int, generator: torch.Generator) -> Tensor:
    """Return the features (count, most, F) of random neighbours of random vertices that have some.

    Raises ValueError for a graph without edges.  The generator is the CPU's.
    """
    if not graph["edges"].shape[1]:
        raise ValueError("a graph without edges has no neighbours to draw")
    near = layout.of(graph).total.rows
    crow, column = near.crow.long(), near.column.long()
    degree = crow.diff()
    some = degree.nonzero().squeeze(1)
    vertices = some[torch.randint(len(some), (count,), generator=generator).to(some.device)].unsqueeze(1)
    drawn = torch.rand(count, most, generator=generator).to(some.device)
    place = (drawn * degree[vertices]).long().clamp(max=degree[vertices] - 1)
    return dense(graph, column[crow[vertices] + place].flatten()).view(count, most, -1)

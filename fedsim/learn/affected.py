"""The part of a graph that a change reaches: what a client trains on instead of its whole graph (DG-CoLearn, 4.1).

Seeds are the vertices whose own edges or features have changed, ends of removed edges included (`changed`).  A model
of k layers spreads that over k edges.  Around the affected vertices stands a *halo* of one edge, whose cached states
are read and not updated: without it a vertex at the rim would lack neighbours.  Reusing states is exact only while
the weights stay as they are; by design it is an approximation.
"""

import torch
from torch import Tensor

from fedsim.data.graph import Graph, induced, with_keys, with_masks
from fedsim.learn import layout


def within(graph: Graph, seeds: Tensor, hops: int) -> Tensor:
    """Return which vertices (N,) are at most so many edges away from the seeds (N,), themselves included."""
    reached = seeds.clone()
    source, target = graph["edges"]
    for _ in range(hops):
        further = reached.clone()
        further[target[reached[source]]] = True
        if torch.equal(further, reached):
            break
        reached = further
    return reached


def near(graph: Graph, hops: int) -> Tensor:
    """Return which vertices (N,) a change reaches within so many edges; all of them where no change is noted."""
    changed = graph.get("changed")
    if changed is None:
        return torch.ones_like(graph["train"])
    found: Tensor = layout.once(graph, ("near", hops), (changed,), lambda: within(graph, changed, hops))
    return found


def part(graph: Graph, hops: int, *, halo: bool = True) -> tuple[Graph, Tensor]:
    """Return the affected part of a graph and the numbers (n,) of its vertices there, ascending.

    Without `halo` it is the subgraph induced by the affected vertices alone, as the paper has it.  Halo vertices are
    in no mask.
    """
    read = graph.get("changed"), graph["train"]
    found: tuple[Graph, Tensor] = layout.once(graph, ("part", hops, halo), read, lambda: _cut_out(graph, hops, halo))
    return found


def _cut_out(graph: Graph, hops: int, halo: bool) -> tuple[Graph, Tensor]:
    own = near(graph, hops)
    rows = (within(graph, own, 1) if halo else own).nonzero().squeeze(1)
    sub = induced(graph, rows)
    if halo:
        rim = ~own[rows]
        sub = with_masks(with_keys(sub, {"halo": rim}), *(sub[name] & ~rim for name in ("train", "val", "test")))
    return sub, rows

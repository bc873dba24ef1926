"""Two views of one graph, and how far a model's embeddings of one lie from another model's of the other.

A view lacks a random share of the edges and of the features: an edge is dropped with its reverse, and a feature for
all vertices.  Two distances (FGSSL, IJCAI 2023), h the model's that is trained, g the other's:

    semantic    −(1/n) Σᵢ (1/|Pᵢ|) Σ_{p∈Pᵢ} log softmax_j(cos(hᵢ, gⱼ) / τ)_p,   Pᵢ all j of i's class, i among them
    structural   (1/n) Σᵢ KL(Sᵢ(g) ‖ Sᵢ(h)),   Sᵢ(h) = softmax over i's neighbours j of cos(hᵢ, hⱼ) / τ

They are of one client at a time.  It models no edge weights.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.data.graph import Graph, csr, with_keys
from fedsim.learn.snapshots import bare


def view(graph: Graph, edges: float, features: float, generator: Generator) -> Graph:
    """Return one client's graph without these shares of its edges and of its features (0 to 1); labels stay."""
    shown = {"edges": fewer_edges(graph["edges"], len(graph["y"]), edges, generator)}
    keep = (torch.rand(graph["x"].shape[1], generator=generator) >= features).to(graph["x"].device)
    shown["x"] = masked(graph["x"], keep)
    return with_keys(bare(graph), shown)


def fewer_edges(edges: Tensor, n: int, share: float, generator: Generator) -> Tensor:
    """Return the edges (2, E) of n vertices that remain, an edge and its reverse being dropped together."""
    pairs, which = torch.unique(edges.amin(0) * n + edges.amax(0), return_inverse=True)
    keep = (torch.rand(len(pairs), generator=generator) >= share).to(edges.device)
    return edges[:, keep[which]]


def masked(x: Tensor, keep: Tensor) -> Tensor:
    """Return x (N, F), dense or CSR, with zeros in the columns that are not kept (F,)."""
    if x.layout != torch.sparse_csr:
        return x * keep
    return csr(x.crow_indices(), x.col_indices(), x.values() * keep[x.col_indices()], tuple(x.shape))


def semantic(h: Tensor, g: Tensor, y: Tensor, tau: float) -> Tensor:
    """Return the semantic distance () of embeddings h and g (n, H) of the same labelled vertices, labels y (n,)."""
    log_share = F.log_softmax(F.normalize(h, dim=1) @ F.normalize(g, dim=1).T / tau, dim=1)
    same = (y.unsqueeze(1) == y).to(log_share.dtype)
    return -((log_share * same).sum(1) / same.sum(1)).mean()


def structural(h: Tensor, g: Tensor, edges: Tensor, centres: Tensor, tau: float) -> Tensor:
    """Return the structural distance () of h and g (N, H) around the vertices that are centres (N,), bool.

    Edges (2, E) lead from neighbours to centres; loops do not count, and centres without a neighbour add nothing.
    """
    source, target = edges[:, centres[edges[1]] & (edges[0] != edges[1])]
    if not len(target):
        return h.new_zeros(())
    order = torch.argsort(target, stable=True)
    source, target = source[order], target[order]
    _, place, counts = torch.unique_consecutive(target, return_inverse=True, return_counts=True)
    of_g = _neighbours(g, source, target, place, counts, tau)
    of_h = _neighbours(h, source, target, place, counts, tau)
    return (of_g.exp() * (of_g - of_h)).sum() / len(counts)


def _neighbours(h: Tensor, source: Tensor, target: Tensor, place: Tensor, counts: Tensor, tau: float) -> Tensor:
    """Return log S (E,) for edges sorted by target, `counts` of them for each target."""
    unit = F.normalize(h, dim=1)
    above = ((unit[source] * unit[target]).sum(1) - 1) / tau  # never above 0
    total = torch.segment_reduce(above.exp(), "sum", lengths=counts)
    return above - total.log()[place]


def flops(labelled: int, edges: int, hidden: int) -> float:
    """Return the operations of both distances, forward only, by numbers of labelled vertices and edges."""
    return 2.0 * hidden * (labelled * labelled + 2.0 * edges)

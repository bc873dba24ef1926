"""Snapshots: a changing graph cut into windows of equal time or of as many events, and how two of them
differ.

A snapshot has all nodes of the whole graph with their numbers, and the edges that existed at some moment of
its window, once per direction.  `arrived` marks the nodes that have joined by its end, and `changed` those of
them that have joined, gained or lost an edge or got other features since the previous snapshot (all of them
in the first one).  Not modelled: how often or how long an edge existed within a window.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.dataset import edges_of
from fedsim.data.graph import Graph, graph_of, with_keys


def bounds_of(graph: Graph, steps: int | None, step: float | None, patch: int | None = None) -> Tensor:
    """Return the starts of the windows (s), and the last one's end: (T + 1,) float64.

    There are `steps` windows over the recording's span, or as many of `step` seconds as needed, or of `patch`
    events, of which those of one second stay together, in a later window.
    """
    if patch is not None:
        source, target = graph["edges"]
        times = graph["since"][source < target].sort().values
        starts = torch.unique(torch.cat([graph["span"][:1], times[patch::patch]]))
        return torch.cat([starts, graph["span"][1:]])
    start, end = graph["span"].tolist()
    if steps is not None:
        return torch.from_numpy(np.linspace(start, end, steps + 1))
    assert step is not None
    count = max(1, math.ceil((end - start) / step))
    latest = float(graph["since"].max()) if len(graph["since"]) else start
    count += latest >= start + count * step  # an event at the very end is in a window that starts there
    return torch.arange(count + 1, dtype=torch.float64).mul_(step).add_(start)


def snapshots_of(graph: Graph, bounds: Tensor, window: int = 1) -> list[Graph]:
    """Return the snapshots of a whole graph that changes; each has the edges of its last `window` windows.

    A window contains its start but not its end, except the last one, which contains both.
    """
    count, n = len(bounds) - 1, len(graph["y"])
    first, last = _lives(graph, bounds)
    born = _born(graph, first, bounds)
    pairs = graph["edges"][0] * n + graph["edges"][1]
    by_window = _at_once(first, count, window) if torch.equal(first, last) else None
    snapshots: list[Graph] = []
    for t in range(count):
        entries = (first <= t) & (last + window - 1 >= t) if by_window is None else by_window[t]
        snapshot = graph_of(graph["x"], edges_of(torch.unique(pairs[entries]), n), graph["y"])
        snapshot["x"] = _features(graph, snapshot["edges"], bounds[t + 1])
        snapshot |= {"node": torch.arange(n), "arrived": born <= t}
        snapshot |= {key: graph[key] for key in ("bins", "real") if key in graph}  # type: ignore[typeddict-item]
        snapshot["changed"] = snapshot["arrived"] & (_differing(snapshots[-1], snapshot) if snapshots else True)
        snapshots.append(snapshot)
    return snapshots


def _lives(graph: Graph, bounds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first and the last window (E,) of each entry of the edges."""
    latest = len(bounds) - 2
    first = (torch.searchsorted(bounds, graph["since"], right=True) - 1).clamp(0, latest)
    last = (torch.searchsorted(bounds, graph["until"]) - 1).clamp(0, latest)
    return first, torch.maximum(first, last)


def _at_once(first: Tensor, count: int, window: int) -> list[Tensor]:
    """Return the entries of edges that live in one window (E,), of each window and the `window` - 1 before.

    Their order is found once: millions of events would else be looked through for every window.
    """
    order = torch.argsort(first)
    starts = torch.searchsorted(first[order], torch.arange(count + 1)).tolist()
    return [order[starts[max(0, t - window + 1)] : starts[t + 1]] for t in range(count)]


def _born(graph: Graph, first: Tensor, bounds: Tensor) -> Tensor:
    """Return the window (N,) in which each node joins; the number of windows for one that never does."""
    count = len(bounds) - 1
    if "born" in graph:
        return (torch.searchsorted(bounds, graph["born"], right=True) - 1).clamp(0, count)
    return torch.full((len(graph["y"]),), count).scatter_reduce(0, graph["edges"][0], first, "amin")


def _features(graph: Graph, edges: Tensor, end: Tensor) -> Tensor:
    if "frames" in graph:
        return graph["frames"][max(0, int(torch.searchsorted(graph["framed"], end)) - 1)]
    return by_degree(graph["bins"], edges, len(graph["y"])) if "bins" in graph else graph["x"]


def by_degree(bins: Tensor, edges: Tensor, nodes: int) -> Tensor:
    """Return a one-hot code (N, F) of the last bound of `bins` (F,) that a node's number of edges reaches."""
    degree = torch.bincount(edges[1], minlength=nodes)
    return F.one_hot(torch.searchsorted(bins.to(degree.device), degree, right=True) - 1, len(bins)).float()


def _differing(before: Graph, now: Graph) -> Tensor:
    come = now["arrived"] & ~before["arrived"]
    return come | ends_of_changes(before["edges"], now["edges"], len(now["y"])) | refeatured(before, now)


def ends_of_changes(before: Tensor, now: Tensor, nodes: int) -> Tensor:
    """Return which nodes (N,) are ends of an edge in only one of the two lists, that is, added or removed."""
    old, new = ((edges[0] * nodes + edges[1]).numpy() for edges in (before, now))
    pairs = torch.from_numpy(np.setxor1d(old, new, assume_unique=True))
    touched = torch.zeros(nodes, dtype=torch.bool)
    touched[pairs // nodes] = True  # sources suffice, since both directions are listed
    return touched


def refeatured(before: Graph, now: Graph) -> Tensor:
    """Return which nodes (N,) have other features than before; binned degrees follow from the edges."""
    if before["x"] is now["x"] or "bins" in now:
        return torch.zeros(len(now["y"]), dtype=torch.bool)
    return (before["x"] != now["x"]).any(1)


def changed_locally(snapshots: Sequence[Graph], owners: Sequence[np.ndarray], t: int) -> Tensor:
    """Return which nodes (N,) have changed for their owner since the previous snapshot; all in the first one.

    An owner knows only the edges among its own nodes, and a node that had another owner is new to it.
    """
    now, n = snapshots[t], len(snapshots[t]["y"])
    if t == 0:
        return torch.ones(n, dtype=torch.bool)
    moved = torch.from_numpy(owners[t] != owners[t - 1])
    before, after = (inside(snapshots[at]["edges"], torch.from_numpy(owners[at])) for at in (t - 1, t))
    return moved | ends_of_changes(before, after, n) | refeatured(snapshots[t - 1], now)


def inside(edges: Tensor, owner: Tensor) -> Tensor:
    """Return the edges (2, E) whose ends have the same owner (N,), -1 for none."""
    source, target = (owner.index_select(0, end) for end in edges)
    return edges.index_select(1, ((source == target) & (source >= 0)).nonzero().squeeze(1))


def merged(snapshots: Sequence[Graph]) -> Graph:
    """Return the union of all snapshots' edges, with the last one's nodes and features."""
    last, n = snapshots[-1], len(snapshots[-1]["y"])
    pairs = torch.unique(torch.cat([snapshot["edges"][0] * n + snapshot["edges"][1] for snapshot in snapshots]))
    return with_keys(graph_of(last["x"], edges_of(pairs, n), last["y"]), {"arrived": last["arrived"]})


def flattened(graph: Graph) -> Graph:
    """Return a changing whole graph as a static one, with every edge that ever existed and the last features."""
    start, end = graph["span"]
    # just after the end, at which the last features hold
    bounds = torch.stack([start, end.nextafter(torch.tensor(math.inf))])
    (whole,) = snapshots_of(graph, bounds)
    flat = graph_of(whole["x"], whole["edges"], whole["y"], graph["train"], graph["val"], graph["test"])
    return with_keys(flat, {"real": graph["real"]}) if "real" in graph else flat

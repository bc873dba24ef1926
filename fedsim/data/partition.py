"""Partition: the owner of each vertex.

An implementation is a frozen dataclass of options, one file in `partitions/`.  It models clients that hold disjoint
sets of vertices; edges between clients are lost, and no vertex is shared.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np
import torch

from fedsim.core.errors import Problem, ScenarioError
from fedsim.data.graph import Graph, induced, part
from fedsim.data.windows import merged


class Partition(ABC):
    """A rule that gives every client its vertices."""

    @abstractmethod
    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's vertices (int64), in the order in which the client will number them.

        The order matters: some rules fix it, and a seeded split depends on it.  A vertex belongs to at most one client
        and no client is empty.

        Raises ScenarioError if the graph cannot be divided among that many clients.
        """

    def with_names(self, names: Callable[[], Sequence[str] | None]) -> "Partition":
        """Return the partition for vertices with these ids (`Dataset.names`); most ignore them."""
        return self

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return for each snapshot (of the whole graph) each client's vertices among those that have arrived by then.

        A client may have none.  Unless a partition says otherwise, vertices are assigned once, on the union of all
        snapshots, as if the future were known.
        Raises ScenarioError if the graph cannot be divided among that many clients.
        """
        ever = snapshots[-1]["arrived"].nonzero().squeeze(1).numpy()
        whole = induced(merged(snapshots), ever)
        lasting = [np.sort(ever[own]) for own in self.assign(whole, clients, rng)]
        there = [snapshot["arrived"].numpy() for snapshot in snapshots]
        return [[own[arrived[own]] for own in lasting] for arrived in there]

    def counted(
        self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator
    ) -> tuple[list[list[np.ndarray]], list[int] | None]:
        """Return what `follow` does and, for each snapshot, how many entries of adjacency rows that has read.

        The second is None if the partition does not count them; then its work takes no simulated time.
        """
        return self.follow(snapshots, clients, rng), None


def library(module: str, package: str, extra: str) -> Any:
    """Import and return a module of a package that comes with an extra of fedsim.

    Raises ValueError, which says how to install it, if the package is missing; partitions call it when they are built,
    so that the error comes before a run.
    """
    try:
        return import_module(module)
    except ImportError:
        remedy = f'pip install "fedsim[{extra}]", or pip install -e ".[{extra}]" in a checkout'
        raise ValueError(
            f"needs {package}, which is not installed: {remedy}, or take the partition 'louvain'"
        ) from None


def require(vertices: int, clients: int, least: int = 1) -> None:
    """Raise ScenarioError unless every client can have that many vertices."""
    if clients * least > vertices:
        each = "one vertex" if least == 1 else f"{least} vertices"
        message = (
            f"{clients} clients cannot have {each} each of a graph of {vertices} vertices; "
            f"take at most {vertices // least} clients"
        )
        raise ScenarioError([Problem("clients.count", message)])


def grouped(owner: np.ndarray, clients: int) -> list[np.ndarray]:
    """Return each client's vertices in ascending order, from the owner (N,) of every vertex."""
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=clients))
    return [part.astype(np.int64) for part in np.split(order, ends[:-1])]


def top_up(owner: np.ndarray, clients: int, least: int, rng: np.random.Generator) -> np.ndarray:
    """Return owners (N,) with at least that many vertices per client, taken at random from the largest client."""
    owner = owner.copy()
    sizes = np.bincount(owner, minlength=clients)
    for client in np.flatnonzero(sizes < least):
        while sizes[client] < least:
            largest = int(sizes.argmax())
            taken = rng.choice(
                np.flatnonzero(owner == largest), min(least - sizes[client], sizes[largest] - least), False
            )
            owner[taken] = client
            sizes[client] += len(taken)
            sizes[largest] -= len(taken)
    return owner


def cut(graph: Graph, owners: Sequence[np.ndarray], *, empty: bool = False) -> list[Graph]:
    """Return every client's induced subgraph, its vertices numbered in the order given.

    The same as `induced` client by client, in one pass over the edges, so that many clients cost no more than few.
    Raises ValueError if a client is empty (unless it may be) or a vertex has two owners.
    """
    rows = [torch.as_tensor(vertices, dtype=torch.long) for vertices in owners]
    sizes = torch.tensor([len(own) for own in rows])
    if not empty and (sizes == 0).any():
        raise ValueError(f"client {int((sizes == 0).nonzero()[0])} has no vertex")
    every = torch.cat(rows)
    if len(every) and int(torch.bincount(every).max()) > 1:
        raise ValueError("a vertex has two owners")
    owner = torch.full((len(graph["y"]),), -1, dtype=torch.long)
    number = torch.zeros_like(owner)
    owner[every] = torch.arange(len(rows)).repeat_interleave(sizes)
    number[every] = torch.arange(len(every)) - (sizes.cumsum(0) - sizes).repeat_interleave(sizes)

    source, target = owner[graph["edges"]]
    inside = ((source == target) & (source >= 0)).nonzero().squeeze(1)
    at = source.index_select(0, inside)
    order = inside.index_select(0, at.sort(stable=True).indices)
    count = torch.bincount(at, minlength=len(rows))
    ends = [number.index_select(0, end.index_select(0, order)) for end in graph["edges"]]
    edges = torch.split(torch.stack(ends), count.tolist(), dim=1)
    return [part(graph, own, inner.contiguous()) for own, inner in zip(rows, edges, strict=True)]

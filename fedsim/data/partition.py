"""Partition: the owner of each node.

An implementation is a frozen dataclass of options, one file in `partitions/`.  It models clients that hold
disjoint sets of nodes; edges between clients are lost, and no node is shared.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch

from fedsim.core.errors import ScenarioError, UserError, required
from fedsim.data.graph import Graph, induced, part
from fedsim.data.time.temporal import owners_of
from fedsim.data.time.windows import merged


class Partition(ABC):
    """A rule that gives every client its nodes; `by_edges` says that it needs edges to go by."""

    by_edges: ClassVar[bool] = False

    @abstractmethod
    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes (int64), in the order in which the client will number them.

        The order matters: some rules fix it, and a seeded split depends on it.  A node belongs to at most one
        client and no client is empty.

        Raises ScenarioError if the graph cannot be divided among that many clients.
        """

    def with_names(self, names: Callable[[], Sequence[str] | None]) -> "Partition":
        """Return the partition for nodes with these ids (`Dataset.names`); most ignore them."""
        return self

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return for each snapshot of the whole graph each client's nodes among those arrived by then.

        A client may have none.  Unless a partition says otherwise, nodes are assigned once, on the union of
        all snapshots, as if the future were known.  Raises ScenarioError if the graph cannot be divided among
        that many clients.
        """
        ever = snapshots[-1]["arrived"].nonzero().squeeze(1).numpy()
        parts = self.assign(induced(merged(snapshots), ever), clients, rng)
        return arrived_of([np.sort(ever[nodes]) for nodes in parts], snapshots)

    def counted(
        self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator
    ) -> tuple[list[list[np.ndarray]], list[int] | None]:
        """Return what `follow` does and, for each snapshot, how many entries of adjacency rows that has read.

        The second is None if the partition does not count them; then its work takes no simulated time.
        """
        return self.follow(snapshots, clients, rng), None


def arrived_of(owned: Sequence[np.ndarray], snapshots: Sequence[Graph]) -> list[list[np.ndarray]]:
    """Return for each snapshot those of each client's nodes that have arrived by then."""
    return [[nodes[snapshot["arrived"].numpy()[nodes]] for nodes in owned] for snapshot in snapshots]


@dataclass(frozen=True)
class Repartitioning(Partition):
    """A partition with the option to assign each snapshot separately, using the nodes arrived by then.

    The baselines of DG-CoLearn do so.  Clients are then numbered so that as few nodes as possible change
    their owner.  What moves then travels in a step of its own (`fedsim/clock/repartition.py`).
    """

    each_snapshot: bool = field(default=False, kw_only=True)  # partition every snapshot; otherwise once, their union

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return for each snapshot each client's nodes, ascending."""
        if not self.each_snapshot:
            return super().follow(snapshots, clients, rng)
        owned, before = [], np.full(len(snapshots[0]["y"]), -1, dtype=np.int64)
        for snapshot in snapshots:
            arrived = snapshot["arrived"].nonzero().squeeze(1).numpy()
            parts = [np.sort(arrived[part]) for part in self.assign(induced(snapshot, arrived), clients, rng)]
            order = np.argsort(names(owners_of(parts, len(before)), before, clients))
            owned.append([parts[part] for part in order])
            owner = owners_of(owned[-1], len(before))
            before = np.where(owner >= 0, owner, before)
        return owned


def names(owner: np.ndarray, before: np.ndarray, count: int) -> np.ndarray:
    """Return a new number (parts,) for each part of `owner` (N,), so that most nodes own as `before` (N,)."""
    from scipy.optimize import linear_sum_assignment  # takes a fifth of a second, which few runs need

    both = (owner >= 0) & (before >= 0) & (before < count)
    kept = np.bincount(owner[both] * count + before[both], minlength=count * count).reshape(count, count)
    _, name = linear_sum_assignment(kept, maximize=True)
    return np.asarray(name, dtype=np.int64)


def library(module: str, package: str, extra: str) -> Any:
    """Import and return a module of a package that comes with an extra of fedsim.

    Raises ValueError, which says how to install it, if the package is missing; partitions call it when they
    are built, so that the error comes before a run.
    """
    try:
        return required(module, f"needs {package}", extra)
    except UserError as error:
        raise ValueError(f"{error}, or take the partition 'louvain' with python-louvain") from None


def require(nodes: int, clients: int, least: int = 1) -> None:
    """Raise ScenarioError unless every client can have that many nodes."""
    if clients * least > nodes:
        each = "one node" if least == 1 else f"{least} nodes"
        message = (
            f"{clients} clients cannot have {each} each of a graph of {nodes} nodes; "
            f"take at most {nodes // least} clients"
        )
        raise ScenarioError.at("clients.count", message)


def classes_in(graph: Graph) -> np.ndarray:
    """Return the nodes' classes (N,).  Raises ScenarioError where they have real targets instead."""
    if "real" in graph:
        message = "goes by classes, and these data have real targets: take the partition random or table"
        raise ScenarioError.at("data.partition", message)
    return graph["y"].numpy()


def grouped(owner: np.ndarray, clients: int) -> list[np.ndarray]:
    """Return each client's nodes in ascending order, from the owner (N,) of every node."""
    order = np.argsort(owner, kind="stable")
    ends = np.cumsum(np.bincount(owner, minlength=clients))
    return [part.astype(np.int64) for part in np.split(order, ends[:-1])]


def top_up(owner: np.ndarray, clients: int, least: int, rng: np.random.Generator) -> np.ndarray:
    """Return owners (N,) with at least that many nodes per client, taken at random from the largest client."""
    owner = owner.copy()
    sizes = np.bincount(owner, minlength=clients)
    for client in np.flatnonzero(sizes < least):
        while sizes[client] < least:
            largest = int(sizes.argmax())
            count = min(least - sizes[client], sizes[largest] - least)
            taken = rng.choice(np.flatnonzero(owner == largest), count, replace=False)
            owner[taken] = client
            sizes[client] += len(taken)
            sizes[largest] -= len(taken)
    return owner


def cut(graph: Graph, owners: Sequence[np.ndarray], *, empty: bool = False) -> list[Graph]:
    """Return every client's induced subgraph, its nodes numbered in the order given.

    The same as `induced` client by client, in one pass over the edges, so that many clients cost no more than
    few.  Raises ValueError if a client is empty (unless it may be) or a node has two owners.
    """
    rows = [torch.as_tensor(nodes, dtype=torch.long) for nodes in owners]
    sizes = torch.tensor([len(own) for own in rows])
    if not empty and (sizes == 0).any():
        raise ValueError(f"client {int((sizes == 0).nonzero()[0])} has no node")
    every = torch.cat(rows)
    if len(every) and int(torch.bincount(every).max()) > 1:
        raise ValueError("a node has two owners")
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
    edges, entries = torch.split(torch.stack(ends), count.tolist(), dim=1), torch.split(order, count.tolist())
    return [part(graph, own, inner.contiguous(), taken) for own, inner, taken in zip(rows, edges, entries, strict=True)]

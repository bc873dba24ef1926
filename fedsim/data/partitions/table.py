"""Owners from a table of your own: a CSV file with the columns node and client, one row per node.

Nodes are named by their ids where the data set has ids (CSV, GraphML), and else by their row numbers from 0.
Clients are numbers from 0, or names, which are numbered in the order in which they first appear.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import numpy as np

from fedsim.core import table as tables
from fedsim.core.arrays import Ints
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.table import Column, fault, read_lines
from fedsim.data.files import own_tables
from fedsim.data.graph import Graph
from fedsim.data.partition import Partition, arrived_of, grouped


@dataclass(frozen=True)
class Table(Partition):
    """Each node belongs to the client that its row names."""

    file: tables.FilePath  # the table of owners
    unlisted: Literal["refuse", "unowned"] = "refuse"  # nodes without a row: an error, or without an owner
    names: Sequence[str] | None = field(default=None, metadata={"option": False})  # the nodes' ids, if they have any

    def with_names(self, names: Callable[[], Sequence[str] | None]) -> Partition:
        """Return the same with the nodes' ids."""
        return replace(self, names=names())

    def assign(self, graph: Graph, clients: int, rng: np.random.Generator) -> list[np.ndarray]:
        """Return each client's nodes, ascending.  Raises UserError if the table does not match the graph."""
        owner = self._owner(len(graph["y"]), clients)
        return grouped(owner + 1, clients + 1)[1:]  # unowned nodes come first

    def follow(self, snapshots: Sequence[Graph], clients: int, rng: np.random.Generator) -> list[list[np.ndarray]]:
        """Return each client's nodes among those that have arrived by each snapshot."""
        return arrived_of(self.assign(snapshots[-1], clients, rng), snapshots)

    def _owner(self, nodes: int, clients: int) -> Ints:
        """Return the owner (N,) of every node, -1 for none."""
        found, lines = read_lines(self.file, [Column("node", text=True), Column("client", text=True)])
        rows = own_tables.rows(self.file, found["node"].tolist(), lines, nodes, self.names)
        owners = _clients(self.file, found["client"].tolist(), lines, clients)
        owner, line = np.full(nodes, -1, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
        owner[rows], line[rows] = owners, lines
        if len(np.unique(rows)) < len(rows):
            last = {row: at for at, row in enumerate(rows.tolist())}
            at = next(at for at, row in enumerate(rows.tolist()) if last[row] != at)
            twice = f"the node {str(found['node'][at])!r} has another row in line {lines[last[int(rows[at])]]}"
            raise fault(self.file, int(lines[at]), f"{twice}; keep one")
        if self.unlisted == "refuse" and (owner < 0).any():
            first = int(np.flatnonzero(owner < 0)[0])
            name = repr(self.names[first]) if self.names is not None else first
            message = f"{int((owner < 0).sum())} of {nodes} nodes have no row, the first is {name}"
            raise UserError(f"{self.file}: {message}; add them, or write unlisted: unowned")
        return owner


def _clients(path: Path, cells: Sequence[str], lines: Ints, clients: int) -> Ints:
    if not all(cell.removeprefix("-").isdecimal() for cell in cells):
        known = {name: number for number, name in enumerate(dict.fromkeys(cells))}
        if len(known) != clients:
            message = f"{path} names {len(known)} clients, and clients.count is {clients}"
            raise ScenarioError.at("clients.count", f"{message}; write clients.count: {len(known)}")
        return np.array([known[cell] for cell in cells], dtype=np.int64)
    owners = np.array([int(cell) for cell in cells], dtype=object)
    wrong = np.flatnonzero((owners < 0) | (owners >= clients))
    if len(wrong):
        at = int(wrong[0])
        message = f"column 'client': there is no client {owners[at]}, because clients.count is {clients}"
        remedy = "number clients from 0, change clients.count, or give them names"
        raise fault(path, int(lines[at]), f"{message} (0 … {clients - 1}); {remedy}")
    if lost := sorted({*range(clients)} - {*owners.tolist()}):
        message = f"client {lost[0]} owns no node in {path}, and clients.count is {clients}"
        raise ScenarioError.at("clients.count", f"{message}; give it one, or change clients.count")
    return owners.astype(np.int64)

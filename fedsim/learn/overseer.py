"""The overseer: the server of a graph that it knows and does not hold, between clients that hold parts (DG-CoLearn).

It knows every snapshot's edges and who owns which vertex, so who is at a cut and what a change reaches at its owner,
and the rows of vertices that clients have sent it, the last of each.  It computes what clients lack of sums over
neighbours (`exchange.Cut`).  It does not know features, labels or embeddings that nobody has sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.data.temporal import Overview
from fedsim.learn.affected import within
from fedsim.learn.convolution import Norm
from fedsim.learn.exchange import Cut


@dataclass(frozen=True, eq=False)
class Overseer:
    """One snapshot as the server sees it, and rows (N, F) by name as they were sent last, zeros where never."""

    overview: Overview
    period: int
    hops: int  # over which a change spreads
    norm: Norm = "sum"
    rows: Mapping[str, Tensor] = field(default_factory=dict)

    @cached_property
    def cut(self) -> Cut:
        """What was cut of the snapshot."""
        owner = torch.from_numpy(self.overview.owners[self.period])
        return Cut(self.overview.snapshots[self.period]["edges"], owner, self.norm)

    @cached_property
    def near(self) -> Tensor:
        """Which vertices (N,) a change reaches inside the clients; a cut edge's change counts at its ends."""
        owner, edges, seeds = self.cut.owner, self.cut.edges, torch.zeros(self.cut.vertices, dtype=torch.bool)
        seeds[torch.from_numpy(self.overview.seeds[self.period])] = True
        inside = edges[:, (owner[edges[0]] == owner[edges[1]]) & (owner[edges[0]] >= 0)]
        return within(Graph(edges=inside), seeds & (owner >= 0), self.hops)  # type: ignore[typeddict-item]

    @property
    def wanted(self) -> Tensor:
        """Which vertices (N,) at a cut have rows that are stale, or were never sent."""
        sent = self.rows.get("sent")
        return self.cut.border & (self.near if sent is None else self.near | (sent[:, 0] == 0))

    @property
    def shared(self) -> bool:
        """Whether there are two owners at all."""
        owner = self.overview.owners[self.period]
        return len(np.unique(owner[owner >= 0])) > 1

    def vertices(self, client: int, among: Tensor) -> Tensor:
        """Return those vertices of a client that are among these (N,), ascending."""
        return (among & (self.cut.owner == client)).nonzero().squeeze(1)

    def at(self, period: int) -> "Overseer":
        """Return the view of another snapshot, with the same rows."""
        return self if period == self.period else Overseer(self.overview, period, self.hops, self.norm, self.rows)

    def noted(self, name: str, vertices: Tensor, rows: Tensor) -> "Overseer":
        """Return what is known once these rows have come."""
        known = self.rows.get(name)
        known = rows.new_zeros(self.cut.vertices, rows.shape[1]) if known is None else known.clone()
        known[vertices] = rows
        new = replace(self, rows={**self.rows, name: known})
        new.__dict__.update({key: value for key, value in self.__dict__.items() if key in ("cut", "near")})
        return new

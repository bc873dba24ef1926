"""The overseer: the server of a graph that it knows and does not hold, between clients that hold parts (DG-CoLearn).

It knows every snapshot's edges and the owners of the nodes, hence which are at a cut and which a change affects at
their owner, and the last rows that clients have sent it.  It computes what clients lack of sums over neighbours
(`exchange.Cut`).  It does not know features, labels or embeddings that were never sent.

Rows have the names `h0` (features), `h1` (sums of them over local neighbours, or a layer's output), …; `known` marks
the nodes whose rows are unaffected since they arrived, `summed` those that have received whole sums (1), and those
whose sums have changed since (-1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from algorithms.dg_colearn.exchange import Cut
from fedsim.data.graph import Graph
from fedsim.data.time.temporal import Overview
from fedsim.data.time.windows import changed_locally, inside
from fedsim.learn.continual.snapshots import within
from fedsim.learn.layers.convolution import Norm


@dataclass(frozen=True, eq=False)
class Overseer:
    """One snapshot as the server sees it, and the last rows (N, F) sent by name, zeros if never.

    `hops`: the number of edges a change spreads; None: everything counts as changed.  `discreet`: a change at a cut
    edge does not count, because a client notified without a change of its own would learn of the edge.  `since`: the
    snapshot since which changes count, the one before if not given.
    """

    overview: Overview
    period: int
    hops: int | None
    norm: Norm = "sum"
    discreet: bool = False
    since: int | None = None
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    _made: dict[tuple[str, int, int], Mapping[str, Tensor]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def cut(self) -> Cut:
        """What was cut of the snapshot."""
        owner = torch.from_numpy(self.overview.owners[self.period])
        return Cut(self.overview.snapshots[self.period]["edges"], owner, self.norm)

    @cached_property
    def near(self) -> Tensor:
        """The nodes (N,) affected inside the clients; a cut edge's change counts at its ends."""
        owned = self.cut.owner >= 0
        if self.hops is None:
            return owned
        seeds = torch.zeros_like(owned)
        for t in range(self.period if self.since is None else self.since + 1, self.period + 1):
            seeds |= changed_locally(self.overview.snapshots, self.overview.owners, t)
            if not self.discreet:
                seeds[torch.from_numpy(self.overview.seeds[t])] = True
        return within(self._inside, seeds & owned, self.hops)

    @cached_property
    def around(self) -> Tensor:
        """The same and their neighbours (N,), whose corrections their sums over two edges need."""
        return within(self._inside, self.near, 1)

    @property
    def due(self) -> Tensor:
        """The nodes (N,) whose rows are stale, or were never sent."""
        known = self.rows.get("known")
        return self.cut.owner >= 0 if known is None else self.near | ((known[:, 0] == 0) & (self.cut.owner >= 0))

    @cached_property
    def resummed(self) -> Tensor:
        """The nodes (N,) whose sums of features may have changed: `near`, and their cut neighbours."""
        source, target = self.cut.crossing
        reached = self.near.clone()
        reached[target[self.near[source]]] = True
        return reached

    @property
    def unsummed(self) -> Tensor:
        """The nodes (N,) at the cut that lack whole sums, or have received outdated ones."""
        summed = self.rows.get("summed")
        if summed is None:
            return self.cut.border
        return (self.cut.border & (summed[:, 0] != 1)) | ((summed[:, 0] == -1) & (self.cut.owner >= 0))

    @property
    def shared(self) -> bool:
        """Whether there are at least two owners."""
        owner = self.overview.owners[self.period]
        return len(np.unique(owner[owner >= 0])) > 1

    def crosses(self, exchange: str, *, strict: bool) -> bool:
        """Return whether this exchange has anything to send: always between two owners where it is `strict`."""
        return self.shared if strict else bool((self.unsummed if exchange == "fedgcn" else self.cut.border).any())

    def addressed(self, exchange: str, *, strict: bool) -> Tensor:
        """Return the nodes (N,) that corrections are for."""
        if strict:
            return self.around
        return self.unsummed if exchange == "fedgcn" else self.around & self.cut.border

    @cached_property
    def _inside(self) -> Graph:
        return Graph(edges=inside(self.cut.edges, self.cut.owner))  # type: ignore[typeddict-item]

    def nodes(self, client: int, among: Tensor) -> Tensor:
        """Return a client's nodes among these (N,), ascending."""
        return (among & (self.cut.owner == client)).nonzero().squeeze(1)

    def at(self, period: int) -> "Overseer":
        """Return the view of a later snapshot, in which affected nodes are no longer known."""
        seen = self
        for t in range(self.period + 1, period + 1):
            seen, rows = replace(seen, period=t, since=None), dict(seen.rows)
            if "known" in rows:
                rows["known"] = rows["known"].masked_fill(seen.near.unsqueeze(1), 0.0)
            if "summed" in rows:
                stale = seen.resummed.unsqueeze(1) & (rows["summed"] == 1)
                rows["summed"] = rows["summed"].masked_fill(stale, -1.0)
            seen = replace(seen, rows=rows)
        return seen

    def ahead(self, period: int, met: int | None = None) -> "Overseer":
        """Return the view of a later snapshot on which models of this one predict; one of an earlier knows no rows.

        `met` is the period from which clients predict, this one if not given; before an earlier one no row is known.
        """
        if met is not None and met < self.period:
            return replace(self, period=period, since=min(met, period - 1), rows={})
        if period <= self.period:
            return replace(self, period=period, since=None, rows={})
        return replace(self.at(period), since=self.period)

    def noted(self, name: str, nodes: Tensor, rows: Tensor) -> "Overseer":
        """Return the view with these rows added."""
        known = self.rows.get(name)
        known = rows.new_zeros(self.cut.nodes, rows.shape[1]) if known is None else known.clone()
        known[nodes] = rows
        new = replace(self, rows={**self.rows, name: known})
        lasting = ("cut", "near", "around", "resummed", "_inside")
        new.__dict__.update({key: value for key, value in self.__dict__.items() if key in lasting})
        return new

    def answered(self, uploads: Sequence[Mapping[str, Tensor]]) -> "Overseer":
        """Return the view with the clients' answers added, no two of them about the same node."""
        seen = self
        for name in dict.fromkeys(name for upload in uploads for name in upload if name.startswith("h")):
            having = [upload for upload in uploads if name in upload]
            ids = torch.cat([upload["fresh" if name == "h0" else "ids"].long().cpu() for upload in having])
            seen = seen.noted(name, ids, torch.cat([upload[name].cpu() for upload in having]))
        fresh = [upload["ids"].long().cpu() for upload in uploads if "turn" in upload]
        return seen.noted("known", torch.cat(fresh), torch.ones(sum(map(len, fresh)), 1)) if fresh else seen

    def summed(self, nodes: Sequence[Tensor]) -> "Overseer":
        """Return the view after clients have received sums of these nodes, one tensor per client."""
        if not nodes:
            return self
        ids = torch.cat([own.long().cpu() for own in nodes])
        return self.noted("summed", ids, torch.ones(len(ids), 1))

    def corrections(self, exchange: str, layer: int, k_min: int) -> Mapping[str, Tensor]:
        """Return the rows (N, F) by key of a graph from which clients get their parts, computed once.

        `layer` is the one that a layerwise exchange corrects.  Nodes with fewer than `k_min` neighbours elsewhere
        get zeros.  Empty if no rows have arrived.
        """
        key = exchange, layer, k_min
        if key not in self._made:
            few = (self.cut.foreign < k_min).unsqueeze(1)
            self._made[key] = {name: rows.masked_fill(few, 0.0) for name, rows in self._lacking(exchange, layer)}
        return self._made[key]

    def _lacking(self, exchange: str, layer: int) -> list[tuple[str, Tensor]]:
        if (f"h{layer - 1}" if exchange == "layerwise" else "h0") not in self.rows:
            return []
        if exchange == "layerwise":
            return [(f"delta{layer}", self.cut.across(self.rows[f"h{layer - 1}"]))]
        if exchange == "fedgcn":
            return [("x", self.cut.across(self.rows["h0"]))]
        form = self.cut.paper if exchange == "paper" else self.cut.exact
        return list(zip(("delta1", "far"), form(self.rows["h0"], self.rows["h1"]), strict=True))

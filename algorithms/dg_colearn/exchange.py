"""What crosses the cuts of a graph divided among clients: corrections of sums over neighbours (DG-CoLearn, section 4).

With A the adjacency of the whole graph, self-loops included, L its part inside the clients and C = A - L what was cut,
clients compute L X and L (L X) and lack the rest of A X and A² X.  A server that knows C, and is sent the rows of X and
h = L X of nodes at the cut, returns for each node i

    δ = (C X)_i  and  r = (C (h + δ))_i,  with which  A X = L X + δ  and  A² X = L (L X) + L δ + r   (`exact`).

The paper's Eq. 6 adds C L X + C² X + C X to L² X instead: of L C it keeps only the node's own share, so that at
node i the sum of δ over i's *local* neighbours is missing, and no node beside the cut is corrected at all
(`paper`).  Path 0-1-2|3-4-5, cut between 2 and 3: Eq. 6 lacks X_3 at node 1 and X_2 at node 4.

`A` may be weighted: `mean` divides the sum of node i by the degree d_i in the whole graph, with self-loop, `sym` by
√(d_i d_j).  All of it is linear; a model with nonlinear layers is exact only with one exchange a layer.
Graphs are undirected and without weights.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from fedsim.learn.engine.blocks import Csr
from fedsim.learn.engine.products import times
from fedsim.learn.layers.convolution import Norm

TWO_LAYERS = ("exact", "paper", "full_graph")  # exchanges that are made of A X and A² X


@dataclass(frozen=True, eq=False)
class Cut:
    """What was cut of one snapshot: the owner (N,) of every node, and the edges (2, E) of the whole graph."""

    edges: Tensor
    owner: Tensor
    norm: Norm = "sum"

    @property
    def nodes(self) -> int:
        """Nodes of the whole graph."""
        return len(self.owner)

    @cached_property
    def crossing(self) -> Tensor:
        """The edges between two clients, by target: (2, E')."""
        source, target = self.owner[self.edges]
        found = self.edges[:, (source >= 0) & (target >= 0) & (source != target)]
        return found[:, torch.argsort(found[1] * self.nodes + found[0])]

    @cached_property
    def degree(self) -> Tensor:
        """The degrees (N,) in the whole graph among owned nodes, a self-loop counted."""
        owned = (self.owner[self.edges] >= 0).all(0)
        return 1.0 + torch.bincount(self.edges[1, owned], minlength=self.nodes).float()

    @cached_property
    def foreign(self) -> Tensor:
        """The number (N,) of each node's neighbours at other clients."""
        return torch.bincount(self.crossing[1], minlength=self.nodes)

    @cached_property
    def border(self) -> Tensor:
        """Which nodes (N,) have neighbours at other clients."""
        return self.foreign > 0

    @cached_property
    def matrix(self) -> Csr:
        """C as CSR (N, N), weighed by the norm: float64."""
        source, target = self.crossing
        crow, degree = torch.cat([self.foreign.new_zeros(1), self.foreign.cumsum(0)]), self.degree.double()
        if self.norm == "sum":
            value = torch.ones_like(source, dtype=torch.float64)
        elif self.norm == "mean":
            value = 1 / degree[target]
        else:
            value = (degree[source] * degree[target]).rsqrt()
        return Csr(crow, source, value, (self.nodes, self.nodes))

    def across(self, rows: Tensor) -> Tensor:
        """Return C times rows (N, F): for each node the sum over its neighbours at other clients."""
        return times(self.matrix, rows)

    def exact(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return δ = C X and r = C (h + δ), from X (N, F) and h = L X (N, F)."""
        first = self.across(x)
        return first, self.across(h + first)

    def paper(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        """Return what Eqs. 5 and 6 add to L X and L² X: δ = C X, and C h + C δ + δ (its best reading).

        If `A` is weighted, a node's own share of L δ is δ_i / d_i.
        """
        first = self.across(x)
        own = first if self.norm == "sum" else first / self.degree.unsqueeze(1).to(first.dtype)
        return first, self.across(h) + self.across(first) + own

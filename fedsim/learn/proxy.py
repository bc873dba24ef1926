"""The proxy model of GHOST and OASIS: a generator trained to stand for a client's labelled vertices (GHOST, Eq. 4-6).

    L = λ_d L_div + L_disp + λ_f L_fgw

The parts are `alignment`'s and `fgw`'s.  Row i of what is generated has the label of vertex i, and its edges are those
of `pseudo_graphs.knn_graph` among the rows.  There is no loss of a classifier.  Fresh noise, dropout and the choice of
vertices for L_fgw are drawn in every step from the graph's `seed`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.data.graph import Graph, as_dense
from fedsim.learn import alignment, fgw, tree
from fedsim.learn.generators import FeatureGenerator
from fedsim.learn.pseudo_graphs import adjacency, knn_flops, knn_graph


@dataclass(frozen=True)
class Proxy:
    """What a generator is trained by; a weight of None leaves its part out."""

    generator: FeatureGenerator
    divergence: float | None = 0.05
    dispersion: float | None = 1.0
    fgw: float | None = 0.1
    a: float = 0.5  # share of structure in L_fgw
    neighbours: int = 5  # k of the generated rows, a row itself being one of them
    against: Literal["ours", "code"] = "ours"  # what L_fgw takes for Â: neighbour lists, or the identity by error
    sample: int = 512  # vertices in L_fgw at most

    def given(self, own: Graph, centre: Tensor) -> dict[str, Tensor]:
        """Return what the loss reads: features (n, F), adjacency (n, n), and the noise's centre (1,)."""
        x = as_dense(own["x"])
        return {"x": x, "adjacency": adjacency(own["edges"], len(x)), "centre": centre.to(x.device)}

    def loss(self, params: Any, data: Graph, given: dict[str, Tensor]) -> Tensor:
        """Return the loss (1,) of one client's generator on its labelled vertices, all with a client axis of one."""
        x, n = given["x"][0], len(data["y"])
        drawn = torch.Generator().manual_seed(integer(int(data["seed"]), "proxy"))
        z = self.generator.draw(n, drawn, float(given["centre"])).to(x.device)
        pseudo = self.generator.forward(tree.at(params, 0), z, data["y"], drawn)
        total = x.new_zeros(())
        if self.divergence is not None:
            total = total + self.divergence * alignment.divergence(x, pseudo)
        if self.dispersion is not None:
            total = total + self.dispersion * alignment.dispersion(x, pseudo)
        if self.fgw is not None:
            rows = torch.randperm(n, generator=drawn)[: self.sample].sort().values.to(x.device)
            own, near = given["adjacency"][0][rows][:, rows], pseudo[rows]
            total = total + self.fgw * fgw.loss(x[rows], near, own, self.pseudo_adjacency(near), self.a)
        return total.unsqueeze(0)

    def pseudo_adjacency(self, pseudo: Tensor) -> Tensor:
        """Return Â (n, n) of generated rows (n, F): that of their neighbour lists, or what the code makes of it."""
        n = len(pseudo)
        if self.against == "code":
            return torch.eye(n, device=pseudo.device)
        return adjacency(knn_graph(pseudo, self.neighbours), n)

    def flops(self, n: int) -> float:
        """Return the operations of a step on n vertices: three passes, and L_fgw, of which nearly all is forward."""
        features = self.generator.features
        step = 3 * (self.generator.flops(n) + alignment.flops(n, features))
        if self.fgw is not None:
            m = min(n, self.sample)
            step += knn_flops(m, features) + fgw.flops(m, features)
        return step

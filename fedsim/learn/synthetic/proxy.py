"""The proxy model of GHOST and OASIS: a generator trained to stand for a client's labelled nodes (GHOST, Eq. 4-6).

    L = λ_d L_div + L_disp + λ_f L_fgw

    L_div  = (1/n) Σᵢ KL(softmax(xᵢ) ‖ softmax(x̂ᵢ)),   over the F features
    L_disp = 1 − (1/n) Σᵢ cos(xᵢ, x̂ᵢ)

L_fgw is in `fgw.py`.  Reconstructed from the public code and the authors' replies to reviewers; the direction of the
divergence, own ‖ pseudo, is the code's.  Row i of what is generated has the label of node i, and its edges are those
of `pseudo_graphs.knn_graph` among the rows.  There is no loss of a classifier.  Fresh noise, dropout and the choice of
nodes for L_fgw are drawn in every step from the graph's `seed`.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph, as_dense, induced
from fedsim.learn.engine import ops, tree
from fedsim.learn.synthetic import fgw
from fedsim.learn.synthetic.generators import FeatureGenerator
from fedsim.learn.synthetic.pseudo_graphs import adjacency, knn_flops, knn_graph


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
    sample: int = 512  # nodes in L_fgw at most

    def given(self, graph: Graph, centre: Tensor) -> dict[str, Tensor]:
        """Return what the loss reads: features (n, F), adjacency (n, n), and the noise's centre (1,)."""
        x = as_dense(graph["x"])
        return {"x": x, "adjacency": adjacency(graph["edges"], len(x)), "centre": centre.to(x.device)}

    def loss(self, params: Any, data: Graph, given: dict[str, Tensor]) -> Tensor:
        """Return the loss (1,) of one client's generator on its labelled nodes, all with a client axis of one."""
        x, n = given["x"][0], len(data["y"])
        drawn = ops.generator(int(data["seed"]), "proxy")
        z = self.generator.draw(n, drawn, float(given["centre"])).to(x.device)
        pseudo = self.generator.forward(tree.at(params, 0), z, data["y"], drawn)
        total = x.new_zeros(())
        if self.divergence is not None:
            total = total + self.divergence * divergence(x, pseudo)
        if self.dispersion is not None:
            total = total + self.dispersion * dispersion(x, pseudo)
        if self.fgw is not None:
            rows = torch.randperm(n, generator=drawn)[: self.sample].sort().values.to(x.device)
            links, near = given["adjacency"][0][rows][:, rows], pseudo[rows]
            pseudo_links = torch.eye(len(near), device=near.device)  # what the code makes of Â
            if self.against == "ours":
                pseudo_links = adjacency(knn_graph(near, self.neighbours), len(near))
            total = total + self.fgw * fgw.loss(x[rows], near, links, pseudo_links, self.a)
        return total.unsqueeze(0)

    def flops(self, n: int) -> float:
        """Return the operations of a step on n nodes: three passes, and L_fgw, of which nearly all is forward."""
        features = self.generator.features
        step = 3 * (self.generator.flops(n) + 20.0 * n * features)  # L_div and L_disp: ten a number for each
        if self.fgw is not None:
            m = min(n, self.sample)
            step += knn_flops(m, features) + fgw.flops(m, features)
        return step


def labelled(graph: Graph) -> Graph:
    """Return the graph of one client cut down to its training nodes and the edges among them.

    Nothing of a validation or test node is in it, neither label nor features nor edge.
    """
    return induced(graph, graph["train"].nonzero().squeeze(1))


def divergence(x: Tensor, pseudo: Tensor) -> Tensor:
    """Return L_div of own features x (n, F) and generated ones (n, F): ()."""
    return F.kl_div(F.log_softmax(pseudo, 1), F.log_softmax(x, 1), reduction="batchmean", log_target=True)


def dispersion(x: Tensor, pseudo: Tensor) -> Tensor:
    """Return L_disp of own features x (n, F) and generated ones (n, F): (); a row of zeros is like none."""
    return 1 - F.cosine_similarity(x, pseudo, dim=1).mean()

"""How far generated features are from a client's own, row for row (GHOST, ICML 2025, Eq. 4 and 5).

    L_div  = (1/n) Σᵢ KL(softmax(xᵢ) ‖ softmax(x̂ᵢ)),   over the F features
    L_disp = 1 − (1/n) Σᵢ cos(xᵢ, x̂ᵢ)

Reconstructed from the public code and the authors' replies to reviewers; the direction of the divergence, own ‖ pseudo,
is the code's.  Row i of both belongs to the same vertex, so that both have its label.  Structure is compared in
`fgw.py`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.data.graph import Graph, part


def labelled(graph: Graph) -> Graph:
    """Return the graph of one client cut down to its training vertices and the edges among them.

    Nothing of a validation or test vertex is in it, neither label nor features nor edge.
    """
    rows = graph["train"].nonzero().squeeze(1)
    number = torch.full((len(graph["y"]),), -1, dtype=torch.long, device=rows.device)
    number[rows] = torch.arange(len(rows), device=rows.device)
    edges = number[graph["edges"]]
    return part(graph, rows, edges[:, (edges >= 0).all(0)])


def divergence(x: Tensor, pseudo: Tensor) -> Tensor:
    """Return L_div of own features x (n, F) and generated ones (n, F): ()."""
    return F.kl_div(F.log_softmax(pseudo, 1), F.log_softmax(x, 1), reduction="batchmean", log_target=True)


def dispersion(x: Tensor, pseudo: Tensor) -> Tensor:
    """Return L_disp of own features x (n, F) and generated ones (n, F): (); a row of zeros is like none."""
    return 1 - F.cosine_similarity(x, pseudo, dim=1).mean()


def flops(n: int, features: int) -> float:
    """Return the operations of both, forward only: about ten a number for each."""
    return 20.0 * n * features

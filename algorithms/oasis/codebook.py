"""A client's teacher in OASIS: a model, and a codebook of its hidden vectors, trained together.

With h_i the model's last hidden vector, e the nearest of M codes and sg a constant,

    L = NLL + λ_c L_cons + ‖sg h − e‖² + η ‖sg e − h‖² + λ_o ‖ĒĒᵀ − I‖² / M²,     Ē: codes of unit length

Reconstructed: squares are means over numbers, as in VQGraph's public code, after which L_cons is modelled too: with
q = h + sg(e − h), the error of features decoded linearly from q, plus that of σ(Q Qᵀ) against the adjacency, Q linear
in q.  Both decoders stay with the client.  NLL is of the model as it is; its output does not pass through the codes.
"""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.data.graph import Graph, as_dense
from fedsim.learn.engine import ops, tree
from fedsim.learn.layers import dense
from fedsim.learn.model import Parameters
from fedsim.learn.synthetic.pseudo_graphs import adjacency
from fedsim.learn.task import Task


@dataclass(frozen=True)
class Teacher:
    """What a client trains, and by which weights."""

    task: Task
    codes: int = 128  # M
    eta: float = 0.25
    lambda_c: float = 1.0
    lambda_o: float = 0.01
    sample: int = 512  # most nodes whose pairs are reconstructed

    def init(self, seed: int) -> Any:
        """Return first parameters: model, codebook (M, D), and decoders of features and of pairs."""
        hidden = self.task.model.hidden
        drawn = ops.generator(seed, "codebook")
        codebook = torch.randn(self.codes, hidden, generator=drawn) / hidden**0.5
        extras = {"codebook": codebook, "features": dense.layer(hidden, self.task.features, drawn),
               "pairs": dense.layer(hidden, hidden, drawn)}  # fmt: skip
        return {"model": self.task.drawn(integer(seed, "teacher")), **tree.to(extras, self.task.device)}

    def given(self, graph: Graph) -> dict[str, Tensor]:
        """Return what the loss reads: features (n, F) and adjacency (n, n)."""
        return {"x": as_dense(graph["x"]), "adjacency": adjacency(graph["edges"], len(graph["y"]))}

    def loss(self, params: Any, data: Graph, given: dict[str, Tensor]) -> Tensor:
        """Return the loss (1,) on one client's labelled nodes, all with a client axis of one."""
        h, logits = split(self.task, params["model"], data)
        codes = params["codebook"][0]
        e = codes[torch.cdist(h.detach(), codes).argmin(1)]
        total = F.cross_entropy(logits, data["y"])
        total = total + F.mse_loss(e, h.detach()) + self.eta * F.mse_loss(h, e.detach())
        total = total + self.lambda_o * overlap(codes)
        total = total + self.lambda_c * self.consistency(params, h + (e - h).detach(), data, given)
        return total.unsqueeze(0)

    def consistency(self, params: Any, q: Tensor, data: Graph, given: dict[str, Tensor]) -> Tensor:
        """Return L_cons () of quantised vectors q (n, D)."""
        features, pairs = (tree.at(params[name], 0) for name in ("features", "pairs"))
        decoded = F.mse_loss(torch.addmm(features["bias"], q, features["weight"]), given["x"][0])
        drawn = ops.generator(int(data["seed"]), "pairs")
        rows = torch.randperm(len(q), generator=drawn)[: self.sample].sort().values.to(q.device)
        near = torch.addmm(pairs["bias"], q[rows], pairs["weight"])
        return decoded + F.mse_loss(torch.sigmoid(near @ near.T), given["adjacency"][0][rows][:, rows])

    def flops(self, graph: Graph) -> float:
        """Return the operations of a step: the model's, and three passes of the codes, the decoders and the pairs."""
        n, m, hidden = len(graph["y"]), min(len(graph["y"]), self.sample), self.task.model.hidden
        once = 2.0 * hidden * (n * self.codes + self.codes**2 + n * self.task.features + m * hidden + m * m)
        return self.task.flops(graph) + 3 * once


def split(task: Task, params: Parameters, graph: Graph) -> tuple[Tensor, Tensor]:
    """Return the last hidden vectors (N, D) and the logits (N, C) of a model of plain layers, in one pass."""
    h = task.embed(params, graph)
    return h, task.model.layer(params[f"layer{task.model.layers}"], h, graph)


def overlap(codes: Tensor) -> Tensor:
    """Return ‖ĒĒᵀ − I‖² / M² () of codes (M, D)."""
    unit = F.normalize(codes, dim=1)
    apart = unit @ unit.T - torch.eye(len(codes), device=codes.device)
    return apart.square().mean()


def soft_codes(h: Tensor, codes: Tensor) -> Tensor:
    """Return s (n, M), the softmax of minus the distances of h (n, D) to the codes."""
    squares = h.square().sum(1, keepdim=True) + codes.square().sum(1) - 2 * h @ codes.T
    return torch.softmax(-ops.root(squares.clamp(min=0) + 1e-12), 1)


def head(task: Task, params: Parameters) -> Tensor:
    """Return a row (C, D) for each class of a model's classifier, without a client axis."""
    return params[f"layer{task.model.layers}"]["weight"].T

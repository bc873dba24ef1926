"""Global prototypes that a server trains on those of its clients, P̄ = φ(E) (FedDGL, Eqs. 13 and 14; FedTGP, AAAI 2024).

E is a table (C, H) drawn from the normal distribution, φ two linear layers with a rectifier between them; both are
trained by plain gradient descent on pairs (P, c) of a client's prototype and its class:

- `cosine`: −log softmax_c'(s cos(P, P̄_c') / τ)[c], with s = 1 or, as FedDGL prints it, s = −1;
- `margin`: −log softmax_c'(−‖P − P̄_c'‖ − δ [c' = c])[c], where δ is the largest distance of a class's mean to the one
  nearest to it, 100 at most (FedTGP).

A class that no client has sent only takes part as a class to keep away from; leave it out when P̄ is sent.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fedsim.learn.engine import ops
from fedsim.learn.model import fan_in

Net = dict[str, Tensor]
FARTHEST = 100.0  # that a margin can be (FedTGP)


@dataclass(frozen=True)
class Objective:
    """What the pairs are fitted by, and for how long; `sign` and `tau` are of `cosine` alone."""

    kind: Literal["cosine", "margin"] = "cosine"
    sign: float = 1.0  # s
    tau: float = 1.0  # τ
    epochs: int = 100
    batch: int = 10  # pairs of a step
    rate: float = 0.01  # the learning rate

    def loss(self, rows: Tensor, labels: Tensor, table: Tensor, margin: float) -> Tensor:
        """Return the mean loss of prototypes (n, H) with these classes (n,), given P̄ (C, H)."""
        if self.kind == "cosine":
            cosine = F.cosine_similarity(rows.unsqueeze(1), table.unsqueeze(0), dim=2)
            return F.cross_entropy(self.sign * cosine / self.tau, labels)
        apart = ops.root((rows.unsqueeze(1) - table.unsqueeze(0)).square().sum(2) + 1e-12)  # finite gradient at 0
        return F.cross_entropy(-apart - margin * F.one_hot(labels, len(table)), labels)


def drawn(classes: int, width: int, generator: Generator) -> Net:
    """Return E and φ as they are before any training, on the CPU."""
    net = {"table": torch.randn(classes, width, generator=generator)}
    for i in (1, 2):
        net |= {f"weight{i}": fan_in(width, generator, (width, width)), f"bias{i}": fan_in(width, generator, (width,))}
    return net


def table_of(net: Net) -> Tensor:
    """Return P̄ (C, H)."""
    return torch.relu(net["table"] @ net["weight1"] + net["bias1"]) @ net["weight2"] + net["bias2"]


def margin_of(rows: Tensor, labels: Tensor) -> float:
    """Return δ of prototypes (n, H) with these classes (n,): 0 where there is one class only."""
    present = torch.unique(labels)
    if len(present) < 2:
        return 0.0
    means = torch.stack([rows[labels == label].mean(0) for label in present])
    apart = torch.cdist(means, means, compute_mode="donot_use_mm_for_euclid_dist")
    return min(FARTHEST, float(apart.fill_diagonal_(float("inf")).amin(1).max()))


def fitted(net: Net, rows: Tensor, labels: Tensor, objective: Objective, generator: Generator) -> Net:
    """Return the net after all epochs over the pairs, in batches of a new random order for each."""
    params = {name: leaf.clone().requires_grad_(True) for name, leaf in net.items()}
    margin = margin_of(rows, labels) if objective.kind == "margin" else 0.0
    for _ in range(objective.epochs if len(rows) else 0):
        order = torch.randperm(len(rows), generator=generator).to(rows.device)
        for few in torch.split(order, objective.batch):
            loss = objective.loss(rows[few], labels[few], table_of(params), margin)
            grads = torch.autograd.grad(loss, list(params.values()))
            with torch.no_grad():
                for leaf, grad in zip(params.values(), grads, strict=True):
                    leaf -= objective.rate * grad
    return {name: leaf.detach() for name, leaf in params.items()}


def operations(classes: int, width: int, pairs: int, epochs: int, batch: int) -> float:
    """Return the operations of `fitted`: three times those of a forward pass, φ(E) again for each batch."""
    return epochs * 3.0 * (-(-pairs // batch) * 4.0 * classes * width**2 + 2.0 * pairs * classes * width)

"""NeighGen: a generator of missing neighbours (Zhang et al., "Subgraph Federated Learning with Missing Neighbor
Generation", NeurIPS 2021, Section 3).

A node's latents z come from an encoder, two layers of GraphSAGE.  dGen, linear with a rectifier, predicts how many
of its neighbours are missing; fGen draws M of them:

    h = relu(relu((z + ε) W₁ + b₁) W₂ + b₂),   ε ~ N(0, I),   x̂ⱼ = tanh(dropout(h) Vⱼ + cⱼ),   j = 1 … M

The greedy loss compares each predicted neighbour, the first ⌊dGen⌋ of the M, with the most similar true one:

    L = Σᵥ Σ_{j ≤ dᵥ} min_k ‖x̂ᵥⱼ − xᵥₖ‖² / (n M F),   zero for a node that lacks none

The paper's last layer of M · F outputs is split here into M layers of F, with the same values, so that unused
neighbours are not computed.  Noise is also drawn when a graph is mended, dropout only in training.  dGen's bias starts
at 1: with the usual draw, the rectifier is zero at every training node of one client in five on Cora, and stays zero.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor
from torch.optim.adam import adam

from algorithms.fedsage_plus import mending
from algorithms.fedsage_plus.mending import Impaired
from fedsim.core.wire import Spec
from fedsim.data.graph import Graph, with_keys
from fedsim.learn.engine import tree
from fedsim.learn.layers import dense
from fedsim.learn.model import fan_in
from fedsim.learn.models.sage import SAGE
from fedsim.learn.task import Task

Parameters = dict[str, Any]


@dataclass(frozen=True)
class NeighGen:
    """The sizes of a generator for F features; parameters are {encoder, count, features, classifier}."""

    task: Task
    hidden: int = 64  # of the encoder
    latent: int = 128
    narrow: int = 256
    wide: int = 2048
    most: int = 5  # M
    dropout: float = 0.5

    def init(self, generator: Generator) -> Parameters:
        """Return first parameters, drawn on the CPU."""
        count = {"weight": fan_in(self.latent, generator, (self.latent,)), "bias": torch.ones(())}
        drawn = {
            "encoder": self.encoder.init(self.task.features, self.latent, generator),
            "count": count,
            "features": {name: dense.layer(*ends, generator) for name, ends in self.sizes.items()},
            "classifier": self.task.model.init(self.task.features, self.task.outputs, generator),
        }
        return tree.to(drawn, self.task.device)

    @property
    def encoder(self) -> SAGE:
        """The encoder, without dropout, so that what was sent can be recomputed."""
        return SAGE(hidden=self.hidden, layers=2, dropout=0.0)

    @property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """The inputs and outputs of fGen's layers."""
        layers = {"layer1": (self.latent, self.narrow), "layer2": (self.narrow, self.wide)}
        return layers | {f"neighbour{j}": (self.wide, self.task.features) for j in range(1, self.most + 1)}

    def like(self) -> dict[str, dict[str, Spec]]:
        """Return fGen's shapes."""
        return {name: dense.layer_like(*ends) for name, ends in self.sizes.items()}

    def flops(self, rows: int) -> float:
        """Return the operations of one forward pass of fGen for a number of rows."""
        return 2.0 * rows * sum(inputs * outputs for inputs, outputs in self.sizes.values())

    # ---- what it computes

    def latents(self, params: Parameters, graph: Graph) -> Tensor:
        """Return z (N, latent)."""
        return self.encoder.forward(tree.stack([params["encoder"]]), graph)

    def counts(self, params: Parameters, z: Tensor) -> Tensor:
        """Return dGen's predictions (N,), not truncated."""
        return torch.relu(z @ params["count"]["weight"] + params["count"]["bias"])

    def truncated(self, predicted: Tensor) -> Tensor:
        """Return the predictions truncated, at most M."""
        return predicted.detach().long().clamp(max=self.most)

    def last_hidden(self, fgen: Parameters, z: Tensor, noise: Generator, *, training: bool) -> Tensor:
        """Return fGen's last hidden layer (n, wide), after dropout."""
        h = z + torch.randn(z.shape, generator=noise).to(z.device)
        for name in ("layer1", "layer2"):
            h = torch.relu(torch.addmm(fgen[name]["bias"], h, fgen[name]["weight"]))
        if not training or not self.dropout:
            return h
        keep = torch.rand(h.shape, generator=noise).to(h.device) >= self.dropout
        return h * (keep / (1 - self.dropout))

    def generated(
        self, fgen: Parameters, z: Tensor, counts: Tensor, noise: Generator, *, training: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first `counts` (n,) neighbours of each row of z: features (S, F), row (S,), and its index (S,).

        Sorted by index, then by row.
        """
        some = counts.nonzero().squeeze(1)
        h, left = self.last_hidden(fgen, z[some], noise, training=training), counts[some]
        features, rows, which = [z.new_zeros(0, self.task.features)], [some[:0]], [some[:0]]
        for j in range(self.most):
            place = (left > j).nonzero().squeeze(1)
            if len(place):
                layer = fgen[f"neighbour{j + 1}"]
                own = h if len(place) == len(h) else h[place]
                features.append(torch.tanh(torch.addmm(layer["bias"], own, layer["weight"])))
                rows.append(some[place])
                which.append(torch.full_like(place, j))
        return torch.cat(features), torch.cat(rows), torch.cat(which)

    def filled(self, params: Parameters, graph: Graph, noise: Generator) -> Graph:
        """Return the graph mended by what the generator predicts for every node."""
        with torch.no_grad():
            z = self.latents(params, graph)
            counts = self.truncated(self.counts(params, z))
            x, owner, _ = self.generated(params["features"], z, counts, noise, training=False)
        return mending.mended(graph, x, owner)

    # ---- what it learns from

    def local_loss(self, params: Parameters, z: Tensor, impaired: Impaired, noise: Generator, seed: Tensor) -> Tensor:
        """Return smooth-L1 of the counts + the greedy loss + the classifier's loss on the mended graph, at z (N', …).

        `seed` (1,) is the classifier's dropout.
        """
        predicted = self.counts(params, z)
        degree = torch.nn.functional.smooth_l1_loss(predicted[impaired.rows], impaired.counts)
        near = impaired.reach
        counts = self.truncated(predicted[near])
        x, place, which = self.generated(params["features"], z[near], counts, noise, training=True)
        owner = near[place]
        on = torch.searchsorted(impaired.rows, owner).clamp(max=len(impaired.rows) - 1)
        train = impaired.rows[on] == owner
        shape = (len(impaired.rows), self.most)
        at = on[train], which[train]
        guess = x.new_zeros(*shape, x.shape[1]).index_put(at, x[train])
        drawn = torch.zeros(shape, dtype=torch.bool, device=x.device).index_put(at, torch.ones_like(train[train]))
        graph = with_keys(mending.mended(impaired.graph, x, owner), {"seed": seed})
        label = self.task.loss(tree.stack([params["classifier"]]), graph)
        return degree + greedy(guess, impaired.lost, drawn, impaired.real) + label.sum()

    def foreign_loss(self, fgen: Parameters, z: Tensor, true: Tensor, noise: Generator) -> Tensor:
        """Return the greedy loss of all M neighbours generated from z (n, latent) against `true` (n, M, F)."""
        h = self.last_hidden(fgen, z, noise, training=True)
        layers = [fgen[f"neighbour{j}"] for j in range(1, self.most + 1)]
        guess = torch.stack([torch.tanh(torch.addmm(one["bias"], h, one["weight"])) for one in layers], dim=1)
        every = torch.ones(guess.shape[:2], dtype=torch.bool, device=guess.device)
        return greedy(guess, true, every, every)

    def judged(self, fgen: Parameters, z: Tensor, true: Tensor, noise: Generator) -> dict[str, Any]:
        """Return the gradients of `foreign_loss` by fGen and by z, as {generator, latents}."""
        own, at = _leaves(fgen), z.detach().requires_grad_(True)
        grads = torch.autograd.grad(self.foreign_loss(own, at, true, noise), [*tree.leaves(own), at])
        return {"generator": tree.filled(own, grads[:-1]), "latents": grads[-1]}

    def gradients(
        self, params: Parameters, impaired: Impaired, foreign: list[dict[str, Any]], noise: Generator, seed: Tensor
    ) -> Parameters:
        """Return the gradients of (local loss + all foreign losses) / K, K − 1 of them foreign ones received."""
        own = _leaves(params)
        z = self.latents(own, impaired.graph)
        loss = self.local_loss(own, z, impaired, noise, seed)
        for one in foreign:
            loss = loss + (one["latents"] * z[impaired.rows]).sum()
        grads = list(torch.autograd.grad(loss, list(tree.leaves(own)), materialize_grads=True))
        result: Parameters = tree.filled(own, grads)
        for one in foreign:
            torch._foreach_add_(list(tree.leaves(result["features"])), list(tree.leaves(one["generator"])))
        torch._foreach_div_(grads, float(1 + len(foreign)))
        return result


def greedy(guess: Tensor, true: Tensor, drawn: Tensor, real: Tensor) -> Tensor:
    """Return the greedy loss of guesses (n, M, F) against true neighbours (n, M', F).

    `drawn` (n, M) marks the guesses that count, `real` (n, M') the true neighbours that exist.
    """
    with torch.no_grad():  # ‖x̂‖² is the same for every k
        far = true.square().sum(2).unsqueeze(1) - 2 * torch.bmm(guess, true.transpose(1, 2))
        nearest = far.masked_fill(~real.unsqueeze(1), torch.inf).argmin(2)
        chosen = true.gather(1, nearest.unsqueeze(2).expand(-1, -1, true.shape[2]))
    counts = (drawn & real.any(1, keepdim=True)).unsqueeze(2)
    return ((guess - chosen) * counts).square().sum() / max(1, guess.numel())


@torch.no_grad()
def stepped(params: Parameters, grads: Parameters, moments: Any, lr: float, decay: float) -> tuple[Parameters, Any]:
    """Return parameters and moments after a step of Adam, both new; moments None start afresh.

    It is separate from `fedsim.learn.engine.optimiser`, which works in place, because the parameters have just been
    sent, and because passes over these large tensors dominate an epoch's time.
    """
    if moments is None:
        moments = {"steps": torch.zeros(()), "first": tree.zeros_like(params), "second": tree.zeros_like(params)}
    new, state = tree.transform(torch.clone, params), tree.transform(torch.clone, moments)
    leaves = list(tree.leaves(new))
    steps = [state["steps"].to(leaf.device, copy=True) for leaf in leaves]
    adam(
        leaves, list(tree.leaves(grads)), list(tree.leaves(state["first"])), list(tree.leaves(state["second"])), [],
        steps, fused=True, amsgrad=False, beta1=0.9, beta2=0.999, lr=lr, weight_decay=decay, eps=1e-8, maximize=False,
    )  # fmt: skip
    return new, {**state, "steps": state["steps"] + 1}


def _leaves(params: Parameters) -> Parameters:
    return tree.transform(lambda leaf: leaf.detach().requires_grad_(True), params)

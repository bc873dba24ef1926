"""Training one model on a series of graphs: one after the other, keeping what earlier ones need, or all at once.

In turn, a graph takes a number of full-batch steps of one optimiser for the whole series, on

    L = L_task + λ_r P(θ),   P(θ) = Σ_τ Σ_p I_p^τ (θ_p − θ_p^τ)²

with θ^τ the parameters after an earlier graph τ and I^τ their importance (GHOST, ICML 2025, Eq. 9): how much
neighbours' similarity depends on them,

    h^l: output of layer l, rectified save for the last;   e_ij^l = ⟨V^l h_i^l, tanh(V^l h_j^l)⟩,   V^l h = W^l h
    J^l = (1/|E|) Σ_{(i,j) ∈ E} (e_ij^l)²;   I_p = Σ_l |∂J^l/∂p|

W^l (F_in, F_out) is the layer's own weight, so that V^l leads from its output back to the width of its input.  Adam
makes a full step of whatever gradient remains, so that a large λ_r holds parameters within a few learning rates, not
exactly.  All at once is the same number of steps on the mean of the graphs' losses; nothing is retained then.

P is kept as `fedsim.learn.continual.retention` says.

Reconstructed: the public code takes the criterion of the first layer alone, and with self-loops; the authors speak of
all layers.  That J is divided by the number of edges, so that its scale does not depend on a graph's size, and that
importance is taken of each number and not of each tensor follows TWP.  Dropout is off.  Models that are not plain
layers with a `weight` are not covered (`fedsim.learn.model.plain`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedsim.core.seeds import integer
from fedsim.data.graph import Graph
from fedsim.learn.continual import retention
from fedsim.learn.engine import joining, tree
from fedsim.learn.engine.optimiser import Optimiser, StepLoss, descend, in_training
from fedsim.learn.model import Model, Parameters
from fedsim.learn.task import Task


@dataclass(frozen=True)
class Teaching:
    """How the model is trained; `pull` is λ_r, and None takes no criterion at all."""

    task: Task
    optimiser: Optimiser
    steps: int  # for each graph
    pull: float | None
    before: bool = False  # take the criterion before training on a graph; the anchor is taken after it all the same
    self_loops: bool = False  # in the criterion

    def in_turn(
        self, model: Parameters, retained: retention.Retained, graphs: Iterable[Graph], seed: int
    ) -> tuple[Parameters, retention.Retained]:
        """Return the model after all graphs in their order, and what it retains."""
        moments = None
        for number, graph in enumerate(graphs):
            first = model
            loss = self._loss(graph, retained, integer(seed, number))
            model, moments = descend(model, loss, self.optimiser, self.steps, moments)
            if self.pull is not None:
                at = first if self.before else model
                weight = importance(self.task.model, at, graph, self_loops=self.self_loops)
                retained = retention.added(retained, model, weight)
        return model, retained

    def _loss(self, graph: Graph, retained: retention.Retained, seed: int) -> StepLoss:
        def loss(params: Parameters, step: int) -> Tensor:
            new = self.task.loss(params, in_training(graph, seed, step))
            return new if self.pull is None else new + self.pull * retention.penalty(retained, params)

        return loss

    def jointly(self, model: Parameters, graphs: Sequence[Graph], seed: int) -> Parameters:
        """Return the model after as many steps as in turn, each on all graphs, each graph with the same weight."""
        joined, seeds = joining.union(graphs), [integer(seed, number) for number in range(len(graphs))]

        def loss(params: Parameters, step: int) -> Tensor:
            each = tree.transform(lambda leaf: leaf.expand(len(graphs), *leaf.shape[1:]), params)
            return self.task.loss(each, in_training(joined, seeds, step)).mean()

        return descend(model, loss, self.optimiser, self.steps * len(graphs))[0]

    def flops(self, graph: Graph, numbers: int, passes: int = 1) -> float:
        """Return the operations of one graph of a series, for a model of this many numbers.

        `passes` is how often its steps are taken: once in turn, and all at once as often as there are graphs.  The
        criterion is a pass back for each layer; the pull and its sums are six operations a number and step.
        """
        once = self.task.flops(graph)
        extra = 0.0 if self.pull is None else self.task.model.layers * once + 6.0 * (self.steps + 2) * numbers
        return passes * self.steps * once + extra


def layers(model: Model, params: Parameters, graph: Graph) -> list[Tensor]:
    """Return the output of every layer (N, ·) of parameters with a client axis of one: rectified, but the last."""
    outputs, h = [], graph["x"]
    for i in range(1, model.layers + 1):
        h = model.layer(params[f"layer{i}"], h, graph)
        h = torch.relu(h) if i < model.layers else h
        outputs.append(h)
    return outputs


def coherence(h: Tensor, weight: Tensor, pairs: Tensor) -> Tensor:
    """Return e (E,) of pairs (2, E) for a layer's output h (N, H) and weight W (F, H)."""
    back = torch.tanh(h @ weight.T) @ weight  # ⟨W h_i, tanh(W h_j)⟩ = ⟨h_i, Wᵀ tanh(W h_j)⟩: H numbers an edge, not F
    return (h[pairs[0]] * back[pairs[1]]).sum(1)


def measures(model: Model, params: Parameters, graph: Graph, *, self_loops: bool = False) -> list[Tensor]:
    """Return J () of every layer; zero where there is no pair."""
    pairs = graph["edges"]
    if self_loops:
        every = torch.arange(len(graph["y"]), device=pairs.device)
        pairs = torch.cat([pairs, torch.stack([every, every])], 1)
    outputs = layers(model, params, graph)
    weights = [params[f"layer{i}"]["weight"][0] for i in range(1, model.layers + 1)]
    each = [coherence(h, weight, pairs) for h, weight in zip(outputs, weights, strict=True)]
    return [e.square().sum() / max(1, len(e)) for e in each]


def importance(model: Model, params: Parameters, graph: Graph, *, self_loops: bool = False) -> Parameters:
    """Return I, one number for each of the parameters (without a client axis), of a graph outside training."""
    stacked = tree.transform(lambda leaf: leaf.detach().unsqueeze(0).requires_grad_(True), params)
    leaves = list(tree.leaves(stacked))
    total = [torch.zeros_like(leaf) for leaf in leaves]
    for measure in measures(model, stacked, graph, self_loops=self_loops):
        grads = torch.autograd.grad(measure, leaves, retain_graph=True, materialize_grads=True)
        total = [importance + grad.abs() for importance, grad in zip(total, grads, strict=True)]
    return tree.transform(lambda leaf: leaf[0], tree.filled(stacked, total))

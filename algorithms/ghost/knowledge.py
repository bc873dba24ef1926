"""Training one model on a series of graphs: one after the other, keeping what earlier ones need, or all at once.

In turn, a graph takes a number of full-batch steps of one optimiser for the whole series, on

    L = L_task + λ_r Σ_τ Σ_p I_p^τ (θ_p − θ_p^τ)²,   θ^τ the parameters after an earlier graph τ, I^τ their importance

(`consistency`, `retention`; GHOST, ICML 2025, reconstructed from the public code).  Adam makes a full step of
whatever gradient remains, so that a large λ_r holds parameters within a few learning rates, not exactly.  All at once
is the same number of steps on the mean of the graphs' losses; nothing is retained then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from torch import Tensor

from algorithms.ghost import consistency, retention
from algorithms.ghost.retention import Retained
from fedsim.core.seeds import integer
from fedsim.data.graph import Graph
from fedsim.learn import joining, tree
from fedsim.learn.model import Parameters
from fedsim.learn.optimiser import Optimiser
from fedsim.learn.server_training import Loss, descend, in_training
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
        self, model: Parameters, retained: Retained, graphs: Iterable[Graph], seed: int
    ) -> tuple[Parameters, Retained]:
        """Return the model after all graphs in their order, and what it retains."""
        moments = None
        for number, graph in enumerate(graphs):
            early = self._importance(model, graph) if self.before and self.pull is not None else None
            loss = self._loss(graph, retained, integer(seed, number))
            model, moments = descend(model, loss, self.optimiser, self.steps, moments)
            if self.pull is not None:
                retained = retention.added(retained, model, early or self._importance(model, graph))
        return model, retained

    def _loss(self, graph: Graph, retained: Retained, seed: int) -> Loss:
        def loss(params: Parameters, step: int) -> Tensor:
            own = self.task.loss(params, in_training(graph, seed, step))
            return own if self.pull is None else own + self.pull * retention.penalty(retained, params)

        return loss

    def _importance(self, model: Parameters, graph: Graph) -> Parameters:
        return consistency.importance(self.task.model, model, graph, self_loops=self.self_loops)

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

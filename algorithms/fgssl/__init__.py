"""FGSSL: each client's model is aligned with the global one in semantics and structure (Huang et al., IJCAI 2023).

    L = CE + λ_c L_semantic + λ_d L_structural   (views.py)

The model being trained sees a strong view of the client's graph, which lacks most edges and half of the features; the
global model, as received and without dropout, sees a weak one.  L_semantic pulls the embeddings (of the last hidden
layer) of training vertices of one class together, with τ = 0.1; L_structural distils, for each training vertex, the
distribution of its similarity over its neighbours.  Both views are drawn again in each step, from the job's seed.
Labels of validation and test vertices are never read; their features are, as neighbours', as in all training here.

Messages, averaging and weights are FedAvg's: 4 P bytes down, and 4 P + 8 up.  It works with any number of rounds; in
the only round of a one-shot run the global model is the first one, whose weights are random.

Reconstructed from its description and OpenFGL's port, since the text was not available:

- The port computes the semantic contrast and then leaves it out of the loss; here it counts (`contrast: 0`: not).
- λ_d = 0.1 is the port's; λ_c is set to the same.  The port contrasts two views of the local model, and logits.
- The port's structural term compares differences of logits feature by feature, edge by edge; here it compares
  distributions over neighbours, as the paper's name for it says.  Its temperature, 0.1, is the port's.
- Centres are training vertices only, so that no other vertex has a term of its own.

The clock bills a client for the second pass, the global model's, and both distances; fits run client by client.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from algorithms.fedavg import FedAvg
from algorithms.fgssl import views
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.seeds import integer
from fedsim.core.span import Span
from fedsim.core.units import Fraction
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Job, State, Work
from fedsim.learn.model import Parameters
from fedsim.learn.tasks.node_classification import classes_only


@dataclass(frozen=True)
class FGSSL(FedAvg):
    """With `contrast` and `distil` both 0 this is FedAvg."""

    contrast: float = 0.1  # λ_c, weight of the semantic distance
    distil: float = 0.1  # λ_d, weight of the structural distance
    tau: float = 0.1  # temperature of the contrast
    tau_structure: float = 0.1  # temperature of the neighbours' distribution
    weak_edges: Fraction = 0.3  # share of edges dropped for the global model
    weak_features: Fraction = 0.3  # share of features zeroed for the global model
    strong_edges: Fraction = 0.8  # share of edges dropped for the trained model
    strong_features: Fraction = 0.5  # share of features zeroed for the trained model

    tunes: ClassVar[Mapping[str, Span]] = {"contrast": Span(1e-3, 1.0, log=True), "distil": Span(1e-3, 1.0, log=True)}

    @property
    def compares(self) -> bool:
        """Whether there is anything beside FedAvg."""
        return bool(self.contrast or self.distil)

    def start(self) -> State:
        """Return the first model.  Raises ScenarioError for another task than classes, or a model without embedding."""
        classes_only(self.task, "'fgssl' contrasts vertices by class: take task: node_classification")
        if self.compares and self.task.model.layers < 2:
            raise ScenarioError([Problem("model.layers", "'fgssl' compares a hidden layer's output: 2 or more")])
        return super().start()

    def fit(self, job: Job, given: Tree, **how: Any) -> Work:
        """Train client by client: the distances are of all pairs of a client's vertices."""
        return super().fit(job, given, each=self.compares, **how)

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the cross-entropy and both distances (1,)."""
        plain = self.task.loss(params, data)
        if not self.compares:
            return plain
        drawn = torch.Generator().manual_seed(integer(int(data["seed"]), "fgssl"))
        strong = views.view(data, self.strong_edges, self.strong_features, drawn)
        weak = views.view(data, self.weak_edges, self.weak_features, drawn)
        own = self.task.embed(params, strong)
        with torch.no_grad():
            weak = Graph(**{key: value for key, value in weak.items() if key != "seed"})  # type: ignore[typeddict-item]
            known = self.task.embed(given["received"], weak)
        rows = data["train"]
        semantic = views.semantic(own[rows], known[rows], data["y"][rows], self.tau)
        structural = views.structural(own, known, data["edges"], rows, self.tau_structure)
        return plain + self.contrast * semantic + self.distil * structural

    def effort(self, job: Job) -> float:
        """Count the strong view as a step, the global model's pass as a third, and the distances with their slopes."""
        labelled = self.task.examples(job.data, "train")
        if not (self.compares and labelled):
            return 1.0
        distances = views.flops(labelled, job.data["edges"].shape[1], self.task.model.hidden)
        return 2 + 1 / 3 + 3 * distances / self.task.flops(job.data)

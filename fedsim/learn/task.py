"""The contract of a task: what is predicted, with which model, by which loss, and what metrics score.

A task is a frozen dataclass of options; `bind` sets its model, the width of the features and the number of
classes once.  Everything here carries the client axis (see `fedsim.learn.engine.ops`), except `init`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch import Generator, Tensor

from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import integer
from fedsim.data.graph import Graph
from fedsim.learn.engine import layout, tree
from fedsim.learn.metric import Judged, Metric
from fedsim.learn.model import Model, Parameters


class Task(ABC):
    """What is predicted; `judges` lists, as literals, what of it metrics can score (see `Metric.of`)."""

    judges: ClassVar[Sequence[str]]
    pairs: ClassVar[bool] = False  # True where a model of pairs (`PairModel`) judges each pair as a whole

    model: Model
    features: int
    classes: int  # or real targets
    seed: int
    device: str

    @property
    def outputs(self) -> int:
        """The width of the model's output: one for each class or real target."""
        return self.classes

    def require_classes(self, reason: str, key: str = "algorithm") -> None:
        """Raise ScenarioError, on behalf of an algorithm that needs nodes with classes."""
        raise ScenarioError.at(key, f"{reason}: take task: node_classification")

    def init(self) -> Parameters:
        """Return the model's first parameters on the run's device, the same for one seed whatever the device."""
        return self.drawn(integer(self.seed, "model"))

    def drawn(self, seed: int) -> Parameters:
        """Return the first parameters of this seed, for a client that starts with its own model."""
        params = self.model.init(self.features, self.outputs, Generator().manual_seed(seed))
        return tree.to(params, self.device)  # type: ignore[no-any-return]

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the model's output (N, outputs)."""
        return self.model.forward(params, graph)

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the last hidden layer's output (N, H)."""
        return self.model.embed(params, graph)

    @abstractmethod
    def loss(self, params: Parameters, graph: Graph) -> Tensor:
        """Return each client's training loss: (K,)."""

    def targets(self, graph: Graph, split: str) -> Tensor:
        """Return the indices of the rows that this split is scored on, among the graph's `rows`."""
        return graph[split].nonzero().squeeze(1)  # type: ignore[literal-required, no-any-return]

    @abstractmethod
    def judged(self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int) -> Judged:
        """Return the predictions of these rows, whose owners are (n,)."""

    def scores(
        self, output: Tensor, graph: Graph, rows: Tensor, owner: Tensor, owners: int, metrics: Mapping[str, Metric]
    ) -> dict[str, Tensor]:
        """Return the metrics of each owner (owners,) over its rows, and `weight`, the number of these rows."""
        judged = self.judged(output, graph, rows, owner, owners)
        values = {name: metric.values(judged) for name, metric in metrics.items()}
        return {**values, "weight": owner.bincount(minlength=owners)}

    def rows(self, graph: Graph) -> int:
        """Return the number of rows that `targets` may index: by default the graph's nodes."""
        return len(graph["y"])

    def answers(self, graph: Graph) -> int:
        """Return the number of rows of the model's output: by default the graph's nodes."""
        return len(graph["y"])

    def examples(self, graph: Graph, *splits: str) -> int:
        """Return how many examples there are in these splits: what the loss is a mean over, by default nodes.

        With all three splits these are all that are labelled, with "train" those to train on.
        """
        return layout.count(graph, *splits)

    def flops(self, graph: Graph) -> float:
        """Return the operations of one training step: a forward pass and a backward pass of twice its work."""
        return 3 * self.model.flops(graph, self.outputs)

    def step_bytes(self, graph: Graph) -> int:
        """Return roughly the bytes that a training step keeps beside those of the nodes: by default none."""
        return 0


def bind(task: Task, model: Model, features: int, classes: int, seed: int, device: str) -> Task:
    """Set the model and the sizes of a frozen task, once."""
    bound = {"model": model, "features": features, "classes": classes, "seed": seed, "device": device}
    for name, value in bound.items():
        object.__setattr__(task, name, value)
    return task

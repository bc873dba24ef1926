"""Class-incremental periods: the classes arrive a few at a time, in each client's own order.

The classes, in label order, are cut into groups of `classes`; an incomplete last group is dropped, and its
nodes belong to no period.  The groups are the same at all clients, the order in which a client meets them
need not be. The number of groups comes from the classes of all clients together, so every client has the same
number of periods, some possibly empty.  After Zhu, Hu and Wu, "Federated Continual Graph Learning", KDD 2025.
Not modelled: new nodes of old classes, and nodes that disappear.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from fedsim.core.errors import ScenarioError
from fedsim.core.seeds import Rng
from fedsim.core.units import Count
from fedsim.data.graph import Graph, Period, classes_of, induced, with_masks
from fedsim.data.graphs.sparsity import fewer
from fedsim.data.graphs.split import SplitOptions, official, split_all
from fedsim.data.time.arrivals import Clocked


@dataclass(frozen=True)
class ClassIncremental(Clocked):
    """See the module's docstring.

    `order`: "random" shuffles each client's groups by itself; "numpy" shuffles them as the benchmark did (it
    needs `data.split.numpy_seed`); "same" is label order everywhere; or one list of group numbers a client.
    `edges`: "removed" keeps edges inside a group only, as the paper prints it; "kept" leaves every client its
    whole graph in every period and restricts the masks alone, as the authors' code did.  `every`, `offset`
    and `table` say when a period arrives; see `fedsim.data.time.arrivals.Clocked`.
    """

    classes: Count = 2  # classes per period
    edges: Literal["removed", "kept"] = "removed"  # edges between two groups of classes
    # in which a client meets the groups of classes
    order: Literal["random", "numpy", "same"] | tuple[tuple[int, ...], ...] = "random"
    shuffle_classes: bool = False  # draw for each client which classes form a group

    def heads(self, graphs: Sequence[Graph]) -> int:
        """Return the number of classes that appear in some period; all of them where the groups are drawn."""
        return classes_of(graphs) if self.shuffle_classes else self.classes * self._periods(graphs)

    def prepare(self, graphs: Sequence[Graph], split: SplitOptions, rng: Rng) -> list[list[Period]]:
        """Return each client's periods; the split is drawn over its whole graph, before periods exist."""
        whole, orders = self._drawn(graphs, split, rng)
        groups = [self._groups(classes_of(graphs), client, rng) for client in range(len(graphs))]
        return [
            [Period(number, self._stretch(graph, own[group])) for number, group in enumerate(order)]
            for graph, own, order in zip(whole, groups, orders, strict=True)
        ]

    def _periods(self, graphs: Sequence[Graph]) -> int:
        if any("real" in graph for graph in graphs):
            message = "brings classes a few at a time, and these data have real targets: take static"
            raise ScenarioError.at("data.stream", message)
        known = classes_of(graphs)
        if known < self.classes:
            message = f"{self.classes} classes a period, but the graph has {known}; take at most {known}"
            raise ScenarioError.at("data.stream.classes", message)
        return known // self.classes

    def _drawn(self, graphs: Sequence[Graph], split: SplitOptions, rng: Rng) -> tuple[list[Graph], list[list[int]]]:
        count = self._periods(graphs)
        if self.order == "numpy":
            if split.numpy_seed is None or self.shuffle_classes:
                message = (
                    "'numpy' is the benchmark's recipe; it needs data.split.numpy_seed (the benchmark's is 2025) "
                    "and no shuffle_classes"
                )
                raise ScenarioError.at("data.stream.order", message)
            whole, orders = official(graphs, split.train, split.val, self.classes, split.numpy_seed)
            return fewer("labels", whole, split.labels, rng), orders
        whole = split_all(graphs, split, rng, self.classes)  # the same split whatever the order is
        return whole, [self._order(count, client, len(graphs), rng) for client in range(len(graphs))]

    def _order(self, count: int, client: int, clients: int, rng: Rng) -> list[int]:
        if self.order == "random":
            return [int(group) for group in rng(f"data.order.{client}").permutation(count)]
        if isinstance(self.order, str):
            return list(range(count))
        if len(self.order) != clients or sorted(self.order[client]) != list(range(count)):
            message = (
                f"it must hold {clients} lists, one a client, each with the numbers 0 to {count - 1} once; "
                f"it is {[list(own) for own in self.order]}"
            )
            raise ScenarioError.at("data.stream.order", message)
        return list(self.order[client])

    def _groups(self, known: int, client: int, rng: Rng) -> list[list[int]]:
        labels = list(range(known))
        if self.shuffle_classes:
            rng(f"data.classes.{client}").shuffle(labels)
        return [labels[at : at + self.classes] for at in range(0, known - self.classes + 1, self.classes)]

    def _stretch(self, graph: Graph, labels: list[int]) -> Graph:
        inside = torch.isin(graph["y"], torch.tensor(labels))
        if self.edges == "removed":
            return induced(graph, inside.nonzero().squeeze(1))
        return with_masks(graph, graph["train"] & inside, graph["val"] & inside, graph["test"] & inside)

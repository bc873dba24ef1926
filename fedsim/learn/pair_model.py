"""The contract of a model of pairs: it judges two vertices together, and has no embedding of either by itself.

`forward` returns one logit for each of the graph's `pairs` (2, P) at its second (`moments`): whether the two have an
event then.  So such a model cannot be asked for embeddings of vertices, and algorithms that exchange, compare or store
these do not fit; `point/pairing.py` says so before a run.
"""

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.learn.model import Model, Parameters


class PairModel(Model):
    """A model whose output has one row a pair."""

    pairs: ClassVar[bool] = True

    @abstractmethod
    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (P,) of parameters with a client axis, for the pairs of a union of as many graphs."""

    @abstractmethod
    def pair_flops(self, features: int, message: int) -> float:
        """Return the operations of judging a pair where vertices and events have that many features."""

    @abstractmethod
    def pair_bytes(self) -> int:
        """Return roughly how many bytes of values training keeps for a pair until the backward pass."""

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the operations of judging all pairs of the graph."""
        return self.pair_flops(graph["x"].shape[1], graph["message"].shape[1]) * graph["pairs"].shape[1]

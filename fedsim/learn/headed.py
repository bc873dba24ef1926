"""Models whose classifier is a linear layer: as many graph layers as `layers` says, each a hidden one.

    h = x;  h = dropout(relu(layer(h))) for all layers;  h = h / ‖h‖ if `unit`;  logits = h W + b

So a static model has the depth of a recurrent one (`fedsim.learn.recurrent`), and a comparison of both is one of
memory.  Not modelled: classifiers of several layers.
"""

from dataclasses import dataclass

from torch import Generator, Tensor

from fedsim.core.units import Fraction
from fedsim.data.graph import Graph
from fedsim.learn import dense, ops
from fedsim.learn.model import Model, Parameters
from fedsim.learn.recurrent import unit_length


@dataclass(frozen=True)
class Headed(Model):
    """Put before a model with a graph layer, this makes all its layers hidden ones and adds a linear classifier."""

    dropout: Fraction = 0.0  # share of hidden values zeroed while training; as for recurrent models
    unit: bool = False  # normalise embeddings to length 1

    def widths(self, features: int, classes: int) -> list[int]:
        """Return the widths between the graph layers."""
        return [features] + [self.hidden] * self.layers

    def init(self, features: int, classes: int, generator: Generator) -> Parameters:
        """Return the first parameters; the classifier's are drawn as `torch.nn.Linear` draws them."""
        return {
            **super().init(features, classes, generator),
            "classifier": dense.layer(self.hidden, classes, generator),
        }

    def embed(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the embedding (N, hidden)."""
        h = graph["x"]
        for i in range(1, self.layers + 1):
            h = ops.dropout(self.layer(params[f"layer{i}"], h, graph).relu(), self.dropout, graph, i)
        return unit_length(h) if self.unit else h

    def forward(self, params: Parameters, graph: Graph) -> Tensor:
        """Return the logits (N, C)."""
        last = params["classifier"]
        return ops.linear(self.embed(params, graph), last["weight"], graph, last["bias"])

    def flops(self, graph: Graph, classes: int) -> float:
        """Return the floating-point operations of one forward pass."""
        return super().flops(graph, classes) + 2.0 * len(graph["y"]) * self.hidden * classes

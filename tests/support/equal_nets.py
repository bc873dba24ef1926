"""Modules that compute what fedsim's own MLP and GCN do, from the same first values, with the same names."""

import torch
from torch import Tensor, nn


class Layer(nn.Module):
    """x W + b with W (inputs, outputs)."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(bias)


def uniform(bound: float, *shape: int) -> Tensor:
    return (torch.rand(*shape) * 2 - 1) * bound


class Mlp(nn.Module):
    """Two layers, drawn as `fedsim.learn.models.mlp` draws them."""

    def __init__(self, features: int, classes: int, hidden: int = 6) -> None:
        super().__init__()
        self.layer1 = self.drawn(features, hidden)
        self.layer2 = self.drawn(hidden, classes)

    def drawn(self, inputs: int, outputs: int) -> Layer:
        return Layer(uniform(inputs**-0.5, inputs, outputs), uniform(inputs**-0.5, outputs))

    def summed(self, h: Tensor, edge_index: Tensor) -> Tensor:
        return h

    def layer(self, layer: Layer, h: Tensor, edge_index: Tensor) -> Tensor:
        return self.summed(h @ layer.weight, edge_index) + layer.bias

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(self.layer1, x, edge_index).relu()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.layer(self.layer2, self.embed(x, edge_index), edge_index)


class Gcn(Mlp):
    """Two layers, drawn as `fedsim.learn.models.gcn` draws them."""

    def drawn(self, inputs: int, outputs: int) -> Layer:
        return Layer(uniform((6 / (inputs + outputs)) ** 0.5, inputs, outputs), torch.zeros(outputs))

    def summed(self, h: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index[:, edge_index[0] != edge_index[1]]
        root = (torch.bincount(target, minlength=len(h)) + 1).float().rsqrt().unsqueeze(1)
        scaled = root * h
        return root * scaled.index_add(0, target, scaled[source])

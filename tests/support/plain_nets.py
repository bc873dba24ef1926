"""Modules as a user writes them, without a word of fedsim: what the tests of `learn/modules/` bring."""

import warnings

import torch
from torch import Tensor, nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of PyG, about torch.jit
    from torch_geometric.nn import GCNConv, GINEConv


class Images(nn.Module):
    """A small convolutional network with BatchNorm."""

    def __init__(self, in_channels: int, num_classes: int, width: int = 4) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
        )
        self.head = nn.Linear(width * 16, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body(image))


class Gine(nn.Module):
    """A graph isomorphism network with features of edges and BatchNorm, whose second layer is residual."""

    def __init__(self, features: int, classes: int, hidden: int = 6) -> None:
        super().__init__()
        self.first = GINEConv(nn.Linear(features, hidden), edge_dim=2, train_eps=True)
        self.second = GINEConv(nn.Linear(hidden, hidden), edge_dim=2)
        self.norm = nn.BatchNorm1d(hidden)
        self.out = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor) -> Tensor:
        h = self.norm(self.first(x, edge_index, edge_attr)).relu()
        return self.out(h + self.second(h, edge_index, edge_attr))


class Words(nn.Module):
    """Two layers of a transformer over sequences of vectors, and their mean."""

    def __init__(self, classes: int, width: int = 8) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


class Convolved(nn.Module):
    """A GCN; `cached` keeps the normalised edges of the first graph that it sees."""

    def __init__(self, features: int, classes: int, cached: bool = False) -> None:
        super().__init__()
        self.conv = GCNConv(features, classes, cached=cached)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x, edge_index)


class Halving(nn.Module):
    """A GCN that halves its input first: in place, or in a copy."""

    def __init__(self, features: int, classes: int, inplace: bool = True) -> None:
        super().__init__()
        self.conv, self.inplace = GCNConv(features, classes), inplace

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.conv(x.mul_(0.5) if self.inplace else x * 0.5, edge_index)


class Adapted(nn.Module):
    """A frozen base with an adapter of low rank; the base's weight is tied to a second name."""

    def __init__(self, features: int, classes: int, rank: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.base = nn.Linear(features, classes).requires_grad_(False)
        self.down, self.up = nn.Linear(features, rank, bias=False), nn.Linear(rank, classes, bias=False)
        self.up_again, self.scale, self.dropout = self.up, nn.Parameter(torch.tensor(1.0)), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.scale * self.up(self.dropout(self.down(x)))


class Lazy(nn.Module):
    """A layer that learns its width from its first input."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class Wide(nn.Linear):
    """Returns two columns more than there are classes."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes + 2)


class Decided(nn.Linear):
    """Returns a class for each row, not its logits."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).argmax(1)


class NoModule:
    """A class that has forgotten what it descends from."""

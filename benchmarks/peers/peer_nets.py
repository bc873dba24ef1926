"""The modules that all systems train, in plain PyTorch, and the loss on a client's training rows."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class GCN(nn.Module):
    """Two layers of sums over neighbours, normalised by degrees with each node its own neighbour."""

    def __init__(self, in_channels: int, out_channels: int, hidden: int = 64) -> None:
        super().__init__()
        self.first = nn.Linear(in_channels, hidden)
        self.last = nn.Linear(hidden, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits (N, classes) of nodes x (N, F)."""
        source, target = edge_index
        root = torch.ones(len(x)).index_add(0, target, torch.ones(len(target))).rsqrt()

        def spread(h: Tensor) -> Tensor:
            own = h * root.unsqueeze(1)
            return own.index_add(0, target, own[source]) * root.unsqueeze(1)

        logits: Tensor = spread(self.last(spread(self.first(x)).relu()))
        return logits


class Convolutions(nn.Module):
    """Two convolutions over an image (1, 8, 8)."""

    def __init__(self, in_channels: int, out_channels: int, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.Flatten(),
            nn.Linear(2 * width * 16, out_channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes) of images x (N, 1, 8, 8)."""
        logits: Tensor = self.layers(x)
        return logits


def loss_of(module: nn.Module, inputs: list[Tensor], y: Tensor, rows: Tensor) -> Tensor:
    """Return the mean cross-entropy over a client's training rows."""
    return F.cross_entropy(module(*inputs)[rows], y[rows])


def built(case: dict[str, object]) -> nn.Module:
    """Return the module of a case (see `by_fedsim.py`) with its first weights."""
    kind = {"GCN": GCN, "Convolutions": Convolutions}[str(case["module"])]
    module = kind(*case["sizes"])  # type: ignore[misc]
    module.load_state_dict(case["weights"])  # type: ignore[arg-type]
    return module

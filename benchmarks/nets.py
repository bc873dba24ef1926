"""The modules that `modules.py` trains, in plain PyTorch: a perceptron, a convolutional network, a small transformer.

The fourth, a graph isomorphism network, is PyG's own.
"""

from torch import Tensor, nn


class Perceptron(nn.Module):
    """Two layers over the pixels of an image."""

    def __init__(self, classes: int, hidden: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, hidden), nn.ReLU(), nn.Linear(hidden, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, 1, 8, 8)."""
        logits: Tensor = self.layers(x)
        return logits


class Convolutions(nn.Module):
    """Two convolutions with BatchNorm."""

    def __init__(self, in_channels: int, classes: int, width: int = 16) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1, bias=False), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Flatten(),
            nn.Linear(2 * width * 16, classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, 1, 8, 8)."""
        logits: Tensor = self.layers(x)
        return logits


class Transformer(nn.Module):
    """Two layers of attention over the rows of an image as a sequence."""

    def __init__(self, classes: int, width: int = 32) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.embed = nn.Linear(8, width)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, 1, 8, 8)."""
        logits: Tensor = self.head(self.encoder(self.embed(x.squeeze(1))).mean(1))
        return logits

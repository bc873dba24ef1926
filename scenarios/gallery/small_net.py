"""A convolutional network for images of 8 times 8 pixels, with BatchNorm."""

from torch import Tensor, nn


class SmallNet(nn.Module):
    """Two convolutions, each followed by BatchNorm, and a linear layer."""

    def __init__(self, in_channels: int, num_classes: int, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(8 * width, num_classes),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits (N, C) of images (N, channels, 8, 8)."""
        return self.layers(x)

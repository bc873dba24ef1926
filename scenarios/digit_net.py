"""A small convolutional network for `digit_images.yaml`, in plain PyTorch."""

from torch import Tensor, nn


class DigitNet(nn.Module):
    """Two convolutions with BatchNorm over 8x8 pixels."""

    def __init__(self, in_channels: int, num_classes: int, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.Flatten(),
        )  # fmt: skip
        self.classifier = nn.Linear(2 * width * 16, num_classes)

    def forward(self, image: Tensor) -> Tensor:
        """Return the logits (N, classes) of images (N, channels, 8, 8)."""
        logits: Tensor = self.classifier(self.features(image))
        return logits

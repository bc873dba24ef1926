"""Handwritten digits as images (of the UCI set): 1,797 rows (1, 8, 8) scaled to 0..1, without edges.

The same rows as the data set `digits`, for models of images.
"""

from dataclasses import dataclass
from pathlib import Path

import torch

from fedsim.data.dataset import Dataset
from fedsim.data.datasets.digits import read
from fedsim.data.graph import Graph, graph_of


@dataclass(frozen=True)
class DigitImages(Dataset):
    """One channel of 8x8 pixels, and ten classes."""

    def load(self, root: Path, seed: int) -> Graph:
        """Return the rows; neither argument matters."""
        pixels, digit = read()
        images = torch.as_tensor(pixels / 16).reshape(-1, 1, 8, 8)
        return graph_of(images, torch.zeros(2, 0), torch.as_tensor(digit))

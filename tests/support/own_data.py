"""Data as a user returns them from functions and classes; what is wrong in them, too."""

import random

import numpy as np
import torch
from torch.utils.data import Dataset, TensorDataset


def rows(count: int = 60, shape: tuple[int, ...] = (3,), classes: int = 4, *, seed: int = 0):
    """Arrays of rows and their classes; `seed` is the run's."""
    drawn = np.random.default_rng(seed)
    return drawn.standard_normal((count, *shape)), np.arange(count) % classes


def real(count: int = 60, width: int = 1):
    """A tensor data set of real targets that are linear in x."""
    x = torch.linspace(-1, 1, 3 * count).view(count, 3)
    return TensorDataset(x, x[:, :width] * 2 + 0.5)


class Squares(Dataset):
    """Pairs of an image and a number, one at a time."""

    def __init__(self, count: int = 40, side: int = 4) -> None:
        self.count, self.side, self.asked = count, side, 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int):
        return torch.full((1, self.side, self.side), float(number)), number % 5


class Uneven(Squares):
    def __getitem__(self, number: int):
        return torch.zeros(1 + number // 7), 0


class Single(Squares):
    def __getitem__(self, number: int):
        return torch.zeros(3)


def raising():
    """Fail as code does."""
    raise KeyError("no column 'age'")


def nothing():
    """Return what is no data."""
    return


def a_graph():
    """Return arrays with edges."""
    return {"x": np.eye(4), "y": np.arange(4), "edge_index": np.array([[0, 1], [1, 2]]), "edge_weight": np.ones(2)}


def drawn():
    """Return rows from everybody's generators."""
    x = np.stack([np.random.rand(4), torch.rand(4).numpy(), [random.random() for _ in range(4)]], axis=1)
    return x, np.arange(4)

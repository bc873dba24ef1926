"""Codecs that send a few entries of an array: how many they are, how their values travel and are put back."""

from abc import abstractmethod
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from fedsim.net import floats
from fedsim.net.codec import Codec
from fedsim.net.floats import Array
from fedsim.net.wire import Spec, Tree
from fedsim.units import Fraction


@dataclass(frozen=True)
class Picked(Codec):
    """A share of an array's entries travels, a whole number of them and at least one; the receiver has zeros elsewhere.

    What travels is the shape as text, what tells the places, and the values in the array's own type.  An array for
    which that is no smaller (a short one, or a large share) goes whole.
    """

    share: Fraction  # of each array's entries that is sent
    feedback: bool = True  # error feedback: add what was left out to the next upload
    downwards: ClassVar[bool] = False  # a model with zeros for most of its parameters is none

    def __post_init__(self) -> None:
        """Raise ValueError for a share that sends nothing, or more than there is."""
        if not 0 < self.share <= 1:
            raise ValueError(f"option 'share' is {self.share:g}; it must be above 0 and at most 1")

    @abstractmethod
    def told_like(self, count: int) -> Tree:
        """Return a tree as large as what tells `count` places."""

    @abstractmethod
    def tell(self, flat: Array, count: int, rng: np.random.Generator) -> Tree:
        """Return what tells the places of the entries to send."""

    @abstractmethod
    def places(self, told: Tree, size: int, count: int) -> Array:
        """Return these places, `count` of `size`."""

    def factor(self, size: int, count: int) -> float:
        """Return what the sender multiplies the values by."""
        return 1.0

    def count(self, size: int) -> int:
        """Return how many of so many entries travel."""
        return max(1, round(self.share * size))

    def pieces(self, spec: Spec) -> Tree:
        """Return shape, what tells the places, and values."""
        count = self.count(prod(spec.shape))
        return [_text(spec.shape), self.told_like(count), Spec((count,), floats.packed_type(spec.dtype))]

    def shrink(self, array: Array, name: str, rng: np.random.Generator) -> Tree:
        """Choose entries and return them."""
        flat = array.reshape(-1)
        count = self.count(flat.size)
        told = self.tell(flat, count, rng)
        values = flat[self.places(told, flat.size, count)].astype(np.float64) * self.factor(flat.size, count)
        return [_text(array.shape), told, floats.pack(values, name)]

    def grow(self, pieces: Tree, name: str) -> Array:
        """Return zeros with the entries in their places."""
        text, told, packed = pieces
        shape = tuple(map(int, text.split("x")))
        values = floats.unpack(packed, name)
        flat = np.zeros(prod(shape), values.dtype)
        flat[self.places(told, flat.size, len(values))] = values
        return flat.reshape(shape)


def _text(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))

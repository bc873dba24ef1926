"""Codecs that send a few entries of an array: how many, how their values travel, and how they are put back."""

from abc import abstractmethod
from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np

from fedsim.core.arrays import Array
from fedsim.core.units import PositiveFraction
from fedsim.core.wire import Spec, Tree
from fedsim.net import floats
from fedsim.net.codec import Codec


@dataclass(frozen=True)
class Sparsifier(Codec):
    """A share of an array's entries travels, rounded and at least one; the receiver has zeros elsewhere.

    What travels is a key from which the positions follow, and the values in the array's own type.
    An array that this would not make smaller (a short one, or a large share) is sent whole.
    """

    share: PositiveFraction  # of each array's entries that is sent
    feedback: bool = True  # error feedback: add what was left out to the next upload
    downwards: ClassVar[bool] = False  # a model that is mostly zeros is useless

    @abstractmethod
    def key_like(self, count: int) -> Tree:
        """Return a tree as large as the key of `count` positions."""

    @abstractmethod
    def key(self, flat: Array, count: int, rng: np.random.Generator) -> Tree:
        """Choose the entries to send, and return the key of their positions."""

    @abstractmethod
    def positions(self, key: Tree, size: int, count: int) -> Array:
        """Return the positions of a key, `count` out of `size`."""

    def factor(self, size: int, count: int) -> float:
        """Return what the sender multiplies the values by."""
        return 1.0

    def count(self, size: int) -> int:
        """Return how many of `size` entries travel."""
        return max(1, round(self.share * size))

    def pieces(self, spec: Spec) -> Tree:
        """Return the sizes of key and values."""
        count = self.count(prod(spec.shape))
        return [self.key_like(count), Spec((count,), floats.packed_type(spec.dtype))]

    def shrink(self, array: Array, spec: Spec, rng: np.random.Generator) -> Tree:
        """Choose entries and return them."""
        flat = array.reshape(-1)
        count = self.count(flat.size)
        key = self.key(flat, count, rng)
        values = flat[self.positions(key, flat.size, count)].astype(np.float64) * self.factor(flat.size, count)
        return [key, floats.pack(values, spec.dtype)]

    def grow(self, pieces: Tree, spec: Spec) -> Array:
        """Return zeros with the entries at their positions."""
        key, packed = pieces
        values = floats.unpack(packed, spec.dtype)
        flat = np.zeros(prod(spec.shape), values.dtype)
        flat[self.positions(key, flat.size, len(values))] = values
        return flat.reshape(spec.shape)

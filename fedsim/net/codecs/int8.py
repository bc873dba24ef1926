"""Int8: values are sent as one of 255 levels, with unbiased stochastic rounding."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.core.arrays import Array
from fedsim.core.wire import Spec, Tree
from fedsim.net import floats
from fedsim.net.codec import Codec

STEPS = 127


@dataclass(frozen=True)
class Int8(Codec):
    """An array is sent as its largest magnitude (8 bytes) and integers from -127 to 127, scaled to that magnitude.

    A number between two steps is rounded up with the probability of its fractional part, so that its mean is
    unbiased (QSGD, Alistarh et al., NeurIPS 2017, with the largest magnitude in place of the norm).  Not
    modelled: a scale per row, error feedback.
    """

    keeps_shape: ClassVar[bool] = True

    def pieces(self, spec: Spec) -> Tree:
        """Return a number, and the same shape with 1 byte a number."""
        return [0.0, Spec(spec.shape, "int8")]

    def shrink(self, array: Array, spec: Spec, rng: np.random.Generator) -> Tree:
        """Return the largest magnitude and the steps."""
        wide = array.astype(np.float64)
        largest = max(float(np.abs(wide).max()), float(np.finfo(np.float64).tiny))  # avoids dividing by zero
        steps = np.floor(wide / largest * STEPS + rng.random(wide.shape))
        return [largest, np.clip(steps, -STEPS, STEPS).astype(np.int8)]

    def grow(self, pieces: Tree, spec: Spec) -> Array:
        """Return the steps scaled to the largest magnitude."""
        largest, steps = pieces
        return floats.narrow(steps / np.float64(STEPS) * largest, spec.dtype)

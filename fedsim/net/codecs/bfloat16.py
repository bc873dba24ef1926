"""Bfloat16: values are sent as the upper 16 bits of a float32."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.core.wire import Spec
from fedsim.net import floats
from fedsim.net.codec import Codec
from fedsim.net.floats import Array


@dataclass(frozen=True)
class Bfloat16(Codec):
    """float32 and float64 become bfloat16: 8 significant bits with the range of a float32.

    A finite number that would round to infinity travels as the largest bfloat16; infinities and NaN stay as they are.
    A float64 is rounded to float32 first.
    """

    finite: ClassVar[bool] = False

    def pieces(self, spec: Spec) -> Spec:
        """Return the same shape with 2 bytes a number."""
        return Spec(spec.shape, "uint16")

    def shrink(self, array: Array, name: str, rng: np.random.Generator) -> Array:
        """Round to the nearest, ties to even, and return the bits."""
        return floats.to_bits(array)

    def grow(self, pieces: Array, name: str) -> Array:
        """Return the same numbers in the wider type."""
        return floats.narrow(floats.from_bits(pieces), name)

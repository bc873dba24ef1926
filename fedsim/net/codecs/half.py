"""Half: values are sent as 16-bit IEEE 754 floating point."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedsim.core.wire import Spec
from fedsim.net import floats
from fedsim.net.codec import Codec
from fedsim.net.floats import Array


@dataclass(frozen=True)
class Half(Codec):
    """float32 and float64 become float16: 11 significant bits, from 6e-8 up to 65504.

    A finite number beyond that travels as ±65504, one below as zero; infinities and NaN stay as they are.
    """

    finite: ClassVar[bool] = False

    def pieces(self, spec: Spec) -> Spec:
        """Return the same shape with 2 bytes a number."""
        return Spec(spec.shape, "float16")

    def shrink(self, array: Array, name: str, rng: np.random.Generator) -> Array:
        """Round to the nearest, ties to even."""
        return floats.narrow(array, "float16")

    def grow(self, pieces: Array, name: str) -> Array:
        """Return the same numbers in the wider type."""
        return floats.narrow(pieces, name)

"""Half: values are sent as 16-bit IEEE 754 floating point."""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.net.codec import Narrowing


@dataclass(frozen=True)
class Half(Narrowing):
    """float32 and float64 become float16: 11 significant bits, from 6e-8 up to 65504.

    A finite number beyond that travels as ±65504, one below as zero; infinities and NaN stay as they are.
    """

    narrow: ClassVar[str] = "float16"

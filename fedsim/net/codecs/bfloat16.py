"""Bfloat16: values are sent as the upper 16 bits of a float32."""

from dataclasses import dataclass
from typing import ClassVar

from fedsim.net.codec import Narrowing


@dataclass(frozen=True)
class Bfloat16(Narrowing):
    """float32 and float64 become bfloat16: 8 significant bits with the range of a float32.

    A finite number that would round to infinity travels as the largest bfloat16; infinities and NaN stay as
    they are. A float64 is rounded to float32 first.
    """

    narrow: ClassVar[str] = "bfloat16"

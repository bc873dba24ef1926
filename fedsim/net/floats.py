"""Floating-point arrays of numpy and torch: their values, narrower types, bfloat16 as its bits.

Arrays are recognised by `shape` and `dtype`, a tensor by `detach`, so that torch is not imported here.  numpy
has no bfloat16: its values are kept as float32, and travel as the upper 16 bits of those.
"""

from typing import Any

import numpy as np

from fedsim.core.arrays import Array
from fedsim.core.wire import Spec

LETTERS = {"float16": "e", "float32": "f", "float64": "d", "bfloat16": "b"}  # one byte per type
NAMES = {letter: name for name, letter in LETTERS.items()}
BFLOAT16_MAX = float.fromhex("0x1.fep127")


def is_array(node: Any) -> bool:
    """Return whether a node of a tree is an array, as core/wire.py sees it."""
    return hasattr(node, "shape") and hasattr(node, "dtype")


def spec(node: Any) -> Spec:
    """Return shape and type of an array, a tensor or a Spec."""
    return Spec(tuple(node.shape), str(node.dtype).removeprefix("torch."))


def values(node: Any) -> Array:
    """Return an array's values as numpy's; they may share memory with it.  Raises ValueError for a Spec."""
    if isinstance(node, Spec):
        raise ValueError(f"{node} stands for an array and has no values to encode")
    if not hasattr(node, "detach"):
        return np.asarray(node)
    tensor = node.detach().cpu()
    return np.asarray((tensor.float() if spec(node).dtype == "bfloat16" else tensor.resolve_neg()).numpy())


def kin(array: Array, like: Any) -> Any:
    """Return the values as the same kind of array as `like`: a tensor of its type on its device, or numpy's."""
    return like.new_tensor(array) if hasattr(like, "new_tensor") else array


def narrow(array: Array, name: str) -> Array:
    """Return the nearest values of a type, ties to even; finite values stay finite, at most the type's largest number.

    bfloat16 is returned as float32, and a float64 is rounded to float32 on the way there.
    """
    if name == "bfloat16":
        return from_bits(to_bits(array))
    kind = np.dtype(name)
    return (array if array.dtype.itemsize <= kind.itemsize else _clipped(array, np.finfo(kind).max)).astype(kind)


def to_bits(array: Array) -> Array:
    """Return the bits of the nearest bfloat16s, as uint16; infinities and NaN stay as they are."""
    bits = _clipped(array, BFLOAT16_MAX).astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(array), 0x7FC0, rounded).astype(np.uint16)


def from_bits(bits: Array) -> Array:
    """Return the bfloat16s with these bits, as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def pack(array: Array, name: str) -> Array:
    """Return what travels for values of a type: the values themselves, or the bits of bfloat16."""
    return to_bits(array) if name == "bfloat16" else narrow(array, name)


def unpack(packed: Array, name: str) -> Array:
    """Return the values from the output of `pack`."""
    return from_bits(packed) if name == "bfloat16" else packed


def packed_type(name: str) -> str:
    """Return the type of the array that `pack` returns."""
    return "uint16" if name == "bfloat16" else name


def _clipped(array: Array, most: Any) -> Array:
    return np.where(np.isinf(array), array, np.clip(array, -float(most), float(most))).astype(array.dtype, copy=False)

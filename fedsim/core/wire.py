"""The wire format: trees of arrays, their exact size in bytes, and the bytes themselves.

A tree is None, a bool, int, float, str or bytes, an array, or a dict (str keys), list or tuple of trees.  The format
is the length of a msgpack skeleton (4 bytes), the skeleton (names, dtypes, shapes, texts), then raw buffers in the
order of the tree: an int or a float takes 8 bytes there, an array its own bytes, row by row, little-endian.  So the
size follows from names, dtypes and shapes and never from values.  An array is any object with `shape` and `dtype`:
numpy's, a tensor on any device, or a `Spec`.  Not modelled: compression, sparse arrays, framing and encryption.
"""

import math
import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgpack
import numpy as np

from fedsim.core.arrays import Array
from fedsim.core.units import MOST_BYTES

Tree = Any
ITEM = {
    **dict.fromkeys(("bool", "int8", "uint8"), 1),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int64", "uint64", "float64", "complex64"), 8),
    "complex128": 16,
}
PREFIX, SLOT = 4, 8
ENVELOPE = 1024  # bytes that may come on top of the largest size, so that a payload of that size can travel
LEAST, MOST = -(1 << 63), (1 << 63) - 1
INT, FLOAT, TUPLE, ARRAY = 0, 1, -1, -2  # the only integers in a skeleton besides shapes
PLAIN = frozenset({bool, int, float, str, bytes, type(None)})
KnownSizes = dict[int, tuple[dict[str, Any], int]]  # by identity: a dict, and its size without the prefix


@dataclass(frozen=True)
class Spec:
    """An array that is not computed yet: it has a size but cannot be encoded."""

    shape: tuple[int, ...]
    dtype: str


def size(tree: Tree, known: KnownSizes | None = None) -> int:
    """Return len(encode(tree)) without encoding anything; ValueError for what cannot be encoded or is too large.

    Dicts that are `known` are not measured again, and those of the tree are added.
    """
    nbytes = PREFIX + _size(tree, known)
    if nbytes > MOST_BYTES + ENVELOPE:
        raise ValueError(f"{nbytes:,} bytes are too many for one message; {MOST_BYTES:,} are allowed")
    return nbytes


class Sizes:
    """Sizes of trees that share parts, such as downloads of one model: no dict is measured twice.

    The dicts are kept alive, so that their identities stay unique, and must not change while this is in use.
    """

    def __init__(self) -> None:
        self._known: KnownSizes = {}
        self._alike: dict[tuple[Any, ...], tuple[Tree, int]] = {}  # by `identities`

    def of(self, tree: Tree) -> int:
        """Return `size(tree)`."""
        key = identities(tree)
        met = self._alike.get(key)
        if met is None:
            met = self._alike[key] = tree, size(tree, self._known)
        return met[1]


def identities(tree: Tree) -> tuple[Any, ...]:
    """Return what only dicts of the very same objects under the same names share; of any other tree its identity."""
    return (*tree, *map(id, tree.values())) if type(tree) is dict else (id(tree),)


class SizedTree(dict[str, Tree]):
    """A tree that must not change, whose size is computed once."""

    def __init__(self, **tree: Tree) -> None:
        """Measure it.  Raises ValueError as `size` does."""
        super().__init__(tree)
        self.measured = size(tree) - PREFIX, array_bytes(tree)


def array_bytes(tree: Tree) -> int:
    """Return the bytes of the arrays' raw buffers alone, without names, shapes and single numbers."""
    if isinstance(tree, dict):
        if type(tree) is not dict and (measured := getattr(tree, "measured", None)) is not None:
            return int(measured[1])
        return sum(map(array_bytes, tree.values()))
    if isinstance(tree, list | tuple):
        return sum(map(array_bytes, tree))
    return 0 if type(tree) in PLAIN or not (kind := _array_kind(tree)) else _measured_array(*kind)[1]


def encode(tree: Tree) -> bytes:
    """Return the tree as bytes; ValueError for what cannot be encoded, such as a Spec."""
    buffers: list[bytes] = []
    skeleton = msgpack.packb(_strip(tree, buffers))
    return b"".join([len(skeleton).to_bytes(PREFIX, "big"), skeleton, *buffers])


def decode(data: bytes) -> Tree:
    """Return the tree from its bytes, with new numpy arrays (bfloat16 as float32).

    Raises ValueError for bytes that `encode` does not write.
    """
    tree, used = decode_first(data)
    if used != len(data):
        raise ValueError(f"malformed tree: {len(data) - used} bytes are left over")
    return tree


def decode_first(data: bytes) -> tuple[Tree, int]:
    """Return the first of several trees whose bytes follow each other, as `decode` does, and how many bytes it took."""
    end = PREFIX + int.from_bytes(data[:PREFIX], "big")
    if len(data) < PREFIX or len(data) < end:
        raise ValueError(f"malformed tree: {len(data)} bytes are too few")
    try:
        return _fill(msgpack.unpackb(data[PREFIX:end]), data, end)
    except (ValueError, TypeError, struct.error, RecursionError, OverflowError) as error:
        raise ValueError(f"malformed tree: {error}") from error


def _array_kind(node: Any) -> tuple[type, Any, tuple[int, ...], Any] | None:
    """Return the class, dtype, shape and layout of an array, on which its size depends; None for what is no array."""
    if not (hasattr(node, "shape") and hasattr(node, "dtype")):
        return None
    shape = node.shape
    return type(node), node.dtype, shape if isinstance(shape, tuple) else tuple(shape), getattr(node, "layout", None)


@lru_cache(maxsize=4096)  # a model's few shapes are measured again and again
def _measured_array(kind: type, dtype: Any, shape: tuple[int, ...], layout: Any) -> tuple[int, int]:
    """Return an array's bytes in skeleton and buffers together, and in the buffers alone."""
    name, raw = _array(kind, dtype, shape, layout)
    return _head(2 + len(shape), 16) + 1 + _text(name) + sum(map(_whole, shape)) + raw, raw


def _array(kind: type, dtype: Any, shape: tuple[int, ...], layout: Any) -> tuple[str, int]:
    """Return dtype name and bytes of an array."""
    if hasattr(kind, "tocsr") or (layout is not None and str(layout) != "torch.strided"):
        raise ValueError(f"a sparse array {shape} cannot travel: send its indices and values")
    name = str(dtype).removeprefix("torch.")
    if name not in ITEM:
        raise ValueError(f"arrays of dtype '{name}' cannot travel; those that can: {', '.join(ITEM)}")
    return name, math.prod(shape) * ITEM[name]


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise ValueError(f"the key {key!r} is of type {type(key).__name__}; keys of a tree are of type str")


def _size(node: Any, known: KnownSizes | None) -> int:
    """Return the bytes of a node in skeleton and buffers; known dicts are not measured again."""
    if isinstance(node, dict):
        if known is not None and (met := known.get(id(node))) is not None:
            return met[1]
        if type(node) is not dict and (measured := getattr(node, "measured", None)) is not None:
            return int(measured[0])
        total = _head(len(node), 16)
        for key, value in node.items():
            total += _key(key)
            if type(value) is int and LEAST <= value <= MOST:
                total += 1 + SLOT
            else:
                total += _size(value, known)
        if known is not None:
            known[id(node)] = node, total
        return total
    if type(node) not in PLAIN:
        if kind := _array_kind(node):
            return _measured_array(*kind)[0]
        if isinstance(node, list | tuple):
            marker = int(isinstance(node, tuple))
            return _head(len(node) + marker, 16) + marker + sum([_size(value, known) for value in node])
    return _plain_size(node)


def _plain_size(node: Any) -> int:
    if node is None or isinstance(node, bool):
        return 1
    if isinstance(node, int | float):
        _check_number(node)
        return 1 + SLOT
    if isinstance(node, str):
        return _text(node)
    if isinstance(node, bytes):
        return max(2, _head(len(node), 0, 256)) + len(node)
    raise ValueError(f"a value of type {type(node).__name__} cannot travel")


@lru_cache(maxsize=4096)
def _key(key: Any) -> int:
    _check_key(key)
    return _text(key)


def _head(count: int, tiny: int, small: int = 0) -> int:
    """Return how many bytes a length takes in msgpack."""
    return 1 if count < tiny else 2 if count < small else 3 if count < 1 << 16 else 5


def _text(text: str) -> int:
    length = len(text) if text.isascii() else len(text.encode())
    return _head(length, 32, 256) + length


def _whole(number: int) -> int:
    return _head(number, 128, 256) if number < 1 << 32 else 9


def _check_number(number: int | float) -> None:
    if not isinstance(number, float) and not LEAST <= number <= MOST:
        raise ValueError(f"the integer {number} does not fit into 64 bits")


def _strip(node: Any, buffers: list[bytes]) -> Any:
    """Return the skeleton of a node, and append its raw buffers to the list."""
    if kind := _array_kind(node):
        name, _ = _array(*kind)
        buffers.append(_raw(node, name))
        return [ARRAY, name, *kind[2]]
    if isinstance(node, dict):
        for key in node:
            _check_key(key)
        return {str(key): _strip(value, buffers) for key, value in node.items()}
    if isinstance(node, list | tuple):
        return [TUPLE] * isinstance(node, tuple) + [_strip(value, buffers) for value in node]
    if node is None or isinstance(node, bool | str | bytes):
        return node
    if isinstance(node, int | float):
        _check_number(node)
        mark, form = (FLOAT, "<d") if isinstance(node, float) else (INT, "<q")
        buffers.append(struct.pack(form, node))
        return mark
    raise ValueError(f"a value of type {type(node).__name__} cannot travel")


def _raw(node: Any, name: str) -> bytes:
    if isinstance(node, Spec):
        raise ValueError(f"{node} stands for an array and has no values to encode")
    if hasattr(node, "detach"):
        tensor = node.detach().cpu()
        node = (tensor.float() if name == "bfloat16" else tensor.resolve_conj().resolve_neg()).numpy()
    array: Array = np.asarray(node)
    if name == "bfloat16":
        array = (array.astype("<f4").view("<u4") >> 16).astype("<u2")
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _fill(node: Any, data: bytes, at: int) -> tuple[Tree, int]:
    """Return the tree of a skeleton's node, its buffers starting at byte `at`, and where they end."""
    if node is None or isinstance(node, bool | str | bytes):
        return node, at
    if isinstance(node, dict):
        full = {}
        for key, value in node.items():
            _check_key(key)
            full[key], at = _fill(value, data, at)
        return full, at
    if isinstance(node, list):
        marker = node[0] if node and type(node[0]) is int else INT
        if marker == ARRAY:
            return _array_at(node, data, at)
        items = []
        for value in node[marker == TUPLE :]:
            item, at = _fill(value, data, at)
            items.append(item)
        return (tuple(items) if marker == TUPLE else items), at
    if node in (INT, FLOAT) and type(node) is int:
        return struct.unpack_from("<d" if node == FLOAT else "<q", data, at)[0], at + SLOT
    raise ValueError(f"unknown mark {node!r}")


def _array_at(node: list[Any], data: bytes, at: int) -> tuple[Tree, int]:
    _, name, *shape = node if len(node) > 1 else (ARRAY, None)
    if name not in ITEM or not all(type(length) is int and length >= 0 for length in shape):
        raise ValueError(f"unknown array {node!r}")
    end = at + math.prod(shape) * ITEM[name]
    if end > len(data):
        raise ValueError(f"{end - len(data)} bytes are missing")
    if name == "bfloat16":
        wide = np.frombuffer(data[at:end], "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape), end
    return np.frombuffer(data[at:end], np.dtype(name).newbyteorder("<")).astype(name).reshape(shape), end

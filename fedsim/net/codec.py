"""Codec: compresses a download or an upload before it travels, which changes its bytes, its time and its values.

A codec is a frozen dataclass of options without state.  It defines what travels in place of one
floating-point array; this module does the rest.  Everything else stays as it is, and so does an array with
one entry or one that the codec would not make smaller; the memory of error feedback is passed in and out.  A
codec for differences changes only the difference in an upload and leaves everything else alone: prototypes,
embeddings, counts.  No codec changes the buffers of a module (`EXACT`).

Error feedback (Stich et al., NeurIPS 2018, Algorithm 1; Karimireddy et al., ICML 2019): what a codec leaves
out of an array is added to the next array at the same place of the tree, so that all values received and the
memory add up to all values given.  It is meant for differences, which the receiver adds up, not for models.

Not modelled: entropy coding, the time and energy of compression, and senders that detect the loss of an
upload: what was sent counts as received.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any, ClassVar

import numpy as np

from fedsim.core import wire
from fedsim.core.arrays import Array
from fedsim.core.wire import Spec, Tree
from fedsim.net import floats, marks

CodecMemory = dict[str, Any]
EXACT = "buffers"  # the key of statistics such as variances, which must not be rounded to zero
DIFFERENCE = "update"  # the key of the difference to what was received, in an upload that names it


class Codec(ABC):
    """The contract of the files in `codecs/`: the first three methods; the others follow from them.

    `spec` has the shape and the type of the original array; arrays are numpy's and must not be changed.
    Their own type may be wider: values of bfloat16 are float32 here, and with `feedback` those of float16
    too.  Pieces are one array, or a list of arrays, numbers and texts.
    """

    downwards: ClassVar[bool] = True  # False if it makes no sense for a whole model
    finite: ClassVar[bool] = True  # whether it needs finite values
    keeps_shape: ClassVar[bool] = False  # True if the (last) piece has the array's shape, which else travels before it
    feedback: bool = False  # whether what it leaves out is added to the next array

    @abstractmethod
    def pieces(self, spec: Spec) -> Tree:
        """Return a tree as large as what `shrink` returns for an array of this shape and type."""

    @abstractmethod
    def shrink(self, array: Array, spec: Spec, rng: np.random.Generator) -> Tree:
        """Return what travels in place of an array of two or more entries."""

    @abstractmethod
    def grow(self, pieces: Tree, spec: Spec) -> Array:
        """Return the array that the receiver reconstructs, with the original shape and type (float32 for bfloat16)."""

    def like(self, tree: Tree) -> Tree:
        """Return a tree as large as the encoded one, with Specs for arrays; the tree may hold Specs itself."""
        return marks.transform(floats.spec, marks.split_arrays(tree, self._choice(tree)))

    def encode(self, tree: Tree, memory: CodecMemory, rng: np.random.Generator) -> tuple[Tree, CodecMemory]:
        """Return the encoded tree (net/marks.py) and the memory after it: what was left out, by the array's path.

        A remembered array whose shape no longer fits is dropped; one whose place is not in the tree is kept.
        Raises ValueError for values that are not finite if the codec needs finite ones, and for values that
        cannot travel.
        """
        after, sizes_of = dict(memory), self._choice(tree)

        def pieces_of(path: str, node: Any) -> Tree:
            left, spec = after.pop(path, None), floats.spec(node)
            if sizes_of(path, node) is None:
                return None
            array = floats.values(node)
            if self.feedback:
                array = _plus(array, left)
            if self.finite and not np.isfinite(array).all():
                raise ValueError(
                    f"{path or 'the tree'} holds values that are not finite, which the codec {type(self).__name__} "
                    "cannot send: the training has diverged; lower its learning rate, or take the codec half"
                )
            pieces = self.shrink(array, spec, rng)
            if self.feedback:
                after[path] = array - self._grown(pieces, spec)
            return self._sent(pieces, spec)

        return marks.split_arrays(tree, pieces_of), after

    def decode(self, encoded: Tree) -> Tree:
        """Return the tree that the receiver has, with compressed arrays as numpy's (bfloat16 as float32).

        Raises ValueError for a tree that is not the output of `encode`.
        """
        return marks.join_arrays(encoded, self._received)

    def _choice(self, tree: Tree) -> Callable[[str, Any], Tree]:
        """Return a function from an array's path and the array to the specs of its pieces, or None if it stays."""
        if isinstance(tree, dict) and EXACT in tree:
            others = self._choice({key: value for key, value in tree.items() if key != EXACT})
            return lambda path, node: None if path.split("/")[1] == EXACT else others(path, node)
        if self.downwards or not isinstance(tree, dict) or DIFFERENCE not in tree:
            return lambda path, node: self._pieces_of(node)
        return lambda path, node: self._pieces_of(node) if path.split("/")[1] == DIFFERENCE else None

    def _pieces_of(self, node: Any) -> Tree:
        """Return the specs of an array's pieces, or None if it travels as it is."""
        spec, plain_size = floats.spec(node), wire.size(node)  # raises for what cannot travel
        if spec.dtype not in floats.LETTERS or prod(spec.shape) < 2:
            return None
        pieces = self._sent(self.pieces(spec), spec)
        return pieces if wire.size(pieces) + marks.COST < plain_size else None

    def _sent(self, pieces: Tree, spec: Spec) -> Tree:
        """Return the pieces with the shape before them, such as "64x32", where they do not have it themselves."""
        if self.keeps_shape:
            return pieces
        return ["x".join(map(str, spec.shape)), *(pieces if isinstance(pieces, list) else [pieces])]

    def _received(self, sent: Tree, name: str) -> Array:
        """Return the array of this type for what `_sent` has returned."""
        if self.keeps_shape:
            return self._grown(sent, Spec((sent[-1] if isinstance(sent, list) else sent).shape, name))
        text, *pieces = sent
        spec = Spec(tuple(map(int, text.split("x"))), name)
        return self._grown(pieces if isinstance(self.pieces(spec), list) else pieces[0], spec)

    def _grown(self, pieces: Tree, spec: Spec) -> Array:
        """Return the reconstructed array.  Raises ValueError if it is of another shape."""
        array = self.grow(pieces, spec)
        if array.shape != spec.shape:
            wrong = f"{type(self).__name__}.grow has returned the shape {array.shape}, and that of the array"
            raise ValueError(f"{wrong} is {spec.shape}: return it as spec.shape says")
        return array


class Narrowing(Codec):
    """A codec that sends every number in the narrower floating-point type `narrow`."""

    finite: ClassVar[bool] = False
    keeps_shape: ClassVar[bool] = True
    narrow: ClassVar[str]

    def pieces(self, spec: Spec) -> Spec:
        """Return the same shape with fewer bytes a number."""
        return Spec(spec.shape, floats.packed_type(self.narrow))

    def shrink(self, array: Array, spec: Spec, rng: np.random.Generator) -> Array:
        """Round to the nearest, ties to even."""
        return floats.pack(array, self.narrow)

    def grow(self, pieces: Array, spec: Spec) -> Array:
        """Return the same numbers in the wider type."""
        return floats.narrow(floats.unpack(pieces, self.narrow), spec.dtype)


def compress(codec: Codec, tree: Tree, memory: CodecMemory, rng: np.random.Generator) -> tuple[Tree, Tree, CodecMemory]:
    """Return the encoded tree, the tree that the receiver has, and the sender's memory after it.

    The receiver's arrays have the kind, type and device of the sender's; arrays that travel as they are stay
    the same objects.
    """
    encoded, after = codec.encode(tree, memory, rng)
    return encoded, marks.transform(_revived, tree, codec.decode(encoded)), after


def _plus(array: Array, left: Array | None) -> Array:
    """Return the array plus what was left of the last one, at least as float32; overflows become infinite."""
    total = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    if left is None or left.shape != total.shape:
        return total
    with np.errstate(over="ignore"):
        return np.asarray(total + left, total.dtype)


def _revived(first: Any, received: Any) -> Any:
    return first if received is first else floats.kin(received, first)

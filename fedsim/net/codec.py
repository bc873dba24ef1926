"""Codec: what squeezes a download or an upload before it travels; it changes bytes, so time, and the values received.

A codec is a frozen dataclass of options and holds no state.  It says for one floating-point array what travels in its
place; this module does the rest: everything else stays as it is, so does an array that squeezing would not make
smaller or that has one entry, and what error feedback has to remember goes in and comes out.  A codec that is for
differences leaves alone what an upload tells beside the difference that it names: prototypes, embeddings, counts.

Error feedback (Stich et al., NeurIPS 2018, Algorithm 1; Karimireddy et al., ICML 2019): what a codec leaves out of an
array is added to the next array at the same place of the tree, so that all that was received and what is remembered
add up to all that was given.  It is meant for differences, which the receiver adds up, not for models.

Not modelled: entropy coding, the time and energy of squeezing, and a sender that hears that its upload was lost: what
it has sent counts as sent.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import prod
from typing import Any, ClassVar

import numpy as np

from fedsim.net import floats, marks, wire
from fedsim.net.floats import Array
from fedsim.net.wire import Spec, Tree

Memory = dict[str, Any]
DIFFERENCE = "update"  # the key of the difference to what was received, in an upload that names it


class Codec(ABC):
    """The contract of the files in `codecs/`: its first three methods; the others follow from them.

    An array is numpy's and must not be changed; `name` is the type it came with (bfloat16's values are float32 here).
    """

    downwards: ClassVar[bool] = True  # False where it makes no sense for a whole model
    finite: ClassVar[bool] = True  # whether it needs finite values
    feedback: bool = False  # whether what it leaves out is added to the next array

    @abstractmethod
    def pieces(self, spec: Spec) -> Tree:
        """Return a tree as large as what `shrink` returns for an array of this shape and type."""

    @abstractmethod
    def shrink(self, array: Array, name: str, rng: np.random.Generator) -> Tree:
        """Return what travels for an array of two entries or more."""

    @abstractmethod
    def grow(self, pieces: Tree, name: str) -> Array:
        """Return the array that the other side makes of it, in its first shape and type."""

    def like(self, tree: Tree) -> Tree:
        """Return a tree as large as the encoded one, with Specs for arrays; the tree may hold Specs itself."""
        return marks.transform(floats.spec, marks.apart(tree, self._choice(tree)))

    def encode(self, tree: Tree, memory: Memory, rng: np.random.Generator) -> tuple[Tree, Memory]:
        """Return the encoded tree (net/marks.py) and the memory after it: what was left out, by the array's path.

        A remembered array whose shape does not fit any more is dropped; one whose place is not in the tree is kept.
        Raises ValueError for a value that is not finite, where the codec needs finite ones, and for what cannot travel.
        """
        after, sizes_of = dict(memory), self._choice(tree)

        def pieces_of(path: str, node: Any) -> Tree:
            left, name = after.pop(path, None), floats.spec(node).dtype
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
            pieces = self.shrink(array, name, rng)
            if self.feedback:
                after[path] = array - self.grow(pieces, name)
            return pieces

        return marks.apart(tree, pieces_of), after

    def decode(self, encoded: Tree) -> Tree:
        """Return the tree that the other side has, squeezed arrays as numpy's (bfloat16 as the float32 that hold it).

        Raises ValueError for what `encode` does not make.
        """
        return marks.together(encoded, self.grow)

    def _choice(self, tree: Tree) -> Callable[[str, Any], Tree]:
        """Return what gives, by an array's path in this tree and the array, the sizes of what stands for it."""
        if self.downwards or not isinstance(tree, dict) or DIFFERENCE not in tree:
            return lambda path, node: self._pieces_of(node)
        return lambda path, node: self._pieces_of(node) if path.split("/")[1] == DIFFERENCE else None

    def _pieces_of(self, node: Any) -> Tree:
        """Return the sizes of what stands for an array, or None where it goes as it is."""
        spec, whole = floats.spec(node), wire.size(node)  # which raises for what cannot travel
        if spec.dtype not in floats.LETTERS or prod(spec.shape) < 2:
            return None
        pieces = self.pieces(spec)
        return pieces if wire.size(pieces) + marks.COST < whole else None


def squeeze(codec: Codec, tree: Tree, memory: Memory, rng: np.random.Generator) -> tuple[Tree, Tree, Memory]:
    """Return the encoded tree, the tree that the receiver has, and the sender's memory after it.

    The receiver's arrays are of the kind, type and device of the sender's; arrays that went as they are, are the same.
    """
    encoded, after = codec.encode(tree, memory, rng)
    return encoded, marks.transform(_revived, tree, codec.decode(encoded)), after


def _plus(array: Array, left: Array | None) -> Array:
    """Return the array plus what was left of the last one, no coarser than float32; overflows become infinite."""
    total = array.astype(np.float64 if array.dtype == np.float64 else np.float32)
    if left is None or left.shape != total.shape:
        return total
    with np.errstate(over="ignore"):
        return np.asarray(total + left, total.dtype)


def _revived(first: Any, received: Any) -> Any:
    return first if received is first else floats.kin(received, first)

"""A promised upload behind a codec: squeezed when somebody opens it, its size known before.

An upload that is not finite, under a codec that needs it to be, reaches the server as it is, to be refused there.

It models no time: squeezing costs the client nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedsim.net import wire
from fedsim.net.codec import Codec, Memory, squeeze
from fedsim.net.finite import is_finite
from fedsim.net.promised import Once, WorkPromise
from fedsim.net.wire import Tree


class Squeezed(Once):
    """A promised upload that a codec squeezes when it is opened; its `parcel` is what a message carries.

    `take` and `keep` fetch and store the codec's memory of this client, `rng` is this client's own stream.  Both are
    used once, when it is opened; `memory` opens it, so the uploads of a client are squeezed in the order of its jobs.
    """

    def __init__(
        self,
        inner: WorkPromise,
        codec: Codec,
        rng: np.random.Generator,
        take: Callable[[], Memory],
        keep: Callable[[Memory], None],
    ) -> None:
        """Squeeze nothing yet."""
        super().__init__(inner)
        self._codec, self._rng = codec, rng
        self._take, self._keep = take, keep
        self._nbytes: int | None = None

    @property
    def nbytes(self) -> int:
        """The encoded upload's size; does the work only where the algorithm does not declare the upload's shapes."""
        if self._nbytes is None:
            like = self.like
            self._nbytes = wire.size(self._codec.like(super().value() if like is None else like))
        return self._nbytes

    def value(self) -> Tree:
        """Return the upload as the server has it.

        Raises ValueError where its size is not the one told before.
        """
        return self.outcome()[1]

    @property
    def parcel(self) -> "Parcel":
        """What travels, for a message."""
        return Parcel(self)

    def encoded(self) -> Tree:
        """Return the tree that travels."""
        return self.outcome()[0]

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it, the upload squeezed."""
        self.outcome()
        return super().memory()

    def _made(self) -> tuple[Tree, Tree]:
        """Return what travels and what the server has."""
        upload = super().value()
        if self._codec.finite and not is_finite(upload):
            return self._codec.like(upload), upload
        encoded, received, after = squeeze(self._codec, upload, self._take(), self._rng)
        if (size := wire.size(encoded)) != self.nbytes:
            raise ValueError(
                f"upload_like promised {self.nbytes} bytes behind the codec {type(self._codec).__name__}, "
                f"the upload has {size}: its arrays are not of the shapes and types that upload_like tells"
            )
        self._keep(after)
        return encoded, received


class Opening(Protocol):
    """A squeezed upload, as far as a message needs it."""

    @property
    def nbytes(self) -> int:
        """The encoded tree's size."""
        ...

    def encoded(self) -> Tree:
        """Return the tree that travels."""
        ...


@dataclass(frozen=True)
class Parcel:
    """The encoded tree of a squeezed upload as a promise of its own: a message of it has the bytes that it says."""

    upload: "Opening"

    @property
    def nbytes(self) -> int:
        """The encoded tree's size."""
        return self.upload.nbytes

    def value(self) -> Tree:
        """Return the encoded tree."""
        return self.upload.encoded()


class Squeezer:
    """Who looks into values for those that carry them, and squeezes; others may stand between (`fedsim/tape.py`)."""

    def told(self, make: Callable[[], Any]) -> Any:
        """Return a number that hangs on values."""
        return make()

    def tree(self, make: Callable[[], Tree]) -> Tree:
        """Return a tree that may be sent."""
        return make()

    def joined(self, tree: Tree, key: str, value: Tree) -> Tree:
        """Return a tree with one entry more, of whoever carries it."""
        return {**tree, key: value}

    def squeeze(self, codec: Codec, tree: Tree, memory: Memory, rng: np.random.Generator) -> tuple[Tree, Tree, Memory]:
        """Return what `codec.squeeze` does."""
        return squeeze(codec, tree, memory, rng)

    def promise(self, inner: Any, make: Callable[[Any], Any]) -> Any:
        """Return what `make` makes of a promise."""
        return make(inner)

    def parcel(self, make: Callable[[], Tree]) -> Tree:
        """Return a tree that is sent, for whoever overhears it: a codec's, which is no dict."""
        return make()

    def finite(self, tree: Tree) -> bool:
        """Return whether a tree holds real numbers only."""
        return is_finite(tree)

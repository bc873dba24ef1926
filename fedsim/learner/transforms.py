"""Transforms of values in transit: forged by byzantine clients, then compressed by a codec.

Each transform has its own random stream for each client.  An upload that is not finite passes uncompressed through a
codec that needs finite values, and is refused by its receiver.  Not modelled: the time that a codec takes.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.learner.upload import Transform, Upload
from fedsim.net.codec import Codec, compress
from fedsim.net.finite import is_finite
from fedsim.net.forged import Forgers

Rng = Callable[[str], np.random.Generator]


class Sent(NamedTuple):
    """A tree that is sent: as received, as encoded, and its bytes."""

    tree: Tree
    encoded: Tree
    nbytes: int


def forged(forgers: Forgers, client: int, rng: Rng) -> Transform:
    """Return the transform that a byzantine client applies to its uploads; sizes stay the same."""
    return Transform(lambda upload, tree: forgers.upload(client, tree, rng(f"forge/{client}")), lambda like: like)


def compressed(codec: Codec, rng: Rng) -> Transform:
    """Return the transform of a codec; with error feedback, the client keeps what was left out, by step."""

    def apply(upload: Upload, tree: Tree) -> Tree:
        if codec.finite and not is_finite(tree):
            return tree
        owner = upload.owner
        before = owner.notes.get(upload.step, {})
        encoded, received, after = compress(codec, tree, before, rng(f"codec up {owner.number}"))
        if (size := wire.size(encoded)) != (due := upload.nbytes() - upload.beside):
            raise ValueError(
                f"upload_like promised {due} bytes behind the codec {type(codec).__name__}, "
                f"the upload has {size}: its arrays are not of the shapes and types that upload_like declares"
            )
        owner.notes[upload.step] = after
        return received

    return Transform(apply, codec.like, remembers=True)


def sent_down(codec: Codec, tree: Tree, client: int, rng: Rng) -> Sent:
    """Return a download, encoded and as received."""
    return _compressed_once(codec, tree, rng(f"codec down {client}"))


def sent_between_peers(codec: Codec | None, forgers: Forgers, tree: Tree, sender: int, rng: Rng) -> Sent:
    """Return a peer's share, encoded and as received."""
    if sender in forgers:
        tree = forgers.share(sender, tree, rng(f"forge/{sender}"))
    if codec is None:
        return Sent(tree, tree, wire.size(tree))
    if codec.finite and not is_finite(tree):
        encoded = codec.like(tree)
        return Sent(tree, encoded, wire.size(encoded))
    return _compressed_once(codec, tree, rng(f"codec share {sender}"))


def _compressed_once(codec: Codec, tree: Tree, rng: np.random.Generator) -> Sent:
    """Return what a codec makes of a tree without error feedback."""
    encoded, received, _ = compress(codec, tree, {}, rng)
    return Sent(received, encoded, wire.size(encoded))

"""What the learner knows of a client: its data, its memory, and its uploads with the values that their receiver gets.

An upload is computed on demand, from the job that produces it; on its way it passes a list of transforms, in order:
forged by byzantine clients, then compressed by a codec, each with a random stream of its own for each client.  An
upload that is not finite passes uncompressed through a codec that needs finite values, and is refused by its receiver.
Not modelled: time, also that of a codec, and whether the client is available.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from fedsim.core import wire
from fedsim.core.seeds import Rng
from fedsim.core.wire import Spec, Tree
from fedsim.learn.replies import Replies, Reply, uploads_of
from fedsim.learner.contract import Promise
from fedsim.learner.ticket import UNKNOWN, values_of
from fedsim.net import floats
from fedsim.net.attackers import Attackers
from fedsim.net.codec import Codec, compress

if TYPE_CHECKING:
    from fedsim.data.graph import Graph, Period


class Client:
    """One client; `seen` are the periods that it has met, `notes` its codec's memory by step (error feedback)."""

    __slots__ = ("data", "last", "notes", "number", "period", "remembered", "seen")

    def __init__(self, number: int) -> None:
        self.number = number
        self.data: Graph | None = None
        self.period = -1
        self.seen: list[Period] = []
        self.notes: dict[str, Any] = {}
        self.remembered: dict[str, Any] = {}  # the memory when it was last read
        self.last: Upload | None = None  # of the last finished job, if the memory was not read since

    def arrive(self, period: Period) -> None:
        """Replace the data by this period's graph."""
        self.data, self.period = period.graph, period.number
        self.seen.append(period)

    @property
    def memory(self) -> dict[str, Any]:
        """The memory as the last finished job left it; reading it trains that job if it is pending."""
        if self.last is not None:
            self.remembered, self.last = self.last.memory(), None
        return self.remembered


class AllClients(dict[int, Client]):
    """All clients by number, created on first access."""

    def __missing__(self, number: int) -> Client:
        """Return a client without data."""
        self[number] = client = Client(number)
        return client


class Transform(NamedTuple):
    """A transform of uploads: `apply` returns the new tree, and `like` a tree of the encoded size.

    `remembers`: whether it changes the client's memory, so that a client's uploads must pass in the order of its jobs.
    """

    apply: Callable[[Upload, Tree], Tree]
    like: Callable[[Tree], Tree]
    remembers: bool = False


class Upload:
    """One client's upload in one step; `beside` is the bytes of what else the message carries."""

    __slots__ = ("_nbytes", "beside", "opened", "owner", "promise", "step", "transforms")

    def __init__(
        self, promise: Promise, owner: Client, step: str, transforms: Sequence[Transform] = (), beside: int = 0
    ) -> None:
        self.beside = beside
        self.promise, self.owner, self.step, self.transforms = promise, owner, step, transforms
        self.opened: tuple[Tree] | None = None
        self._nbytes: int | None = None

    def declared(self) -> int:
        """Return the encoded bytes, UNKNOWN if they are known only after training."""
        known = self.promise.declared
        if known is None:
            return UNKNOWN
        return self.nbytes() if self.transforms else known + self.beside

    def nbytes(self) -> int:
        """Return the encoded bytes, training if they are known only then."""
        if not self.transforms:
            return self.promise.nbytes + self.beside
        if self._nbytes is None:
            tree = self.sent()
            for transform in self.transforms:
                tree = transform.like(tree)
            self._nbytes = wire.size(tree) + self.beside
        return self._nbytes

    def sent(self) -> Tree:
        """Return the upload before transforms, or a tree of its shapes."""
        return self.promise.value() if self.promise.like is None else self.promise.like

    def value(self) -> Tree:
        """Return the upload as received, the same object each time."""
        if not self.transforms:
            return self.promise.value()
        if self.opened is None:
            tree = self.promise.value()
            for transform in self.transforms:
                tree = transform.apply(self, tree)
            self.opened = (tree,)
        return self.opened[0]

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        if self.transforms and any(transform.remembers for transform in self.transforms):
            self.value()
        return self.promise.memory()


def opened(replies: Sequence[Reply]) -> Sequence[Reply]:
    """Return replies as an algorithm sees them, with trees in place of tickets."""
    if not isinstance(replies, Replies):
        return [
            replace(each, download=each.download and each.download.value.tree, upload=each.upload.value.value())
            for each in replies
        ]
    if replies.opened is None:
        downloads = [None if sent is None else sent.tree for sent in values_of(replies.downloads)]
        uploads = [upload.value() for upload in values_of(replies.uploads)]
        replies.opened = Replies(replies.clients, replies.version, downloads, uploads, replies.asks)
    return replies.opened


def all_finite(replies: Sequence[Reply]) -> list[bool]:
    """Return whether each upload is finite; where several are one value, as those of traffic, it is read once."""
    trees = uploads_of(replies)
    distinct = {id(tree): tree for tree in trees}
    all_are = is_finite([*distinct.values()])
    finite = {number: all_are or is_finite(tree) for number, tree in distinct.items()}
    return [finite[id(tree)] for tree in trees]


def is_finite(tree: Tree) -> bool:
    """Return whether all numbers of a tree are finite, in arrays and alone; a Spec has none.

    A dict with an attribute `finite` other than None (learn/engine/rows.py) is not read.  If a sum is
    finite, so are its terms: only where it is not is every number checked, as large ones may overflow in
    the sum.  All tensors have one sum, since a GPU makes the host wait for each number that it reads.
    """
    leaves = [*_floats(tree)]
    with np.errstate(over="ignore", invalid="ignore"):
        sums = (leaf.sum() if hasattr(leaf, "isfinite") else float(np.sum(leaf)) for leaf in leaves)
        if math.isfinite(sum(sums)):
            return True
        each = (leaf.isfinite() if hasattr(leaf, "isfinite") else np.isfinite(leaf) for leaf in leaves)
        return all(bool(one.all()) for one in each)


def _floats(tree: Tree) -> Iterator[Any]:
    """Yield what may not be finite: numbers, arrays, and NaN for a dict that says that it is not."""
    known = getattr(tree, "finite", None) if isinstance(tree, dict) else None
    if known is not None:
        yield 0.0 if known else math.nan
    elif isinstance(tree, dict | list | tuple):
        for one in tree.values() if isinstance(tree, dict) else tree:
            yield from _floats(one)
    elif not isinstance(tree, Spec) and (
        isinstance(tree, float) or str(getattr(tree, "dtype", "")).removeprefix("torch.") in floats.LETTERS
    ):
        yield tree


class Sent(NamedTuple):
    """A tree that is sent: as received, as encoded, and its bytes."""

    tree: Tree
    encoded: Tree
    nbytes: int


def forged(attackers: Attackers, client: int, rng: Rng) -> Transform:
    """Return the transform that a byzantine client applies to its uploads; sizes stay the same."""
    return Transform(lambda upload, tree: attackers.upload(client, tree, rng(f"forge/{client}")), lambda like: like)


def compressed(codec: Codec, rng: Rng) -> Transform:
    """Return the transform of a codec; with error feedback, the client keeps what was left out, by step."""

    def apply(upload: Upload, tree: Tree) -> Tree:
        if codec.finite and not is_finite(tree):
            return tree
        owner = upload.owner
        before = owner.notes.get(upload.step, {})
        encoded, received, after = compress(codec, tree, before, rng(f"codec up {owner.number}"))
        if (size := wire.size(encoded)) != (due := upload.nbytes() - upload.beside):
            if size != (declared := wire.size(codec.like(tree))):
                name = type(codec).__name__
                wrong = f"{name}.shrink returns other shapes or types than {name}.pieces declares"
                raise ValueError(f"{wrong}: {size} bytes in place of {declared} for an upload")
            raise ValueError(
                f"upload_like promised {due} bytes behind the codec {type(codec).__name__}, "
                f"the upload has {size}: its arrays are not of the shapes and types that upload_like declares"
            )
        owner.notes[upload.step] = after
        return received

    return Transform(apply, codec.like, remembers=True)


def sent_downloads(codec: Codec | None, trees: Sequence[Tree], clients: Sequence[int], rng: Rng) -> list[Sent]:
    """Return clients' downloads, encoded and as received; those that are sent the same parts share one."""
    if codec is not None:
        asked = zip(trees, clients, strict=True)
        return [_compressed_once(codec, tree, rng(f"codec down {client}")) for tree, client in asked]
    sizes, known = wire.Sizes(), dict[Any, Sent]()
    parts = [wire.identities(tree) for tree in trees]
    for part, tree in zip(parts, trees, strict=True):
        if part not in known:
            known[part] = Sent(tree, tree, sizes.of(tree))
    return [known[part] for part in parts]


def shared(codec: Codec | None, attackers: Attackers, tree: Tree, sender: int | None, rng: Rng) -> Sent:
    """Return a share, encoded and as received; those of servers (`sender` None) are sent as they are."""
    if sender is not None and sender in attackers:
        tree = attackers.share(sender, tree, rng(f"forge/{sender}"))
    if codec is None or sender is None:
        return Sent(tree, tree, wire.size(tree))
    if codec.finite and not is_finite(tree):
        encoded = codec.like(tree)
        return Sent(tree, encoded, wire.size(encoded))
    return _compressed_once(codec, tree, rng(f"codec share {sender}"))


def _compressed_once(codec: Codec, tree: Tree, rng: np.random.Generator) -> Sent:
    """Return what a codec makes of a tree without error feedback."""
    encoded, received, _ = compress(codec, tree, {}, rng)
    return Sent(received, encoded, wire.size(encoded))

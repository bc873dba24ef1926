"""Tape: all that crosses from a point's learning half to its clock, so that the clock can be run again without it.

The clock's half sees sizes, operations and names of steps, and carries trees about that it does not look into.  While a
tape records, it notes the former in the order of the calls, and gives each tree a number.  While it replays, calls are
answered from it, and trees are blanks of the same numbers and sizes.  So the clock goes through the same events without
anything being trained, and where it has arrived, the blanks that somebody still holds are filled with what the first
run held at that moment.

It holds no values itself: what the trees hold at some moment is kept by `checkpoint.py`.  What the clock's half puts
into a tree itself, as masking's own part of a download, is in the blank too.  Trees other than dicts and None cannot be
blanks; where an algorithm makes some, the tape is not `whole`, and no checkpoint can be taken.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from fedsim.algorithm import State
from fedsim.net import wire
from fedsim.net.codec import Codec, Memory
from fedsim.net.finite import is_finite
from fedsim.net.promised import Once, WorkPromise
from fedsim.net.squeezed import Parcel, Squeezer
from fedsim.net.wire import Tree


class Astray(Exception):  # noqa: N818 - it tells what has happened
    """A replay has come to another call than the first run."""


class Unfit(Exception):  # noqa: N818 - it tells what is wrong
    """A value is of a kind that a checkpoint cannot keep."""


class Held(dict[str, Any]):
    """A tree that has crossed, with its number; a blank knows its size (without the prefix) and its arrays' bytes."""

    __slots__ = ("__weakref__", "measured", "number")

    def __init__(self, tree: Tree, number: int, measured: tuple[int, int] | None = None) -> None:
        """Hold what the tree holds."""
        super().__init__(tree)
        self.number, self.measured = number, measured

    def fill(self, tree: Tree) -> None:
        """Become what the first run held under this number."""
        self.clear()
        self.update(tree)
        self.measured = None


class Declared(WorkPromise, Protocol):
    """A promise of the learning half, which tells whether its size was known before the work."""

    declared: int | None


class Tape(Squeezer):
    """What has crossed: `calls` in their order, and what each promise has told, by its number.

    `sizes` are the promised bytes, None where nobody has asked; `uploads` whether one was opened (1), was None (0), or
    neither (-1).
    """

    def __init__(self, calls: Sequence[Any] = (), sizes: Sequence[Any] = (), uploads: Sequence[int] = ()) -> None:
        """Replay what is given, and record from there on."""
        self.calls, self.sizes, self.uploads = list(calls), list(sizes), list(uploads)
        self.replaying = bool(self.calls or self.sizes)
        self.trees: WeakValueDictionary[int, Held] = WeakValueDictionary()
        self.promises: WeakValueDictionary[int, TapedPromise] = WeakValueDictionary()
        self.whole = True
        self._called = self._promised = 0

    def end_replay(self) -> None:
        """Record from now on.  Raises Astray where not everything has been asked for again."""
        if (self._called, self._promised) != (len(self.calls), len(self.sizes)):
            raise Astray("the replay of an interrupted point has left out calls of its first run")
        self.replaying = False

    def told(self, make: Callable[[], Any]) -> Any:
        """Return a number, or a sequence of names."""
        if self.replaying:
            return self._again("told")
        made = make()
        if isinstance(made, list | tuple):
            made = list(made)
        elif not isinstance(made, int):
            made = float(made)  # one of numpy's or torch's would come back as another type
        self._note("told", made)
        return made

    def tree(self, make: Callable[[], Tree]) -> Tree:
        """Return a tree that may be sent."""
        if self.replaying:
            measured, number = self._again("tree"), self._called - 1
            return None if measured is None else self.blank(number, measured)
        made = make()
        return self.hold(made, self._note("tree", _measured(made)))

    def state(self, make: Callable[[], State]) -> State:
        """Return a state, which is never sent; one that has crossed before is the same object again."""
        if self.replaying:
            return self.blank(self._again("state"))
        made = make()
        if type(made) is Held:
            self._note("state", made.number)
            return made
        return self.hold(made, self._note("state", self._called))  # type: ignore[no-any-return]

    def squeeze(self, codec: Codec, tree: Tree, memory: Memory, rng: np.random.Generator) -> tuple[Tree, Tree, Memory]:
        """Return what `codec.squeeze` does."""
        made: list[Any] = [] if self.replaying else [*super().squeeze(codec, tree, memory, rng)]
        encoded, received = self.parcel(lambda: made[0]), self.tree(lambda: made[1])
        if self.replaying and tree:
            received.update(tree)  # what a blank holds is the clock's own, of which no codec makes anything else
        return encoded, received, made[2] if made else memory

    def joined(self, tree: Tree, key: str, value: Tree) -> Tree:
        """Return a tree with one entry more, of whoever carries it: it is there in a blank too."""
        joined = self.tree(lambda: {**tree, key: value})
        joined[key] = value
        return joined

    def hold(self, tree: Tree, number: int) -> Tree:
        """Return a tree under its number."""
        if tree is None:
            return None
        if type(tree) not in (dict, Held):
            self.whole = False
            return tree
        held = self.trees[number] = Held(tree, number)
        return held

    def blank(self, number: int, measured: tuple[int, int] | None = None) -> Held:
        """Return the tree of that number, or a blank where nobody holds it."""
        found = self.trees.get(number)
        if found is None:
            found = self.trees[number] = Held({}, number, measured)
        return found

    def job(self, make: Callable[[], Declared]) -> "TapedPromise":
        """Return a promise under its number."""
        number = self._promised
        self._promised += 1
        promise = self.promises[number] = TapedPromise(self, number)
        if not self.replaying:
            promise.inner = inner = make()
            self.sizes.append(inner.declared)
            self.uploads.append(-1)
        return promise

    def promise(self, inner: Any, make: Callable[[Any], Once]) -> "TapedAround":
        """Return what `make` makes of a promise of this tape's, under a number of its own."""
        promise = TapedAround(self, self._promised, make(inner))
        self._promised += 1
        self.promises[promise.number] = promise
        if not self.replaying:
            self.sizes.append(None)
            self.uploads.append(-1)
        return promise

    def parcel(self, make: Callable[[], Tree]) -> "TapedParcel":
        """Return a tree of any kind that is sent, for whoever overhears it."""
        if self.replaying:
            nbytes, number = self._again("parcel"), self._called - 1
            return TapedParcel(nbytes, self.blank(number))
        made = make()
        nbytes = wire.size(made)
        return TapedParcel(nbytes, self.hold({"sent": made}, self._note("parcel", nbytes)))

    def finite(self, tree: Tree) -> bool:
        """Return whether a tree holds real numbers only."""
        return bool(self.told(lambda: int(is_finite(tree))))

    def _note(self, kind: str, value: Any) -> int:
        """Note a call and what it tells; return its number."""
        self.calls.append((kind, value))
        self._called += 1
        return self._called - 1

    def _again(self, kind: str) -> Any:
        """Return what the call of the same number has told."""
        if self._called == len(self.calls) or self.calls[self._called][0] != kind:
            raise Astray("the replay of an interrupted point makes other calls than its first run")
        self._called += 1
        return self.calls[self._called - 1][1]


def _measured(tree: Tree) -> Any:
    return None if tree is None else (wire.size(tree) - wire.PREFIX, wire.array_bytes(tree))


class TapedPromise:
    """A promise that the clock's half holds; in a replay nothing is behind it."""

    def __init__(self, tape: Tape, number: int) -> None:
        """Stand for the promise of that number, of whoever is set as `inner`."""
        self._tape, self.number = tape, number
        self.inner: Any = None
        self._value: Tree = None

    @property
    def like(self) -> Tree | None:
        """A tree of the upload's size."""
        return None if self.inner is None else self.inner.like

    @property
    def nbytes(self) -> int:
        """The upload's encoded size."""
        size = self._tape.sizes[self.number] if self.number < len(self._tape.sizes) else None
        if size is None:
            size = self._tape.sizes[self.number] = self._inner().nbytes
        return int(size)

    def value(self) -> Tree:
        """Return the upload."""
        tape, number = self._tape, -1 - self.number
        if self._value is None:
            if not tape.replaying:
                made = self._inner().value()
                tape.uploads[self.number] = int(made is not None)
                self._value = tape.trees[number] if number in tape.trees else tape.hold(made, number)
            elif tape.uploads[self.number] < 0:
                raise Astray("the replay of an interrupted point opens an upload that its first run did not")
            elif tape.uploads[self.number]:
                self._value = tape.blank(number)
        return self._value

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        return {} if self._tape.replaying else self._inner().memory()

    def cancel(self) -> None:
        """Forget the job."""
        if self.inner is not None:
            self.inner.cancel()

    def _inner(self) -> Any:
        if self.inner is None or self._tape.replaying:
            raise Astray("the replay of an interrupted point asks for what its checkpoint does not hold")
        return self.inner


class TapedAround(TapedPromise):
    """A promise around one of the tape's; of one behind a codec, the parcel is what a message carries."""

    def __init__(self, tape: Tape, number: int, made: Once) -> None:
        """Stand for this promise, which asks the tape's for what is inside."""
        super().__init__(tape, number)
        self.inner = made

    @property
    def parcel(self) -> Parcel:
        """What travels, for a message."""
        return Parcel(self)

    def encoded(self) -> Tree:
        """Return the tree that travels."""
        return self._inner().encoded()


@dataclass(frozen=True, eq=False)
class TapedParcel:
    """A tree that is sent, as a promise: of its size in a replay too, and then with nothing in it."""

    nbytes: int
    held: Held

    def value(self) -> Tree:
        """Return the tree."""
        return self.held["sent"]

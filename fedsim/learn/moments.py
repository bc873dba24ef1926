"""Where clients' optimiser states lie between rounds: rows of joined tensors, read and written for a cohort at once.

A client's memory holds a `Kept`, which never changes its value: whoever holds an older memory still finds what it held.
Either it is a place in the state that its last cohort was trained with, or a row of a `Shelf`, which the Kept owns and
gives back when nobody holds it any more.  A cohort that trains again as it is keeps its state as it is; where cohorts
mix, clients move onto the shelf, so that a cohort costs one call for each tensor, however many cohorts it comes from.
Which cohorts there are is not decided here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

import torch

from fedsim.learn import rows, tree
from fedsim.learn.optimiser import State

FEWEST = 16  # rows that a shelf begins with


@dataclass(slots=True, eq=False, repr=False)
class Kept:
    """One client's optimiser state: a place in a cohort's state, which is never changed, or its row of a shelf."""

    source: "State | Shelf"
    place: int

    @property
    def joined(self) -> State:
        """The joined states that this one is a row of."""
        return self.source.state if isinstance(self.source, Shelf) else self.source

    def own(self) -> State:
        """Return a copy of the client's state alone, without a client axis."""
        return tree.transform(torch.clone, tree.at(self.joined, self.place))  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        """Return its steps, which stay the same wherever it lies."""
        return f"Kept(steps={float(self.joined['steps'][self.place])})"

    def __del__(self) -> None:
        """Give the row back."""
        if isinstance(self.source, Shelf):
            self.source.free.append(self.place)

    def __copy__(self) -> "Kept":
        """Return the same object: a row has one owner."""
        return self

    def __deepcopy__(self, memo: object) -> "Kept":
        """Return the same object: its value never changes."""
        return self


@dataclass(eq=False)
class Shelf:
    """Rows of states of the same shapes; row 0 is the state of a client that has not trained yet."""

    state: State  # every tensor (R, …)
    most: int  # rows that the memory bound allows
    free: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, fresh: State, budget: int) -> "Shelf":
        """Return a shelf that begins with one fresh state (1, …) and takes about `budget` bytes at most."""
        each = sum(leaf.numel() * leaf.element_size() for leaf in tree.leaves(fresh))
        return cls(fresh, max(1, budget // max(1, each)))

    def take(self, kept: Sequence[Kept | None]) -> State | None:
        """Return a copy of these states in order, None being a fresh one, or None where there is no room for them.

        Those that lie elsewhere move onto the shelf.
        """
        strangers: dict[int, list[Kept]] = {}
        for one in kept:
            if one is not None and one.source is not self:
                strangers.setdefault(id(one.source), []).append(one)
        if not self._room(sum(map(len, strangers.values())) + len(kept)):  # the new states need as many again
            return None
        for moving in strangers.values():
            places = self._write(rows.gather([(moving[0].joined, [one.place for one in moving])]), len(moving))
            for one, place in zip(moving, places, strict=True):
                if isinstance(one.source, Shelf):
                    one.source.free.append(one.place)
                one.source, one.place = self, place
        index = torch.tensor([0 if one is None else one.place for one in kept], device=self.state["steps"].device)
        return tree.transform(lambda leaf: leaf.index_select(0, index), self.state)  # type: ignore[no-any-return]

    def put(self, state: State, clients: int) -> list[Kept]:
        """Store the states of a cohort (K, …) that were taken before; each is held as long as its Kept."""
        self._room(clients)
        return [Kept(self, place) for place in self._write(state, clients)]

    def _write(self, state: State, clients: int) -> list[int]:
        places = [self.free.pop() for _ in range(clients)]
        index = torch.tensor(places, device=self.state["steps"].device)
        tree.transform(lambda leaf, new: leaf.index_copy_(0, index, new), self.state, state)
        return places

    def _room(self, count: int) -> bool:
        """Return whether that many rows are free, after adding some if the memory bound allows."""
        have = len(self.state["steps"])
        lacking = count - len(self.free)
        if lacking <= 0:
            return True
        if have + lacking > self.most:
            return False
        grown = min(self.most, max(have + lacking, 2 * have, FEWEST))

        def longer(leaf: torch.Tensor) -> torch.Tensor:
            made = leaf.new_empty(grown, *leaf.shape[1:])
            made[:have] = leaf
            return made

        self.state = tree.transform(longer, self.state)
        self.free.extend(range(have, grown))
        return True


def gathered(kept: Sequence[Kept]) -> State:
    """Return a copy of these states, in order, from wherever they lie."""
    runs = [list(run) for _, run in groupby(kept, lambda one: id(one.source))]
    joined: State = rows.gather([(run[0].joined, [one.place for one in run]) for run in runs])
    # a single run may be the stored tensors themselves
    return tree.transform(torch.clone, joined) if len(runs) == 1 else joined


def whole(kept: Sequence[Kept | None]) -> bool:
    """Return whether these are all states of one cohort, in its order."""
    first = kept[0]
    if first is None or isinstance(first.source, Shelf) or len(first.source["steps"]) != len(kept):
        return False
    source = first.source
    return all(one is not None and one.source is source and one.place == k for k, one in enumerate(kept))

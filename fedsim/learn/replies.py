"""Replies as columns, for algorithms that fold a whole cohort at once.

What a server folds is a sequence of `Reply`.  One that comes from a run keeps the columns that most of them need, and
makes a `Reply` where one is asked for; the functions here read the columns, or any other sequence of replies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, overload

from fedsim.core.wire import Tree

if TYPE_CHECKING:
    from fedsim.learn.algorithm import Reply


class Replies(Sequence["Reply"]):
    """Replies whose clients, uploads and weights are known by column; `make(place, upload)` returns the whole."""

    def __init__(
        self,
        clients: Sequence[int],
        uploads: Sequence[Tree],
        weights: Sequence[float],
        make: Callable[[int, Tree], Reply],
    ) -> None:
        """Make none yet."""
        self.clients, self.uploads, self.weights, self._make = clients, uploads, weights, make
        self._made: dict[int, Reply] = {}

    def __len__(self) -> int:
        """Return the number of replies."""
        return len(self.uploads)

    @overload
    def __getitem__(self, place: int) -> Reply: ...

    @overload
    def __getitem__(self, place: slice) -> list[Reply]: ...

    def __getitem__(self, place: int | slice) -> Reply | list[Reply]:
        """Return one reply, the same object each time, or those of a slice."""
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        place = range(len(self))[place]
        if place not in self._made:
            self._made[place] = self._make(place, self.uploads[place])
        return self._made[place]


def clients_of(replies: Sequence[Reply]) -> Sequence[int]:
    """Return whose replies these are."""
    return replies.clients if isinstance(replies, Replies) else [reply.client for reply in replies]


def uploads_of(replies: Sequence[Reply]) -> Sequence[Tree]:
    """Return what they bring."""
    return replies.uploads if isinstance(replies, Replies) else [reply.upload for reply in replies]


def weights_of(replies: Sequence[Reply]) -> Sequence[float]:
    """Return the protocol's discounts."""
    return replies.weights if isinstance(replies, Replies) else [reply.weight for reply in replies]

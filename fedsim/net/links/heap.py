"""LazyHeap: a heap with lazy deletion: stale entries are not removed but skipped when they reach the top.

An entry is valid as long as the object's `stamp` is what it was when it was pushed.  Memory stays within a
constant factor of the valid entries.
"""

import math
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

SPARE = 64  # this many stale entries are never worth removing


class Stamped(Protocol):
    """An object with a stamp."""

    stamp: int


T = TypeVar("T", bound=Stamped)


class LazyHeap(Generic[T]):
    """The smallest key first; equal keys in the order of insertion."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[tuple[float, int, int, T]] = []
        self._pushed = 0

    def push(self, key: float, item: T, held: int) -> None:
        """Add an item under its present stamp; `held` is roughly how many entries are valid."""
        if len(self._entries) > 2 * held + SPARE:
            self._entries = [entry for entry in self._entries if entry[2] == entry[3].stamp]
            heapify(self._entries)
        self._pushed += 1
        heappush(self._entries, (key, self._pushed, item.stamp, item))

    def top(self) -> tuple[float, T] | None:
        """Return the smallest key and its item, or None if no entry is valid."""
        entries = self._entries
        while entries:
            key, _, stamp, item = entries[0]
            if stamp == item.stamp:
                return key, item
            heappop(entries)
        return None

    def key(self) -> float:
        """Return the smallest key, infinity if no entry is valid."""
        top = self.top()
        return top[0] if top else math.inf

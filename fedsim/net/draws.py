"""Draws: the random numbers of transfers, which depend only on a message's ends and on how many went before it.

Each transfer has two numbers in [0, 1): for lost handshakes, and for the first lost packet.  What else was
sent, and in which order, does not matter to them.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from fedsim.core import seeds
from fedsim.core.arrays import Floats

Ends = tuple[int, int]  # sender, receiver


class Draws:
    """Counts the messages from one node to another, and draws for each."""

    def __init__(self, seed: int) -> None:
        """Start with no messages."""
        self._seed = seed
        self._sent: Counter[Ends] = Counter()

    def number(self, ends: Ends) -> int:
        """Return how many messages went that way before this one, and count it."""
        number = self._sent.get(ends, 0)
        self._sent[ends] = number + 1
        return number

    def of(self, ends: Ends, number: int) -> tuple[float, float]:
        """Return the two numbers of one message."""
        handshake, loss = seeds.row_of_uniforms(self._seed, *ends, number, count=2)
        return handshake, loss

    def next(self, ends: Ends) -> float:
        """Return one number for what happens next between these two, and count it."""
        return seeds.row_of_uniforms(self._seed, *ends, self.number(ends), count=1)[0]

    def many(self, pairs: Sequence[Ends]) -> Floats:
        """Return the two numbers (2, n) of the next message between each of these pairs, which is not counted."""
        numbers = np.array([self._sent.get(ends, 0) for ends in pairs], dtype=np.int64)
        src, dst = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return seeds.uniforms(self._seed, src, dst, numbers, count=2)

    def count(self, pairs: Iterable[Ends]) -> None:
        """Count one more message between each of these pairs."""
        self._sent.update(pairs)

    def take_back(self, ends: Ends) -> None:
        """Undo the count of the last message that way, if any was counted."""
        if self._sent[ends]:
            self._sent[ends] -= 1

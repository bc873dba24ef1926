"""Checkpoints: the states that a server would find again after a restart, kept as values beside those of now.

It models neither the time that saving and loading take nor where the states are kept; a state is never changed in
place, so that keeping one costs nothing.
"""

from collections.abc import Iterable

from fedsim.learner.ticket import Ticket


class Checkpoints:
    """The last state of each interval: of the highest version that it divides, before that the first state."""

    def __init__(self, state: Ticket) -> None:
        """Keep the first state."""
        self._first = state
        self._last: dict[int, tuple[int, Ticket]] = {}

    def keep(self, intervals: Iterable[int], version: int, state: Ticket) -> None:
        """Keep this state for those of the intervals that are due."""
        self._last.update({each: (version, state) for each in intervals if version % each == 0})

    def last(self, interval: int) -> tuple[int, Ticket]:
        """Return the version and the state to fall back to."""
        return self._last.get(interval, (0, self._first))

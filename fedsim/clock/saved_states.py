"""Checkpoints: the states from which a server continues after a restart.

States are never changed in place, so keeping one costs nothing.  Not modelled: the time to save and load a state, and
where it is stored.
"""

from collections.abc import Iterable

from fedsim.learner.ticket import Ticket


class Checkpoints:
    """The last state saved at each interval: that of the highest version it divides, or else the first state."""

    def __init__(self, state: Ticket) -> None:
        """Keep the first state."""
        self._first = state
        self._last: dict[int, tuple[int, Ticket]] = {}

    def keep(self, intervals: Iterable[int], version: int, state: Ticket) -> None:
        """Save this state for the intervals that are due."""
        self._last.update({each: (version, state) for each in intervals if version % each == 0})

    def last(self, interval: int) -> tuple[int, Ticket]:
        """Return the version and the state to fall back to."""
        return self._last.get(interval, (0, self._first))

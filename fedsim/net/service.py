"""Service: whether the server is up.  Effects halt and resume it; watchers are notified of both.

Not modelled: edge aggregators that go down (they keep running without the server), and a server that is slow rather
than down.
"""

from collections.abc import Callable

Halted = Callable[[int], None]  # called with the number of updates between the checkpoints to return to
Resumed = Callable[[], None]


class Service:
    """Up at first, and whenever nothing halts it; `intervals` are the distances of checkpoints to keep, in updates."""

    def __init__(self) -> None:
        """Start up, without watchers."""
        self.intervals: set[int] = set()
        self._halting: set[int] = set()
        self._watchers: list[tuple[Halted, Resumed]] = []

    @property
    def up(self) -> bool:
        """Whether nothing halts it now."""
        return not self._halting

    def watch(self, halted: Halted, resumed: Resumed) -> None:
        """Call `halted` whenever it is halted and `resumed` when it is up again; watchers in order of registration."""
        self._watchers.append((halted, resumed))

    def halt(self, by: object, interval: int) -> None:
        """Stop the server, which returns to its last checkpoint of this interval, until `by` resumes it."""
        self._halting.add(id(by))
        for halted, _ in self._watchers:
            halted(interval)

    def resume(self, by: object) -> None:
        """Let the server come up again if nothing else halts it."""
        self._halting.discard(id(by))
        if self.up:
            for _, resumed in self._watchers:
                resumed()

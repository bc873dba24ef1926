"""Service: whether the server is up.  Effects halt it and let it resume; whoever depends on it hears of either.

Not modelled: edge aggregators that go down (they go on without the server), and a server that is slow rather than down.
"""

from collections.abc import Callable

Halted = Callable[[int], None]  # is told how many updates lie between the checkpoints to fall back to
Resumed = Callable[[], None]


class Service:
    """Up at first, and whenever nobody halts it; `intervals` are those between checkpoints that are to be kept."""

    def __init__(self) -> None:
        """Start up, with nobody who listens."""
        self.intervals: set[int] = set()
        self._halting: set[int] = set()
        self._watchers: list[tuple[Halted, Resumed]] = []

    @property
    def up(self) -> bool:
        """Whether nobody halts it now."""
        return not self._halting

    def watch(self, halted: Halted, resumed: Resumed) -> None:
        """Have the first called whenever somebody halts it, the second when it is up again; first come, first told."""
        self._watchers.append((halted, resumed))

    def halt(self, by: object, interval: int) -> None:
        """Stop the server, which falls back to its last checkpoint of this interval; `by` has to let it resume."""
        self._halting.add(id(by))
        for halted, _ in self._watchers:
            halted(interval)

    def resume(self, by: object) -> None:
        """Let the server come up again, where nobody else halts it."""
        self._halting.discard(id(by))
        if self.up:
            for _, resumed in self._watchers:
                resumed()

"""Downtime: the stretches during which a server is down, as spans.  What goes down with it is for the server to say."""

from collections.abc import Callable

import simpy

from fedsim.core.record import Row, Span


class Downtime:
    """Writes a span `down` of each stretch, for the node of that number."""

    def __init__(self, env: simpy.Environment, node: int, write: Callable[[Row], None]) -> None:
        """Start up."""
        self._env, self._node, self._write = env, node, write
        self._since: float | None = None

    def begin(self) -> None:
        """Go down now, if not down already."""
        if self._since is None:
            self._since = self._env.now

    def end(self) -> None:
        """Be up again, if down."""
        if self._since is not None:
            self._write(Span(self._node, self._since, self._env.now, "down"))
            self._since = None

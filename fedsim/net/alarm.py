"""An alarm on the simulated clock: it rings at the earliest time asked for, and never late.

Not modelled: cancelling.  An alarm that is moved to an earlier time forgets the later one, which the owner sets again
when it rings.
"""

import math
from collections.abc import Callable

import simpy


class Alarm:
    """Calls its owner once, at the earliest of the times that were set since it last rang."""

    def __init__(self, env: simpy.Environment, call: Callable[[], None]) -> None:
        """Call nothing yet."""
        self._env, self._call = env, call
        self._due = math.inf
        self._bell: simpy.Event | None = None

    def set(self, time: float) -> None:
        """Ring at this simulated second, unless it rings before; a time that has passed rings at once."""
        if time >= self._due:
            return
        now = self._env.now
        delay = max(0.0, time - now)
        while now + delay > time and delay > 0:  # a sum that is rounded up would ring late; early, it is set again
            delay = math.nextafter(delay, 0.0)
        self._due, self._bell = time, self._env.timeout(delay)
        self._bell.callbacks.append(self._ring)

    def _ring(self, event: simpy.Event) -> None:
        if event is self._bell:  # otherwise an earlier time has been set since
            self._due = math.inf
            self._call()

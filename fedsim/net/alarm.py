"""An alarm on the simulated clock: it rings at the earliest time that was set, and never late.

Not modelled: cancelling.  An alarm that is moved to an earlier time drops the later one, which the owner sets again
when it rings.
"""

import math
from collections.abc import Callable

import simpy


class Alarm:
    """Calls its owner once, at the earliest of the times set since it last rang."""

    def __init__(self, env: simpy.Environment, call: Callable[[], None]) -> None:
        """Set no time yet."""
        self._env, self._call = env, call
        self._due = math.inf
        self._bell: simpy.Event | None = None

    def set(self, time: float) -> None:
        """Ring at this simulated second or earlier; for a time in the past, ring at once."""
        if time >= self._due:
            return
        now = self._env.now
        delay = max(0.0, time - now)
        while now + delay > time and delay > 0:  # rounded up it would ring late; when early it is set again
            delay = math.nextafter(delay, 0.0)
        self._due, self._bell = time, self._env.timeout(delay)
        self._bell.callbacks.append(self._ring)

    def _ring(self, event: simpy.Event) -> None:
        if event is self._bell:  # otherwise an earlier time has been set since
            self._due = math.inf
            self._call()

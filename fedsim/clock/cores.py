"""Cores: a server's computation takes its operations divided by the speed, and queues while all cores are busy.

A restart interrupts everything that is computed or queued.  Not modelled: one computation on several cores.
"""

from collections.abc import Callable, Generator
from typing import Any

import simpy

from fedsim.core.record import Row, Span

BREAK_OFF = "restart"  # the cause of the interrupts


class Cores:
    """`count` cores of one speed (operations per second), of the node with that number."""

    def __init__(
        self, env: simpy.Environment, count: int, speed: float, node: int, write: Callable[[Row], None]
    ) -> None:
        """Start idle; `write` receives a span `serve` for each computation that takes time."""
        self._env, self._speed, self._node, self._write = env, speed, node, write
        self._queue = simpy.Resource(env, count)
        self._computing: dict[simpy.Process, None] = {}

    def compute(self, operations: float) -> Generator[simpy.Event, Any, bool]:
        """Run that many operations on a core, once one is free; return whether they were not interrupted."""
        process, start, whole = self._env.active_process, None, True
        assert process is not None
        self._computing[process] = None
        try:
            with self._queue.request() as core:
                yield core
                start = self._env.now
                yield self._env.timeout(operations / self._speed)
        except simpy.Interrupt as stop:
            if stop.cause != BREAK_OFF:
                raise
            whole = False
        finally:
            del self._computing[process]
        if operations and start is not None:
            self._write(Span(self._node, start, self._env.now, "serve"))
        return whole

    def break_off(self) -> None:
        """Interrupt all computations now."""
        for process in list(self._computing):
            process.interrupt(BREAK_OFF)

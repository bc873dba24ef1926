"""The observer: decides when models are scored, and writes the scores with the time and the version of that moment.

It wakes on updates (or at intervals), and when periods reach clients, before anything is trained on them.  It takes no
simulated time and sends nothing.  How models are scored is left to the learner (`learner/scoring/scoring.py`).
"""

import math
from collections.abc import Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any

import simpy

from fedsim.clock.world import World
from fedsim.core.record import Cells, Row, ScoreRow
from fedsim.core.units import Updates

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Extend = Callable[[type[Row], Mapping[str, Cells]], None]


class Observer:
    """Scores a world's models by the rules of `measure`; `every` is a number of updates or of simulated seconds."""

    def __init__(self, world: World, extend: Extend, every: Updates | float) -> None:
        """Watch this world; `extend` appends columns to a table."""
        self._world, self._extend, self._every = world, extend, every
        self._scored_at = ((-1, 0), 0, 0.0)  # version and restarts, periods met by all clients together, second
        self.latest: float | None = None  # the headline model's latest mean score, for the progress bar

    @property
    def version(self) -> int:
        """The version that was scored last; -1 if none was."""
        return self._scored_at[0][0]

    def start(self) -> None:
        """Start the processes, before those of streams: scores are taken before data arrive."""
        self._world.env.process(self._watch())
        self._world.env.process(self._run())

    def score(self) -> None:
        """Score every model on everything met; a version is scored again only later and with new periods."""
        world = self._world
        total = int(world.clients.met.sum())
        if not total:
            return
        version, now = (world.server.version, world.server.restarts), world.env.now
        if self._scored_at[0] == version and (self._scored_at[1] == total or self._scored_at[2] == now):
            return
        self._scored_at = version, total, now
        headline = self._write()
        self.latest = self.latest if headline is None else headline

    def _watch(self) -> Generator[simpy.Event, Any, None]:
        while True:
            arrived: list[tuple[int, Period]] = yield self._world.arrival
            self._write(arrived)

    def _run(self) -> Generator[simpy.Event, Any, None]:
        server, last = self._world.server, 0
        while True:
            if isinstance(self._every, Updates):
                yield server.updated
                if server.version - last < self._every.count:
                    continue
            else:
                yield self._world.env.timeout(self._every)
                if math.isinf(self._world.env.peek()):
                    return  # no other event is scheduled: an observer does not keep the clock running
            last = server.version
            self.score()

    def _write(self, arrived: "list[tuple[int, Period]] | None" = None) -> float | None:
        """Score on the periods met, or on those that have just arrived; return the headline model's mean score."""
        world = self._world
        world.clients.catch_up()
        scores = world.learner.score(world.states(), arrived)
        moment = {"time": world.env.now, "version": world.server.version}
        for block in scores.rows:
            self._extend(ScoreRow, {**moment, **block})
        return scores.headline

"""What the first rounds of a point will take, before anything is trained: the run's own clock, links, data and draws.

Nothing is trained, so the algorithm stands as `untrained` has it; for one whose messages are always alike (FedAvg)
times and bytes are those of the run to the last digit.  At most so many updates and so many messages are looked at, and
so many events in a row in which nothing is sent or computed; those of effects (outages, churn) count for no more.

What it does not model: scores, and what only training tells.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import simpy

from analysis.communication import directions
from fedsim.clock import budget
from fedsim.clock.world import World
from fedsim.core.record import Column, Recorder, Row, Transfer, Update
from fedsim.point.assemble import build
from fedsim.scenario.measure import Until
from fedsim.scenario.schema import Scenario

UPDATES, MESSAGES, IDLE = 3, 300_000, 300_000  # looked at in a point, at most: updates, messages, events without any


@dataclass(frozen=True)
class Preview:
    """The first updates of a point: how many there were, the tables of what led to them, and why there are no more."""

    updates: pd.DataFrame
    transfers: pd.DataFrame
    why: str = ""

    @property
    def seconds(self) -> list[float]:
        """The seconds of each update since the one before."""
        return [float(value) for value in self.updates["time"].diff().fillna(self.updates["time"])]

    @property
    def asked(self) -> list[int]:
        """The clients asked for each update."""
        return [int(value) for value in self.updates["asked"]]

    def nbytes(self, direction: str) -> float:
        """Return the bytes an update of messages that have arrived `up`, `down` or between `peer`s, folded or not."""
        mine = self.transfers[(directions(self.transfers) == direction) & ~self.transfers["fate"].isin(["cut", "lost"])]
        return float(mine["nbytes"].sum()) / max(1, len(self.updates))


def preview(scenario: Scenario, data_root: Path, updates: int = UPDATES) -> Preview:
    """Return the first updates of a point, fewer where its protocol ends before or too much happens.

    Raises UserError where the size of an upload is known only once it is trained, and whatever a run would refuse.
    """
    recorder = _Counting()
    built = build(scenario, data_root, recorder, trains=False)
    world = built.world
    why = _look(world, built.done, scenario.measure.until, recorder, updates)
    world.end()
    tables = {name: table.to_pandas() for name, table in recorder.tables().items()}
    return Preview(tables["updates"].head(updates), tables["transfers"], why)


class _Counting(Recorder):
    """A recorder that knows how many updates, messages and other rows there have been."""

    updates = messages = rows = 0

    def add(self, row: Row) -> None:
        super().add(row)
        self.rows += 1
        self.updates += isinstance(row, Update)
        self.messages += isinstance(row, Transfer)

    def extend(self, table: type[Row], columns: Mapping[str, Column]) -> None:
        super().extend(table, columns)
        self.rows += 1
        self.messages += len(columns["sent"]) if table is Transfer else 0  # type: ignore[arg-type]


def _look(world: World, done: simpy.Process, until: Until | None, recorder: _Counting, updates: int) -> str:
    """Step the clock to the end of the preview; return why it ends before there have been so many updates."""
    env, idle, rows = world.env, 0, 0
    end = math.inf if until is None or until.time is None else until.time
    while recorder.updates < updates:
        if done.processed:
            return "the protocol ends"
        if math.isinf(env.peek()):
            return f"nothing happens after {env.now:.6g} s"
        if env.peek() > end or (until is not None and budget.spent(until, world)):
            return "measure.until comes first"
        if recorder.messages > MESSAGES:
            return f"no more than {MESSAGES:,} messages are looked at, up to {env.now:.6g} s"
        if idle > IDLE:
            return f"nothing was sent or computed in {IDLE:,} events, up to {env.now:.6g} s"
        env.step()
        idle, rows = (idle + 1, rows) if recorder.rows == rows else (0, recorder.rows)
    return ""

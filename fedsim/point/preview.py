"""A preview of a point's first updates without training: the run's own clock, links, data and random draws.

The algorithm is replaced by its `untrained` form; if the size of its messages never changes (FedAvg), times and bytes
equal those of the run exactly.  The preview ends after a number of updates, of messages, or of events in a row in which
nothing is sent or computed (such as those of outages and churn).

Not modelled: scores, and sizes that are known only after training.
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

UPDATES, MESSAGES, IDLE = 3, 300_000, 300_000  # limits: updates, messages, idle events


@dataclass(frozen=True)
class Preview:
    """The first updates of a point with their transfers, and why there are fewer than asked for (`why`).

    `spans` and `arrivals` are those up to its end.
    """

    updates: pd.DataFrame
    transfers: pd.DataFrame
    spans: pd.DataFrame
    arrivals: pd.DataFrame
    why: str = ""

    @property
    def seconds(self) -> list[float]:
        """The seconds between each update and the one before."""
        return [float(value) for value in self.updates["time"].diff().fillna(self.updates["time"])]

    @property
    def asked(self) -> list[int]:
        """The clients asked for each update."""
        return [int(value) for value in self.updates["asked"]]

    def nbytes(self, direction: str) -> float:
        """Return the bytes per update of messages that arrived in a direction (up, down, peer), folded or not."""
        mine = self.transfers[(directions(self.transfers) == direction) & ~self.transfers["fate"].isin(["cut", "lost"])]
        return float(mine["nbytes"].sum()) / max(1, len(self.updates))


def preview(scenario: Scenario, data_root: Path, updates: int = UPDATES) -> Preview:
    """Return the first updates of a point; fewer if its protocol ends or a limit is reached.

    Raises UserError if the size of an upload is known only after training, or if a run would refuse the scenario.
    """
    recorder = _Counting()
    built = build(scenario, data_root, recorder, trains=False)
    world = built.world
    why = _look(world, built.done, scenario.measure.until, recorder, updates)
    world.end()
    tables = {name: table.to_pandas() for name, table in recorder.tables().items()}
    return Preview(tables["updates"].head(updates), tables["transfers"], tables["spans"], tables["arrivals"], why)


class _Counting(Recorder):
    """A recorder that counts updates and messages too."""

    updates = messages = 0

    def add(self, row: Row) -> None:
        super().add(row)
        self.updates += isinstance(row, Update)
        self.messages += isinstance(row, Transfer)

    def extend(self, table: type[Row], columns: Mapping[str, Column]) -> None:
        super().extend(table, columns)
        self.messages += len(columns["sent"]) if table is Transfer else 0  # type: ignore[arg-type]


def _look(world: World, done: simpy.Process, until: Until | None, recorder: _Counting, updates: int) -> str:
    """Step the clock to the end of the preview; return why there are fewer updates, "" if there are not."""
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
            return f"the preview stops after {MESSAGES:,} messages, at {env.now:.6g} s"
        if idle > IDLE:
            return f"nothing was sent or computed in {IDLE:,} events, up to {env.now:.6g} s"
        env.step()
        idle, rows = (idle + 1, rows) if recorder.rows == rows else (0, recorder.rows)
    return ""

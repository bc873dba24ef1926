"""What the first rounds of a point will take, before anything is trained: the run's own clock, links, data and draws.

Nothing is trained, so the algorithm stands as `untrained` has it; for one whose messages are always alike (FedAvg)
times and bytes are those of the run to the last digit.  At most so many updates and so many events are looked at.

What it does not model: scores, and what only training tells.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.communication import directions
from fedsim.record import Recorder, Row, Update
from fedsim.run import build
from fedsim.scenario import Scenario

UPDATES, EVENTS = 3, 300_000  # looked at in a point, at most


@dataclass(frozen=True)
class Preview:
    """The first updates of a point: how many there were, and the tables of what led to them."""

    updates: pd.DataFrame
    transfers: pd.DataFrame

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
    world, _, done = build(scenario, data_root, recorder, trains=False)
    until = math.inf if scenario.measure.until is None else scenario.measure.until
    for _ in range(EVENTS):
        if recorder.updates >= updates or done.processed or world.env.peek() > until or math.isinf(world.env.peek()):
            break
        world.env.step()
    world.end()
    tables = {name: table.to_pandas() for name, table in recorder.tables().items()}
    return Preview(tables["updates"].head(updates), tables["transfers"])


class _Counting(Recorder):
    """A recorder that knows how many updates there have been."""

    updates = 0

    def add(self, row: Row) -> None:
        super().add(row)
        self.updates += isinstance(row, Update)

"""A preview of a point without training: the run's own clock, links, data and random draws.

The algorithm is replaced by its `untrained` form; if the size of its messages never changes (FedAvg), times and bytes
equal those of the run exactly.  The preview ends with the run, or after a number of updates, of messages, or of events
in a row in which nothing is sent or computed (such as those of outages and churn).

Not modelled: scores, and sizes that are known only after training.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.measures.communication import directions
from fedsim.clock import budget
from fedsim.core.record import Cells, Recorder, Row, TransferRow, UpdateRow
from fedsim.point.build.assemble import Built, build
from fedsim.scenario.measure import Until
from fedsim.scenario.schema import Scenario

FEW, ENOUGH = 3, 20_000  # updates and messages that are enough to tell the rest by
MESSAGES, IDLE = 300_000, 300_000  # most messages, and idle events
WAYS = ("down", "up", "peer")


@dataclass(frozen=True)
class Preview:
    """The updates of a point up to the preview's end, with the transfers, spans and arrivals of that time.

    `why` says what ended it, "" if all updates asked for were seen.  `now` is the simulated time then, and `share` how
    much of the run had passed: 1 where the run itself ends there.  `shares` are those at the updates, and
    `first_exchange` says that rounds have further exchanges, which are not in here.
    """

    updates: pd.DataFrame
    transfers: pd.DataFrame
    spans: pd.DataFrame
    arrivals: pd.DataFrame
    why: str = ""
    now: float = 0.0
    share: float = 1.0
    shares: tuple[float, ...] = ()
    first_exchange: bool = False

    def totals(self) -> dict[str, float] | None:
        """Return the run's simulated `seconds`, and the bytes delivered down, up and between peers.

        Where the preview stopped before the run's end, the rest is taken to cost as much as the second half of what was
        seen: the first half costs more where something is sent once.  None where that is too little to tell.
        """
        if self.first_exchange:
            return None
        came = self.transfers[self.transfers["fate"] == "delivered"]
        whole = self._moved(came, self.now)
        if self.share >= 1:
            return whole
        half = len(self.updates) // 2 - 1
        if half < 0 or self.share <= self.shares[half]:
            return None
        before = self._moved(came, float(self.updates["time"].iloc[half]))
        more = (1 - self.share) / (self.share - self.shares[half])
        return {name: value + (value - before[name]) * more for name, value in whole.items()}

    def plain(self) -> dict[str, Any]:
        """Return the number of updates, the clients asked for each, the first's seconds, and the totals."""
        first = self.seconds[0] if self.seconds else None
        return {"updates": len(self.seconds), "asked": self.asked, "first": first, "run": self.totals()}

    def _moved(self, came: pd.DataFrame, end: float) -> dict[str, float]:
        """Return the seconds up to `end`, and the bytes that came until then."""
        came = came[came["arrived"] <= end]
        ways = directions(came)
        return {"seconds": end, **{way: float(came["nbytes"][ways == way].sum()) for way in WAYS}}

    @property
    def seconds(self) -> list[float]:
        """The seconds between each update and the one before."""
        return [float(value) for value in self.updates["time"].diff().fillna(self.updates["time"])]

    @property
    def asked(self) -> list[int]:
        """The clients asked for each update."""
        return [int(value) for value in self.updates["asked"]]


def preview(scenario: Scenario, data_root: Path, updates: int | None = None) -> Preview:
    """Return a point's whole run, or its first updates; less if a limit is reached.

    Raises UnknownSizeError if the size of an upload is known only after training, and UserError if a run would refuse
    the scenario.
    """
    recorder = _Counting()
    built = build(scenario, data_root, recorder, trains=False)
    world, look = built.world, _Look(built, scenario.measure.until, recorder)
    why = look.to_the_end(math.inf if updates is None else updates)
    now, share = look.now, look.share()
    cut = built.parts.algorithm.learns and built.learner.algorithm.cuts(world.server.state.value)  # type: ignore[attr-defined]
    world.end()
    tables = {name: table.to_pandas() for name, table in recorder.tables().items()}
    seen = tables["updates"] if updates is None else tables["updates"].head(updates)
    return Preview(
        seen, tables["transfers"], tables["spans"], tables["arrivals"], why, now, share, tuple(look.shares), cut
    )


class _Counting(Recorder):
    """A recorder that counts updates and messages too."""

    updates = messages = 0

    def add(self, row: Row) -> None:
        super().add(row)
        self.updates += isinstance(row, UpdateRow)
        self.messages += isinstance(row, TransferRow)

    def extend(self, table: type[Row], columns: Mapping[str, Cells]) -> None:
        super().extend(table, columns)
        self.messages += len(columns["sent"]) if table is TransferRow else 0  # type: ignore[arg-type]


class _Look:
    """Steps the clock of a world, as `run` does, to the end of the preview."""

    def __init__(self, built: Built, until: Until | None, recorder: _Counting) -> None:
        self._built, self._until, self._recorder = built, until, recorder
        self._ended = False
        self.end = math.inf if until is None else budget.end(until)
        self.shares: list[float] = []

    @property
    def now(self) -> float:
        """The simulated time: at the end of a run with a time limit, the limit."""
        now = float(self._built.world.env.now)
        return self.end if self._ended and not self._built.done.processed and self._over() else now

    def share(self) -> float:
        """Return how much of the run has passed."""
        return 1.0 if self._ended else self._built.share()

    def to_the_end(self, updates: float) -> str:
        """Step the clock up to these updates; return why there are fewer, "" if there are not."""
        env, recorder = self._built.world.env, self._recorder
        idle, rows = 0, 0
        while recorder.updates < updates:
            if why := self._run_over():
                self._ended = True
                return why
            if recorder.messages > (ENOUGH if recorder.updates >= FEW else MESSAGES):
                return f"the preview stops after {recorder.messages:,} messages, at {env.now:.6g} s"
            if idle > IDLE:
                return f"no transfer or computation finished in {IDLE:,} events, up to {env.now:.6g} s"
            before = recorder.updates
            env.step()
            self.shares += [self.share()] * (recorder.updates - before)
            idle, rows = (idle + 1, rows) if recorder.rows == rows else (0, recorder.rows)
        return ""

    def _over(self) -> bool:
        return self._built.world.env.peek() > self.end

    def _run_over(self) -> str:
        """Return why the run itself ends here, "" if it does not."""
        world = self._built.world
        if self._built.done.processed:
            return "the protocol ends"
        if math.isinf(world.env.peek()):
            return f"nothing happens after {world.env.now:.6g} s"
        if self._over() or (self._until is not None and budget.spent(self._until, world)):
            return "measure.until comes first"
        return ""

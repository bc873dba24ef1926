"""When periods reach clients: by the server's updates, by a clock of each client's own, or at recorded times.

A client's clock draws every gap from the random stream `arrivals.<client>`, so that neither the number of
clients nor the draws of other parts change a client's times.  All times are known before the run, and one
process delivers the periods of all clients, ordered by time, period and client.  Time does not depend on the
network: with slow links there are fewer updates between two arrivals.

What it does not model: arrivals that depend on what has been learned, bursts that clients share, and data
that are lost or come back.
"""

from abc import ABC
from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.arrays import Floats
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.seeds import Rng
from fedsim.core.table import Column, FilePath, fault, read_lines
from fedsim.core.units import SECONDS, Clock, Draw, SecondsDraw, Updates
from fedsim.data.graph import Period
from fedsim.data.stream import Stream

ArrivalProcess = Generator[Any, Any, None]
COLUMNS = [Column("client", whole=True, low=0), Column("period", whole=True, low=0), Column("time_s", low=0.0)]


@dataclass(frozen=True)
class Clocked(Stream, ABC):
    """A stream whose periods arrive one after another.

    `every` is the time until the next period: "20 updates" of the server, for all clients together; "10 min",
    the same for each client; or a distribution that each gap of each client is drawn from, "poisson(10 min)"
    for a Poisson process.  `table` gives recorded times instead.  `offset` is how late each client's own
    clock starts.
    """

    every: Clock | None = None  # time or updates until the next period
    _: KW_ONLY
    offset: SecondsDraw = field(default=SECONDS.draw(0.0))  # delay after which each client's clock starts
    table: FilePath | None = None  # recorded times, with the columns client, period, time_s

    def __post_init__(self) -> None:
        """Check that exactly one of `every` and `table` is given."""
        if (self.every is None) == (self.table is None):
            raise ValueError("give either 'every' (such as '20 updates' or 'poisson(10 min)') or 'table', not both")
        if any(self.offset.values) and (self.table is not None or isinstance(self.every, Updates)):
            which = "the table's times are final" if self.table else "updates are counted for all clients together"
            raise ValueError(f"offset: {which}, so no client's clock can be offset; leave it out")

    def run(self, world: Any, periods: Sequence[Sequence[Period]]) -> ArrivalProcess:
        """Return the process that delivers the periods.  Raises ScenarioError if the table does not fit."""
        counts = [len(own) for own in periods]
        if isinstance(self.every, Updates):
            return after_updates(world, periods, self.every.count)
        if self.table is not None:
            try:
                return at_times(world, periods, recorded(self.table, counts))
            except UserError as error:
                raise ScenarioError.at("data.stream.table", str(error)) from None
        assert self.every is not None
        return at_times(world, periods, drawn(counts, self.every, self.offset, world.rng))


def drawn(counts: Sequence[int], every: float | Draw, offset: Draw, rng: Rng) -> list[Floats]:
    """Return each client's times (s), ascending, one a period (`counts`): its offset, then gap after gap."""
    found = []
    for client, count in enumerate(counts):
        late = offset.values[0]
        if offset.kind != "constant":  # a separate stream: a late start changes no gap
            late = float(offset.sample(rng(f"arrivals.offset.{client}"), 1)[0])
        if isinstance(every, Draw):
            gaps = every.sample(rng(f"arrivals.{client}"), max(0, count - 1))
            since = np.concatenate([[0.0], gaps.cumsum()])[:count]
        else:
            since = every * np.arange(count)
        found.append(late + since)
    return found


def recorded(path: Path, counts: Sequence[int]) -> list[Floats]:
    """Return each client's times (s), ascending, of its first periods: those that the table has.

    A client without a row never gets data.  Raises UserError if the table names an unknown client or period
    (`counts` holds the number of periods of each client), repeats one, skips one, or has earlier times for
    later periods.
    """
    rows, lines = read_lines(path, COLUMNS)
    order = np.lexsort((rows["period"], rows["client"]))
    columns = [each[order].tolist() for each in (rows["client"], rows["period"], rows["time_s"], lines)]
    ends: list[list[float]] = [[] for _ in counts]
    for client, number, time, line in zip(*columns, strict=True):
        if client >= len(counts):
            raise fault(path, line, f"there is no client {client}; they are numbered 0 to {len(counts) - 1}")
        own = ends[client]
        if number >= counts[client]:
            last = counts[client] - 1
            raise fault(path, line, f"there is no period {number}; the stream cuts periods 0 to {last}")
        if number < len(own):
            raise fault(path, line, f"client {client}, period {number} appears twice; keep one")
        if number > len(own):
            raise fault(path, line, f"client {client} has period {number}, but not {len(own)}; add that first")
        if own and time < own[-1]:
            raise fault(
                path, line, f"client {client}, period {number} arrives before period {number - 1}; sort times by period"
            )
        own.append(time)
    if not any(ends):
        raise UserError(f"{path}: no client gets any data")
    return [np.array(own) for own in ends]


def at_times(world: Any, periods: Sequence[Sequence[Period]], times: Sequence[Floats]) -> ArrivalProcess:
    """Deliver each client's periods at its times (s); those of the same instant follow each other directly."""
    client = np.repeat(np.arange(len(times)), [len(own) for own in times])
    number = np.concatenate([np.arange(len(own)) for own in times]) if len(times) else np.empty(0, int)
    due = np.concatenate(times) if len(times) else np.empty(0)
    for at in np.lexsort((client, number, due)).tolist():
        while world.env.now < due[at]:
            yield world.env.timeout(float(due[at]) - world.env.now)
        world.deliver(int(client[at]), periods[client[at]][number[at]])


def after_updates(world: Any, periods: Sequence[Sequence[Period]], count: int) -> ArrivalProcess:
    """Deliver every client's first period now, and the next ones after every `count` updates."""
    for number in range(max(map(len, periods), default=0)):
        while world.server.version < number * count:
            yield world.server.updated
        for client, own in enumerate(periods):
            if number < len(own):
                world.deliver(client, own[number])

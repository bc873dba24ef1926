"""The messages, the work and the absences of a run, as arrays.

It models what was seen at the ends of messages, and nothing of what happened in between.
"""

from dataclasses import dataclass, field, fields
from typing import Self

import numpy as np

from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.scenario.schema import Scenario


@dataclass(frozen=True, eq=False)
class MeasuredRows:
    """Columns of equal length, one entry a row."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Bools | Ints) -> Self:
        """Return the rows that a mask or numbers choose."""
        return type(self)(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


@dataclass(frozen=True, eq=False)
class Moved(MeasuredRows):
    """Messages between the server and its clients, each a row (n,), in the order of `sent`.

    `whole` are those that arrived with all their bytes, whether or not the protocol still used them; of the
    others only that they took a connection is known.  Times are in seconds of the run.  `wire` is what moved
    for a message, with headers and repeats, 0 if unknown.
    """

    client: Ints
    upload: Bools
    nbytes: Ints
    sent: Floats
    arrived: Floats
    whole: Bools
    wire: Ints

    @property
    def seconds(self) -> Floats:
        """From the sending to the last byte's arrival (n,)."""
        return self.arrived - self.sent


@dataclass(frozen=True, eq=False)
class Spans(MeasuredRows):
    """Stretches of time of clients, each a row (n,), in seconds of the run."""

    client: Ints
    start: Floats
    end: Floats

    @property
    def seconds(self) -> Floats:
        """How long each lasted (n,)."""
        return self.end - self.start

    @classmethod
    def none(cls) -> "Spans":
        """Return no stretches."""
        return Spans(np.array([], dtype=np.int64), np.array([]), np.array([]))


@dataclass(frozen=True, eq=False)
class Worked(Spans):
    """Finished jobs of clients, with their operations, NaN where unknown."""

    operations: Floats


@dataclass(frozen=True, eq=False)
class Measurements:
    """All that was seen of a run.

    `updates` are the seconds of the server's updates (n,), empty if unknown.  `asked` and `answered` count
    requests and whole replies of each client (K,).  `scenario` is the run's own, with every value resolved,
    None if there is none. `notes` say what of the sources was not used, one sentence each.  `offline` are
    absences; `started` are the starts of the processes that did clients' jobs, known of runs over Flower.
    """

    clients: int
    moved: Moved
    worked: Worked
    offline: Spans
    updates: Floats
    end: float
    scenario: Scenario | None = None
    notes: tuple[str, ...] = field(default=())
    started: Spans = field(default_factory=Spans.none)

    @property
    def carried(self) -> bool:
        """Whether Flower's processes carried the messages, so that each took some unknown seconds beside the link."""
        return len(self.started) > 0

    @property
    def asked(self) -> Ints:
        """How many messages were sent to each client (K,)."""
        return np.bincount(self.moved.client[~self.moved.upload], minlength=self.clients)

    @property
    def answered(self) -> Ints:
        """How many messages of each client arrived whole (K,)."""
        return np.bincount(self.moved.client[self.moved.upload & self.moved.whole], minlength=self.clients)

    def present(self) -> Floats:
        """Return the share of the run for which each client was not recorded as offline (K,)."""
        gone = np.bincount(self.offline.client, self.offline.seconds, minlength=self.clients)
        return 1.0 - gone / self.end if self.end > 0 else np.ones(self.clients)

"""What the table compares: settings, contenders and the six budgets; and a cell, one run, by its name as text.

A setting is a deployment with its data and task: all that is compared with one another.  A contender is a method under
a protocol.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

GIVEN, HALVED = "given", "halved"  # the rates of all clients' links
COSTS = ("bytes", "seconds")
PARTS = (0.01, 0.1, 1.0)  # of a setting's budget
COMMAND = "python -m fedsim.reference --cell"


class SettingKey(NamedTuple):
    """A deployment, its data and its task."""

    deployment: str
    data: str
    task: str

    def __str__(self) -> str:
        """Return "campus/digits/static"."""
        return "/".join(self)


class Contender(NamedTuple):
    """A method under a protocol."""

    method: str
    protocol: str

    def __str__(self) -> str:
        """Return "power/sync"."""
        return "/".join(self)


@dataclass(frozen=True)
class Budget:
    """Bytes on the wire, both directions together, and simulated seconds."""

    bytes: float
    seconds: float


Budgets = Mapping[SettingKey, Budget]


@dataclass(frozen=True)
class BudgetShare:
    """One of the six budgets: a share of a setting's bytes or seconds."""

    cost: str
    part: float

    def __str__(self) -> str:
        """Return "1 % of the bytes" or "1 % of the time"."""
        return f"{self.percent} of the {'bytes' if self.cost == 'bytes' else 'time'}"

    @property
    def percent(self) -> str:
        """The share as a text: "10 %"."""
        return f"{self.part * 100:g} %"

    def of(self, budget: Budget) -> float:
        """Return the share of a setting's budget, in bytes or seconds."""
        return self.part * (budget.bytes if self.cost == "bytes" else budget.seconds)


SHARES = tuple(BudgetShare(cost, part) for cost in COSTS for part in PARTS)


@dataclass(frozen=True)
class Cell:
    """One run.  Its text is `campus/digits/static/power/sync/given/3`."""

    deployment: str
    data: str
    task: str
    method: str
    protocol: str
    links: str
    seed: int

    @property
    def setting(self) -> SettingKey:
        """What it is compared within."""
        return SettingKey(self.deployment, self.data, self.task)

    @property
    def row(self) -> dict[str, Any]:
        """Its fields by name."""
        return dict(vars(self))

    def __str__(self) -> str:
        """Return its name."""
        return "/".join(map(str, self.row.values()))

    def within(self, name: str) -> bool:
        """Return whether a name, or the first steps of one, means this cell."""
        return f"{self}/".startswith(f"{name.rstrip('/')}/")


def command(setting: SettingKey, contender: Contender) -> str:
    """Return the command that runs all seeds of a contender alone in a setting, with links as given."""
    return f"{COMMAND} {setting}/{contender}/{GIVEN}"

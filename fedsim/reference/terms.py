"""What the study compares: settings, contenders, and the six budgets at which it compares them.

A setting is a deployment with its data and task: all that is compared with one another. A contender is a method under a
protocol. A cell is one of its runs, or without the seed all of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from fedsim.reference.cell import GIVEN, Key
from fedsim.reference.plan import Budget

COSTS = ("bytes", "seconds")
PARTS = (0.01, 0.1, 1.0)  # of a setting's budget
COMMAND = "python -m fedsim.reference --cell"


class Setting(NamedTuple):
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
class Share:
    """One of the six budgets: a share of a setting's bytes or seconds."""

    cost: str
    part: float

    def __str__(self) -> str:
        """Return "1 % of the bytes" or "1 % of the time"."""
        return f"{self.percent} of the {self.resource}"

    @property
    def resource(self) -> str:
        """What the budget is of: "bytes" or "time"."""
        return "bytes" if self.cost == "bytes" else "time"

    @property
    def percent(self) -> str:
        """The share as a text: "10 %"."""
        return f"{self.part * 100:g} %"

    def of(self, whole: Budget) -> float:
        """Return the budget of a setting, in bytes or seconds."""
        return self.part * (whole.bytes if self.cost == "bytes" else whole.seconds)


SHARES = tuple(Share(cost, part) for cost in COSTS for part in PARTS)
Allowed = Mapping[Key, Budget]  # the budgets of each setting


def command(setting: Setting, contender: Contender, links: str = GIVEN, seed: int | None = None) -> str:
    """Return the command that runs a contender alone in a setting, with all seeds or with one."""
    return f"{COMMAND} {setting}/{contender}/{links}{'' if seed is None else f'/{seed}'}"

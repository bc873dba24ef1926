"""What it costs each contender to reach 90 % of the best mean final score of its setting.

A run is there at its first scoring at or above the target, even if a later one is lower. Bytes and seconds are means
over the runs that get there; how many do is said beside them. The best is that of the final standings' leader. Scores
of the untrained model do not count (see scores).

Not modelled: anything after a run's end; a run that ends below the target may only have lacked the budget.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from fedsim.reference.standings import Standings
from fedsim.reference.terms import Contender

PART = 0.9  # of the best mean final score


@dataclass(frozen=True)
class Cost:
    """What the target costs a contender: means over the `reached` runs that get there, NaN if none do.

    `seeds` is the number of the setting's seeds.
    """

    contender: Contender
    bytes: float
    seconds: float
    reached: int
    seeds: int


def target(final: Standings) -> float:
    """Return the score to reach, a fraction; NaN without a leader."""
    return PART * final.best


def costs(cells: pd.DataFrame, courses: pd.DataFrame, goal: float, seeds: int) -> tuple[Cost, ...]:
    """Return each contender's cost: `cells` are of one setting and kind of links, `courses` those of scores.trained.

    `seeds` is the number of the setting's seeds.
    """
    at = courses[courses["score"] >= goal].drop_duplicates("cell").set_index("cell")[["bytes", "seconds"]]
    return tuple(_costs(cells.join(at.add_suffix("_there"), on="cell"), seeds))


def _costs(runs: pd.DataFrame, seeds: int) -> Iterator[Cost]:
    for key, rows in runs.groupby(["method", "protocol"]):
        there = rows.dropna(subset="seconds_there")
        spent = [float(there[f"{cost}_there"].mean()) if len(there) else math.nan for cost in ("bytes", "seconds")]
        yield Cost(Contender(*map(str, key)), spent[0], spent[1], len(there), seeds)

"""Means over replicates, with 95 % confidence intervals where there are enough of them.

Replicates are nested: several seeds within one order of tasks.

Runs of one order are not independent of one another, so with several orders the unit is the order: its seeds are
averaged first, and Student's t goes over the orders (orders - 1 degrees of freedom). With a single order the unit is
the seed, and the interval speaks for that order only. Fewer than five units have no interval, which would be too
wide to be useful: two scores of 39 and 26 % would give -50 to 115 %. They are shown one by one.

Not modelled: orders that differ in their number of seeds, which are weighted equally; two outer replicates at once, of
which the one with the fewer values is the unit, and the interval may still be too narrow.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.axes import replicates, short

CONFIDENCE = 0.95
FEWEST = 5  # units for a meaningful interval or standard deviation
NAMES = {"numpy_seed": "order"}  # names of the outer replicates: this seed draws the order of the tasks


@dataclass(frozen=True)
class Interval:
    """A mean over units (NaN without any), its interval's ends (NaN for fewer than FEWEST units), and the units."""

    mean: float
    low: float
    high: float
    units: tuple[float, ...] = ()

    @property
    def few(self) -> list[float]:
        """The units to show one by one if there is no interval; none for a single one."""
        return list(self.units) if math.isnan(self.low) and len(self.units) > 1 else []

    @property
    def excludes_zero(self) -> bool | None:
        """Whether zero lies outside; None without an interval."""
        return None if math.isnan(self.low) else self.low > 0 or self.high < 0


def t_interval(values: Iterable[float]) -> Interval:
    """Return mean and t interval of independent values."""
    units = np.array([*values], float)
    mean, own = float(units.mean()) if len(units) else math.nan, tuple(map(float, units))
    if len(units) < FEWEST:
        return Interval(mean, math.nan, math.nan, own)
    half = float(stdtrit(len(units) - 1, (1 + CONFIDENCE) / 2)) * float(units.std(ddof=1)) / math.sqrt(len(units))
    return Interval(mean, mean - half, mean + half, own)


def interval(runs: pd.DataFrame, value: str) -> Interval:
    """Return mean and interval of a column over the runs of one method and condition, nesting respected.

    `runs` holds a row a run, with the columns of its replicates (`seed`, and any axis that ends so). Runs without the
    value are left out.
    """
    known = runs.loc[runs[value].notna(), [*replicates(runs.columns), value]]
    outer = _unit(known)
    return t_interval(known[value] if outer is None else known.groupby(outer)[value].mean())


def counted(runs: pd.DataFrame) -> str:
    """Return what the runs are: "3 seeds", "5 orders x 3 seeds", or "5 orders, 12 runs" where some are missing."""
    outer = replicates(runs.columns)[:-1]
    seeds = runs["seed"].nunique()
    parts = [_many(runs[axis].nunique(), NAMES.get(short(axis), ".".join(axis.split(".")[-2:]))) for axis in outer]
    whole = seeds * math.prod(runs[axis].nunique() for axis in outer)
    if whole != len(runs):
        return ", ".join([*parts, _many(len(runs), "run")])
    return " x ".join([*parts, _many(seeds, "seed")])


def _unit(runs: pd.DataFrame) -> str | None:
    """Return the outer replicate that is the unit: of those with several values the one with the fewest."""
    sizes = {axis: runs[axis].nunique() for axis in replicates(runs.columns)[:-1]}
    varied = [axis for axis, size in sizes.items() if size > 1]
    return min(varied, key=sizes.__getitem__) if varied else None


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"

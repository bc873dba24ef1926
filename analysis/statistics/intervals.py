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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.axes import replicates, short
from analysis.quantity import many
from fedsim.core.arrays import Array, Floats

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
    mean = float(units.mean()) if len(units) else math.nan
    half = float(half_width(units.std(ddof=1), len(units))) if len(units) >= FEWEST else math.nan
    return Interval(mean, mean - half, mean + half, tuple(map(float, units)))


def half_width(deviation: Any, count: int) -> Any:
    """Return half the width of the t interval of `count` values (or, for an array of deviations, of many intervals)."""
    from scipy.special import stdtrit  # takes a tenth of a second, which runs do not need

    return stdtrit(count - 1, (1 + CONFIDENCE) / 2) * deviation / math.sqrt(count)


def interval(runs: pd.DataFrame, value: str) -> Interval:
    """Return mean and interval of a column over the runs of one method and condition, nesting respected.

    `runs` holds a row a run, with the columns of its replicates (`seed`, and any axis that ends so). Runs without the
    value are left out.
    """
    values = runs[value].to_numpy(float)
    known = ~np.isnan(values)
    return nested(values[known], [runs[axis].to_numpy()[known] for axis in replicates(runs.columns)[:-1]])


def nested(values: Floats, outer: Sequence[Array]) -> Interval:
    """Return mean and interval of values, a replicate each; `outer` says for each outer replicate which they are of.

    Of several outer replicates with more than one value, the one with the fewest is the unit.
    """
    sizes = [len({*of}) for of in outer]
    varied = [place for place, size in enumerate(sizes) if size > 1]
    if not varied:
        return t_interval(values)
    return t_interval(pd.Series(values).groupby(outer[min(varied, key=sizes.__getitem__)]).mean())


def counted(runs: pd.DataFrame) -> str:
    """Return what the runs are: "3 seeds", "5 orders x 3 seeds", or "5 orders, 12 runs" where some are missing."""
    outer = replicates(runs.columns)[:-1]
    seeds = runs["seed"].nunique()
    parts = [many(runs[axis].nunique(), NAMES.get(short(axis), ".".join(axis.split(".")[-2:]))) for axis in outer]
    if seeds * math.prod(runs[axis].nunique() for axis in outer) != len(runs):
        return ", ".join([*parts, many(len(runs), "run")])
    return " x ".join([*parts, many(seeds, "seed")])

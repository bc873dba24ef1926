"""Axes of seconds and bytes: the unit, the ticks and their labels.

An axis has one unit, given in its title, unless it is logarithmic or its panels differ too much: then each label has
its own, so that neither "0.00015 h" nor "12,000,000 ms" appears.

Not modelled: minutes and hours as round steps of a linear axis in seconds.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.quantity import SECONDS, Units, spelled, unit_for

PLAIN = (0.1, 10_000.0)  # between these a label is a plain number of the axis' unit
MOST = 1000.0  # of the unit on the longest panel; above it the unit is chosen for the typical panel
WIDE = 30  # ratio of the largest to the smallest value from which an axis is logarithmic
FEW = 4  # ticks of a logarithmic axis, below which it gets finer ones
DAY = 86400.0
TIMES = [1.0, 10.0, 60.0, 600.0, 3600.0, 36000.0, DAY]
FINE_TIMES = [1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 18000.0]
FINE_TIMES += [36000.0]


@dataclass(frozen=True)
class Amount:
    """An axis: rows hold values divided by `scale`, and `ticks` (same unit) are given where it is logarithmic."""

    units: Units
    scale: float
    unit: str
    ticks: tuple[float, ...] = ()
    wide: bool = False

    def of(self, values: pd.Series) -> pd.Series:
        """Return SI values in the axis' unit."""
        return values / self.scale

    def title(self, name: str) -> str:
        """Return the title, with the unit if all labels share one."""
        return name if self.wide else f"{name} ({self.unit})"

    def label(self, value: str = "datum.value", plain: str = "datum.label") -> str:
        """Return the Vega expression of a tick's label, or of another value formatted like one."""
        own = spelled(value, self.units, self.scale)
        if self.wide:
            return own
        least, most = PLAIN
        return f"{value} == 0 ? '0' : abs({value}) >= {least} && abs({value}) < {most:g} ? {plain} : {own}"

    def axis(self, **options: Any) -> alt.Axis:
        """Return the axis' ticks and labels."""
        if self.ticks:
            options |= {"values": [*self.ticks]}
        return alt.Axis(**{"tickCount": 5, "labelExpr": self.label(), "labelOverlap": True, **options})

    def expression(self, column: str) -> str:
        """Return the Vega expression that formats a column of this axis, each value with its best unit."""
        return spelled(f"datum.{column}", self.units, self.scale)


def linear(ends: Iterable[float], units: Units) -> Amount:
    """Return the axis of panels that end at `ends` (SI)."""
    known = [end for end in ends if math.isfinite(end) and end > 0] or [units[-1][0]]
    scale, name = unit_for(min(known), units)
    if max(known) / scale >= MOST:
        scale, name = unit_for(math.sqrt(min(known) * max(known)), units)
    return Amount(units, scale, name)


def along(values: pd.Series, units: Units) -> Amount:
    """Return the axis of one panel's values (SI), or of several panels that share it: logarithmic for a wide range."""
    known = values[np.isfinite(values.astype(float))].astype(float)
    least, most = float(known.min()), float(known.max())  # NaN without any
    if least > 0 and most / least > WIDE:
        return Amount(units, 1.0, "", _ticks(least, most, units), wide=True)
    return linear([most], units)


def _ticks(least: float, most: float, units: Units) -> tuple[float, ...]:
    """Return round values from somewhat below the least to somewhat above the most."""
    powers = range(math.floor(math.log10(least)) - 1, math.ceil(math.log10(most)) + 2)
    coarse, fine = [10.0**power for power in powers], [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
    if units is SECONDS:
        coarse = [*(value for value in coarse if value < 1), *TIMES, *(DAY * value for value in coarse if value > 1)]
        days = [DAY * digit * 10**power for power in range(9) for digit in (1, 2, 5)]
        fine = [*(value for value in fine if value < 1), *FINE_TIMES, *days]
    inside = [value for value in coarse if least / 2 <= value <= most * 2]
    return tuple(inside if len(inside) >= FEW else [value for value in fine if least / 1.5 <= value <= most * 1.5])

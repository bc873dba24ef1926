"""Cells of the report's tables from a row of a frame: where it was run, and its figures with their spread.

Five runs or more are shown as mean ± one standard deviation; fewer, with their smallest and largest value.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from analysis.axes import number
from analysis.quantity import MISSING, PERCENT, Units, show
from analysis.report.page import Cell, text
from analysis.statistics.intervals import FEWEST

Maker = Callable[["pd.Series[Any]"], Cell]  # makes a cell of a frame's row
LAST = 1e300  # sorts after every figure


def placed(row: "pd.Series[Any]", columns: Sequence[str]) -> list[Cell]:
    """Return cells of names and axis values; values such as "10 ms" sort by their number."""
    return [text(str(row[column]) or MISSING, number(str(row[column]))) for column in columns]


def figure(name: str, units: Units) -> Maker:
    """Return what makes a cell of a mean and its spread over a row's `n` runs (see spread.over_replicates)."""
    return lambda row: Cell(_spread(row, name, units), key(row[name]))


def points(name: str) -> Maker:
    """Return what makes a cell of a fraction in percentage points, with its spread over a row's `n` runs."""
    return lambda row: Cell(_spread(row, name, PERCENT).replace(" %", ""), key(row[name]))


def plain(name: str, units: Units) -> Maker:
    """Return what makes a cell of a figure without its spread."""
    return lambda row: Cell(show(row[name], units), key(row[name]))


def whole(name: str) -> Maker:
    """Return what makes a cell of a whole number."""
    return lambda row: Cell(f"{row[name]:.0f}", row[name])


def in_points(value: float) -> Cell:
    """Return a cell of a fraction in percentage points."""
    return Cell(shown_in_points(value), key(value))


def shown_in_points(value: float) -> str:
    """Return a fraction in percentage points, such as "2.1"."""
    return show(value, PERCENT).removesuffix(" %")


def ranged(low: float, high: float, units: Units) -> str:
    """Return "5.3 to 10.1 s", the unit once where both have the same; a single number where they look the same."""
    ends = [show(low, units), show(high, units)]
    if ends[0] == ends[1]:
        return ends[0]
    unit = ends[1].partition(" ")[2]
    return f"{ends[0].removesuffix(f' {unit}') if unit else ends[0]} to {ends[1]}"


def ends(of: str, row: "pd.Series[Any]") -> Cell:
    """Return a cell of an interval's ends, or of the range of too few."""
    low, high = row[f"{of}low"], row[f"{of}high"]
    if math.isnan(low) and f"{of}lowest" in row:
        low, high = row[f"{of}lowest"], row[f"{of}highest"]
    if math.isnan(low) or row.get("n", 2) < 2:
        return Cell(MISSING, "")
    return Cell(ranged(low, high, PERCENT).removesuffix(" %"), high - low)


def key(value: float) -> float | str:
    """Return the sort key of a figure: its value, or "" if it is missing."""
    return "" if math.isnan(value) else value


def spread_in_words(frame: pd.DataFrame) -> str:
    """Return how a table's note describes the spread over `n` runs: " ± one standard deviation", ..., or nothing."""
    few, many = ((frame["n"] > 1) & (frame["n"] < FEWEST)).any(), (frame["n"] >= FEWEST).any()
    ends = "the least and the greatest value in brackets"
    if few and many:
        return f", ± one standard deviation, or with fewer than {FEWEST} runs {ends}"
    return ", ± one standard deviation" if many else f", {ends}" if few else ""


def _spread(row: "pd.Series[Any]", name: str, units: Units) -> str:
    """Return a mean ± its deviation, of fewer than FEWEST runs with their range, alone where all are the same."""
    if f"{name}_min" in row and row[f"{name}_min"] == row[f"{name}_max"]:
        return show(row[name], units)
    if row["n"] >= FEWEST or f"{name}_min" not in row:
        return show(row[name], units, row[f"{name}_sd"])
    mean, ends = show(row[name], units), ranged(row[f"{name}_min"], row[f"{name}_max"], units)
    return mean if ends == mean else f"{mean} ({ends})"

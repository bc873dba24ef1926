"""Cells of the report's tables from a row of a frame: where it was run, and its figures with their deviations."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from analysis.axes import number
from analysis.page import Cell, text
from analysis.quantity import MISSING, PERCENT, show

LAST = 1e300  # sorts after every figure


def placed(row: "pd.Series[Any]", columns: Sequence[str]) -> list[Cell]:
    """Return cells of names and of values of axes, such as "10 ms": these sort by their number."""
    return [text(str(row[column]) or MISSING, number(str(row[column]))) for column in columns]


def figure(row: "pd.Series[Any]", name: str, units: list[tuple[float, str]]) -> Cell:
    """Return a cell of a mean and its deviation, the column `name` and the one with `_sd`."""
    return Cell(show(row[name], units, row[f"{name}_sd"]), key(row[name]))


def points(value: float, sd: float | None = None) -> Cell:
    """Return a cell of a fraction in percentage points, with its deviation where it has one."""
    return Cell(show(value, PERCENT, sd).removesuffix(" %"), key(value))


def key(value: float) -> float | str:
    """Return what a figure sorts by: itself, or nothing where it is missing."""
    return "" if math.isnan(value) else value

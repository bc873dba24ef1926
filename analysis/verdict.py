"""Name conditions, and select the easiest one."""

import pandas as pd

from analysis.axes import best_end, short


def condition_of(values: dict[str, str]) -> str:
    """Return "latency 10 ms, participation 0.3"."""
    return ", ".join(f"{short(axis)} {value}" for axis, value in values.items())


def easiest(rows: pd.DataFrame, axes: list[str]) -> tuple[pd.DataFrame, str]:
    """Return the rows under the easiest value of every axis in turn (see axes.best_end), and "At ... . " or ""."""
    where: dict[str, str] = {}
    for axis in axes:
        if rows[axis].nunique() > 1:
            where[axis] = best_end(axis, list(rows[axis]))
            rows = rows[rows[axis] == where[axis]]
    return rows, f"At {condition_of(where)}. " if where else ""

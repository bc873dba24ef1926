"""Select rows to chart from sweeps that are not a full product, such as the union of several grids.

A condition here is an algorithm with one value of every axis that the chart does not run along.
"""

import pandas as pd


def along(frame: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
    """Return the rows of those conditions in which the axis has at least two values: columns algorithm, `others`."""
    values = frame.groupby(["algorithm", *others], sort=False, dropna=False)[axis].transform("nunique")
    return frame[values > 1]


def crossed(frame: pd.DataFrame, axes: tuple[str, str], others: list[str]) -> pd.DataFrame:
    """Return the rows of those conditions in which each axis has two values at least, and all pairs were run."""
    groups = frame.groupby(["algorithm", *others], sort=False, dropna=False)
    across, down = (groups[axis].transform("nunique") for axis in axes)
    pair = pd.Series(list(zip(*(frame[axis] for axis in axes), strict=True)), index=frame.index, dtype="object")
    pairs = pair.groupby([frame[name] for name in ("algorithm", *others)], sort=False, dropna=False)
    return frame[(across > 1) & (down > 1) & (pairs.transform("nunique") == across * down)]

"""Axes along which figures do not change: they are shown at one value, and the page says so once.

Under a synchronous protocol, for instance, a latency changes when things happen and nothing of what is learned or sent.
Figures that differ by less than a thousandth count as the same.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.axes import ordered, short
from analysis.groups import joined, listed

CLOSE = 1e-3


def settled(
    frame: pd.DataFrame, axes: Sequence[str], values: Sequence[str], by: Sequence[str] = ("algorithm",)
) -> tuple[pd.DataFrame, list[str], str]:
    """Return the rows at one value of each axis along which none of `values` changes, the other axes, and a sentence.

    Rows are told apart by their axes and by the columns `by`; rows alike in all of these keep their order. An axis is
    only settled where the same rows are there at each of its values.
    """
    left, idle = list(axes), []
    for axis in axes:
        places = ordered(frame[axis].astype(str))
        if len(places) > 1 and _same(frame, axis, [*(other for other in left if other != axis), *by], values):
            frame = frame[frame[axis].astype(str) == places[0]].reset_index(drop=True)
            left.remove(axis)
            idle.append(f"{short(axis)} ({listed(places, places)})")
    return frame, left, f"The same at every {joined(idle)}, so shown once." if idle else ""


def _same(frame: pd.DataFrame, axis: str, by: list[str], values: Sequence[str]) -> bool:
    parts = [rows for _, rows in frame.groupby(axis, sort=False)]
    if by:
        parts = [rows.sort_values(by, kind="stable") for rows in parts]
    first = parts[0]
    return all(
        len(rows) == len(first)
        and (not by or bool((rows[by].to_numpy() == first[by].to_numpy()).all()))
        and np.allclose(
            rows[list(values)].to_numpy(float),
            first[list(values)].to_numpy(float),
            rtol=CLOSE,
            atol=1e-9,
            equal_nan=True,
        )
        for rows in parts[1:]
    )

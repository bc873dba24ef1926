"""Axes along which figures do not change: they are shown at one value, and the page says so once.

Under a synchronous protocol, for instance, a latency changes when things happen and nothing of what is learned or sent.
Figures that differ by less than a thousandth count as the same.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.axes import ordered, short

CLOSE = 1e-3
OF_VALUES = ("n", "rank", "replicates")


def settled(frame: pd.DataFrame, axes: Sequence[str], values: Sequence[str]) -> tuple[pd.DataFrame, list[str], str]:
    """Return the rows at one value of each axis along which none of `values` changes, the other axes, and a sentence.

    Rows are told apart by their axes and by every other column of texts. Along an axis that is settled all rows must
    have been run at all of its values.
    """
    left, idle = list(axes), []
    names = [name for name in frame.columns if name not in axes and _names_rows(frame[name]) and name not in OF_VALUES]
    for axis in axes:
        places = ordered(frame[axis].astype(str))
        if len(places) > 1 and _same(frame, axis, [*(other for other in left if other != axis), *names], values):
            frame = frame[frame[axis].astype(str) == places[0]].reset_index(drop=True)
            left.remove(axis)
            idle.append(f"{short(axis)} ({places[0]} to {places[-1]})" if len(places) > 2 else
                        f"{short(axis)} ({' and '.join(places)})")  # fmt: skip
    words = f"The same at every {' and '.join(idle)}, so shown once." if idle else ""
    return frame, left, words


def _names_rows(column: pd.Series) -> bool:
    return not pd.api.types.is_numeric_dtype(column) and all(isinstance(value, str) for value in column)


def _same(frame: pd.DataFrame, axis: str, by: list[str], values: Sequence[str]) -> bool:
    parts = [rows for _, rows in frame.groupby(axis, sort=False)]
    if by:
        parts = [rows.sort_values(by, kind="stable") for rows in parts]
    first = parts[0]
    return all(
        len(rows) == len(first)
        and (not by or bool((rows[by].to_numpy() == first[by].to_numpy()).all()))
        and np.allclose(
            rows[list(values)].to_numpy(float), first[list(values)].to_numpy(float), rtol=CLOSE, atol=1e-9, equal_nan=True
        )
        for rows in parts[1:]
    )

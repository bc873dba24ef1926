"""Find axes along which figures do not change, so that tables and charts show them at one value and say so once.

Under a synchronous protocol, for instance, latency changes when things happen, but not what is learned or sent.
In a table figures count as the same where they differ by no more than CLOSE of themselves; in a chart, where a change
of SEEN of the largest figure cannot be seen.

Not modelled: figures that change along two axes together but along neither alone; each axis is examined separately.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.axes import joined, listed, ordered, short

CLOSE = 0.001
SEEN = 0.005
MOST = 6  # names that are listed one by one
ORDER = "order of rows alike"


def settled(
    frame: pd.DataFrame, axes: Sequence[str], values: Sequence[str], by: Sequence[str] = ("algorithm",)
) -> tuple[pd.DataFrame, list[str], str]:
    """Return a table's rows at one value of each axis along which none of `values` changes, the other axes, a sentence.

    One value of every axis and the columns `by` name a row; rows that share all of them are compared in their order.
    """
    frame, idle = _at_one_value(frame, axes, values, by, CLOSE)
    said = f"The same at every {joined([words for _, words in idle])}, so shown once." if idle else ""
    return frame, [axis for axis in axes if axis not in {axis for axis, _ in idle}], said


def drawn_once(frame: pd.DataFrame, axes: Sequence[str], by: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return a chart's rows at one value of each axis along which nothing changes, and say so under `attrs`."""
    drawn, idle = _at_one_value(frame, axes, values, by, SEEN)
    if idle:
        exact = len(_at_one_value(frame, [axis for axis, _ in idle], values, by, 0.0)[1])
        within = "The same" if exact == len(idle) else f"The same, to within {SEEN:.1%},".replace("%", " %")
        left_out(drawn, f". {within} at every {joined([words for _, words in idle])}")
    return drawn


def left_out(rows: pd.DataFrame, words: str) -> pd.DataFrame:
    """Return the rows; their `attrs` say what a chart of them leaves out."""
    rows.attrs = {**rows.attrs, "left_out": rows.attrs.get("left_out", "") + words}
    return rows


def flat(
    frame: pd.DataFrame, axis: str, keys: Sequence[str], values: Sequence[str], within: float = SEEN
) -> bool:  # fmt: skip
    """Return whether no value changes along the axis, `keys` naming the rows of one value of it.

    Values are the same where they differ by no more than `within` of themselves; SEEN is of the largest of all. An axis
    is not flat where some of its values were not run.
    """
    groups = frame.groupby([*keys], sort=False, dropna=False) if keys else frame.groupby(lambda _: 0)
    places = frame[axis].nunique()
    if (groups.size() != places).any() or (groups[axis].nunique() != places).any():
        return False
    order = np.argsort(groups.ngroup().to_numpy(), kind="stable")
    figures = frame[[*values]].to_numpy(float)[order].reshape(-1, places, len(values))
    known = ~np.isnan(figures).any(axis=1)
    if (~known & ~np.isnan(figures).all(axis=1)).any():
        return False
    highest, lowest = figures.max(axis=1), figures.min(axis=1)
    largest = np.maximum(abs(highest), abs(lowest))
    if within == SEEN:
        largest = np.max(largest, axis=0, initial=0.0, where=known, keepdims=True)
    return not (highest - lowest > within * largest + 1e-9 * bool(within))[known].any()


def every(axis: str, frame: pd.DataFrame) -> str:
    """Return "latency (10 ms to 1 s)", to follow the word every; of very many names their count."""
    values = ordered(frame[axis].astype(str))
    ends = listed(values, values)
    return f"{short(axis)} ({ends if ends.count(',') < MOST else f'{len(values)} values'})"


def _at_one_value(
    frame: pd.DataFrame, axes: Sequence[str], values: Sequence[str], by: Sequence[str], within: float
) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return the rows at the first value of each axis along which nothing changes, and these axes with their words."""
    left, idle = [axis for axis in axes if frame[axis].nunique() > 1], []
    names = [*dict.fromkeys([*axes, *by])]
    order = frame.groupby(names, sort=False, dropna=False).cumcount() if names else range(len(frame))
    rows = frame.assign(**{ORDER: order})
    for axis in list(left):
        others = [other for other in left if other != axis]
        if flat(rows, axis, [*by, *others, ORDER], values, within):
            idle.append((axis, every(axis, frame)))
            rows = rows[rows[axis].astype(str) == ordered(frame[axis].astype(str))[0]]
            left = others
    kept = rows.drop(columns=ORDER).reset_index(drop=True) if idle else frame
    kept.attrs = dict(frame.attrs)
    return kept, idle

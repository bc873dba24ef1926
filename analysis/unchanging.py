"""Axes of a sweep along which the figures of a chart do not change, so that a chart shows them once and says so.

Not modelled: figures that change along two axes together but along neither alone; each axis is looked at by itself.
"""

import pandas as pd

from analysis.axes import ordered, short

SAME = 0.005  # of the largest figure: a smaller change cannot be seen in a chart


def flat(frame: pd.DataFrame, axis: str, keys: list[str], values: list[str]) -> bool:
    """Return whether no value changes along the axis by more than SAME of the largest one of its column.

    `keys` tell the rows of one value of the axis apart. An axis is not flat where some of its values were not run.
    """
    groups = frame.groupby(keys, sort=False, dropna=False) if keys else frame.groupby(lambda _: 0)
    if (groups.size() != frame[axis].nunique()).any() or (groups[axis].nunique() != frame[axis].nunique()).any():
        return False
    for value in values:
        known = groups[value].count()
        if ((known > 0) & (known < groups.size())).any():
            return False
        most = frame[value].abs().max()
        if (groups[value].max() - groups[value].min()).max() > SAME * most:
            return False
    return True


def told_once(frame: pd.DataFrame, axes: list[str], keys: list[str], values: list[str]) -> pd.DataFrame:
    """Return the rows at one value of each axis along which nothing changes, and say so under `attrs`.

    `keys` and one value of every axis name a row; `values` are what is drawn.
    """
    varied = [axis for axis in axes if frame[axis].nunique() > 1]
    notes = []
    for axis in list(varied):
        others = [other for other in varied if other != axis]
        if flat(frame, axis, [*keys, *others], values):
            exact = all(flat_exactly(frame, [*keys, *others], value) for value in values)
            notes.append(f"{'The same' if exact else 'The same, to within 0.5 %,'} at {listed(axis, frame)}")
            frame = frame[frame[axis] == frame[axis].iloc[0]].copy()
            varied = others
    if notes:
        frame.attrs["left_out"] = frame.attrs.get("left_out", "") + "".join(f". {note}" for note in notes)
    return frame


def flat_exactly(frame: pd.DataFrame, keys: list[str], value: str) -> bool:
    """Return whether a value is the same in all rows that share their keys."""
    groups = frame.groupby(keys, sort=False, dropna=False) if keys else frame.groupby(lambda _: 0)
    return bool((groups[value].nunique() <= 1).all())


def listed(axis: str, frame: pd.DataFrame) -> str:
    """Return "latency 10 ms, 100 ms and 1 s"; of very many values the ends."""
    values = ordered(frame[axis].astype(str))
    if len(values) > 6:
        return f"every {short(axis)} from {values[0]} to {values[-1]}"
    return f"{short(axis)} {', '.join(values[:-1])} and {values[-1]}"

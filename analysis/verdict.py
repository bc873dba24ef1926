"""Name conditions, the hardest first."""

from collections.abc import Sequence

import pandas as pd

from analysis.axes import hardest_first, short

MOST = 60  # conditions that a reader can choose from


def condition_of(values: dict[str, str]) -> str:
    """Return "latency 10 ms, participation 0.3"."""
    return ", ".join(f"{short(axis)} {value}" for axis, value in values.items())


def conditions(rows: pd.DataFrame, axes: Sequence[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows with their `condition` as a text, and the conditions, the hardest first.

    The first axis changes slowest. Of more than MOST conditions only the hardest ones are returned, with their rows.
    """
    varied = [axis for axis in axes if rows[axis].nunique() > 1]
    ranks = {axis: {value: at for at, value in enumerate(hardest_first(axis, rows[axis]))} for axis in varied}
    places = rows[varied].drop_duplicates().to_dict("records") if varied else [{}]
    hardest = sorted(places, key=lambda place: [ranks[axis][place[axis]] for axis in varied])
    names = [condition_of({str(axis): str(value) for axis, value in place.items()}) for place in hardest[:MOST]]
    texts = [condition_of({axis: str(row[axis]) for axis in varied}) for _, row in rows.iterrows()]
    placed = rows.assign(condition=texts)
    return placed[placed["condition"].isin(names)], names

"""How much of its score an algorithm keeps as one numeric axis moves: participation, latency, dropout.

The share at a value is the score there over the score at the reference, the same algorithm's and replicate's at the
easiest value in the sweep: the highest participation, the lowest latency (`axes.best_end`). The area under the shares
(trapezoids over the axis, over its range) is 1 for an algorithm that loses nothing.

Not modelled: anything outside the values that were run; with 0.1, 0.3 and 0.5 "full" participation means 0.5.
"""

import numpy as np
import pandas as pd

from analysis.axes import best_end, number, replicates
from analysis.statistics.intervals import counted, interval


def shares(points: pd.DataFrame, axis: str, others: list[str], value: str = "score") -> pd.DataFrame:
    """Return one row a point: columns algorithm, `others`, replicates, axis, x (SI units), value, share, reference.

    `others` are the sweep's further axes: curves are never mixed over them. The share is NaN without a reference score,
    or where that is zero. Raises ValueError for an axis whose values are not numbers.
    """
    names = [str(name) for name in points[axis]]
    reference = best_end(axis, names)
    numbers = [_number(axis, name) for name in names]
    by = ["algorithm", *others, *replicates(points.columns)]
    best = points[points[axis] == reference].drop_duplicates(by)[[*by, value]].rename(columns={value: "best"})
    rows = points[[*by, axis, value]].assign(x=numbers, reference=reference).merge(best, on=by, how="left")
    rows["share"] = rows[value] / rows["best"].where(rows["best"] != 0)
    return rows.drop(columns="best").sort_values("x", kind="stable").reset_index(drop=True)


def areas(rows: pd.DataFrame, others: list[str]) -> pd.DataFrame:
    """Return the area under the shares of each algorithm and replicate: columns algorithm, `others`, replicates, area.

    NaN where a share is missing or there is only one value of the axis.
    """
    by = ["algorithm", *others, *replicates(rows.columns)]
    areas_of = [(*key, _area(group)) for key, group in rows.groupby(by, sort=False)]
    return pd.DataFrame(areas_of, columns=[*by, "area"])


def levels(points: pd.DataFrame, axis: str, others: list[str], value: str) -> pd.DataFrame:
    """Return a value's mean and 95 % interval along an axis, nesting respected (see intervals).

    One row for each algorithm and place: columns algorithm, `others`, axis, x (SI units), mean, low, high, lowest,
    highest, n, replicates (what they are), units (the values that the mean is of, where they are too few for an
    interval). Places without the value are left out.
    """
    by = ["algorithm", *others, axis]
    rows = []
    known = points.loc[points[value].notna(), [*by, *replicates(points.columns), value]]
    for key, runs in known.groupby(by, sort=False):
        found, place = interval(runs, value), dict(zip(by, key, strict=True))
        ends = {"mean": found.mean, "low": found.low, "high": found.high}
        ends |= {"lowest": min(found.units), "highest": max(found.units), "x": _number(axis, str(place[axis]))}
        rows.append({**place, **ends, "n": len(runs), "replicates": counted(runs), "units": found.few})
    figures = ["x", "mean", "low", "high", "lowest", "highest", "n", "replicates", "units"]
    return pd.DataFrame(rows, columns=[*by, *figures])


def rows_along(frame: pd.DataFrame, axis: str, others: list[str]) -> pd.DataFrame:
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


def _number(axis: str, text: str) -> float:
    value = number(text)
    if value is None:
        raise ValueError(f"axis {axis}: {text!r} is not a number, so there is no curve along it")
    return value


def _area(group: pd.DataFrame) -> float:
    x, share = group["x"].to_numpy(float), group["share"].to_numpy(float)
    reach = x.max() - x.min()
    return float(np.trapezoid(share, x) / reach) if reach > 0 else float("nan")

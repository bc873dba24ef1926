"""Means and standard deviations over replicates, of single figures and of whole curves.

The standard deviation is that of a sample (n - 1), NaN for a single one. For fewer than five replicates the
smallest and largest value are shown instead. Not modelled: that replicates may be nested; confidence intervals
are in `intervals`.
"""

import numpy as np
import pandas as pd

from analysis.measures.frontier import on_grid
from analysis.statistics.intervals import FEWEST

STEPS = 80  # places along a mean curve
STAGES = ("periods", "complete")  # columns of a curve on the periods that have arrived by then


def over_replicates(points: pd.DataFrame, by: list[str], values: list[str]) -> pd.DataFrame:
    """Return for each group, in order of appearance: columns `by`, n (rows), and of each value its mean, and its
    standard deviation, least and greatest value as `_sd`, `_min` and `_max`.

    A missing figure is left out of its mean; a figure that is missing everywhere stays NaN.
    """
    groups = points.groupby(by, sort=False, dropna=False)
    sizes = groups.size().rename("n")
    means, deviations = groups[values].mean(), groups[values].std(ddof=1).add_suffix("_sd")
    ends = [groups[values].min().add_suffix("_min"), groups[values].max().add_suffix("_max")]
    together = pd.concat([sizes, means, deviations, *ends], axis=1).copy()  # defragmented: a fragmented frame is slow
    return together.reset_index()


def ends(frame: pd.DataFrame, value: str, count: str = "n") -> tuple[pd.Series, pd.Series]:
    """Return the ends of a chart's bars: mean -+ sd, or the smallest and largest of fewer than FEWEST replicates.

    `count` is the column of how many a mean is over; a single replicate has bars of no length.
    """
    sd = frame[f"{value}_sd"].fillna(0.0)
    low, high = frame[value] - sd, frame[value] + sd
    if f"{value}_min" not in frame:
        return low, high
    many = frame[count] >= FEWEST
    return low.where(many, frame[f"{value}_min"]), high.where(many, frame[f"{value}_max"])


def mean_curves(curves: pd.DataFrame, by: list[str], x: str, value: str = "score") -> pd.DataFrame:
    """Return mean curves along `x` (time or moved): columns `by`, x, score, low, high (see ends), n (runs).

    `curves` holds the rows of `frontier.curve` of many points, with `run` and the columns `by`; `score` is the mean
    of their column `value`, whose missing values are left out. The runs of a group were scored at different moments, so
    each counts with its latest score, on a grid common to the group that begins when all have a first score. A run that
    has ended keeps its last. Where curves have them, `periods` is the mean of periods met, and `complete` whether
    all have arrived in every run of the group.
    """
    known = curves.dropna(subset=value)
    staged = [name for name in STAGES if name in known]
    names = [*by, x, "score", "low", "high", "n", *staged]
    if known.empty:
        return pd.DataFrame(columns=names)
    frames = []
    for key, group in known.groupby(by, sort=False, dropna=False):
        runs = [rows.sort_values(x, kind="stable") for _, rows in group.groupby("run")]
        first, last = max(rows[x].iloc[0] for rows in runs), max(rows[x].iloc[-1] for rows in runs)
        grid = np.linspace(first, last, STEPS if last > first else 1)
        held = {name: np.array([on_grid(rows, x, grid, name) for rows in runs]) for name in (value, *staged)}
        scores = held[value]
        mean, low, high = scores.mean(axis=0), scores.min(axis=0), scores.max(axis=0)
        if len(runs) >= FEWEST:
            sd = scores.std(axis=0, ddof=1)
            low, high = mean - sd, mean + sd
        condition = dict(zip(by, map(str, key), strict=True))
        stages = {name: held[name].mean(axis=0) for name in staged}
        frames.append(
            pd.DataFrame({x: grid, "score": mean, "low": low, "high": high, "n": len(runs), **condition, **stages})
        )
    means = pd.concat(frames, ignore_index=True)[names]
    return means.assign(complete=means["complete"] > 1 - 1e-9) if "complete" in staged else means

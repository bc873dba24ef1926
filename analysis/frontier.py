"""Score against simulated time and against bytes: curves, targets, and the points nobody beats.

A curve's score at a moment is pooled over clients by `weight` for each period met so far, then averaged over these
periods. Bytes are wire bytes of every transfer ended by then, repeats and losses included.

Not modelled: smoothing. A target counts as reached at the first score that is no smaller, even if a later one is.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.communication import directions, moved_by
from analysis.forgetting import pooled, usable


def curve(
    scores: pd.DataFrame, transfers: pd.DataFrame, model: str, metric: str = "accuracy", split: str = "test"
) -> pd.DataFrame:
    """Return one row a scoring, in order: columns time (s), version, score (fraction), up, down, moved (wire bytes).

    `moved` counts all directions, peers included. The frame is empty without scores of this model, metric and split.
    """
    return with_bytes(scored(usable(scores, model, metric, split)), transfers)


def scored(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the score at each scoring, of the rows that count (see usable): columns `by`, time, version, score."""
    cells = pooled(rows, [*by, "time", "version", "period"])
    means = cells.groupby([*by, "time", "version"], as_index=False)[["value"]].mean()
    return means.rename(columns={"value": "score"})


def with_bytes(points: pd.DataFrame, transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one point with the wire bytes up, down and moved by their `time`."""
    way = directions(transfers)
    up, down = (moved_by(transfers[way == name], points["time"]) for name in ("up", "down"))
    return points.assign(up=up, down=down, moved=moved_by(transfers, points["time"]))


def reach(points: pd.DataFrame, target: float | None) -> tuple[float, int] | None:
    """Return (seconds, bytes moved) of a curve's first score at or above the target; None if never, or without one."""
    if target is None:
        return None
    hits = points[points["score"] >= target]
    return (float(hits["time"].iloc[0]), int(hits["moved"].iloc[0])) if len(hits) else None


def pareto(points: pd.DataFrame, cost: str, score: str = "score") -> pd.Series:
    """Return of each row whether none of the others has a better score at no more cost, or the same at less.

    A row without a score or a cost is never on the frontier; of equal rows all are.
    """
    values, costs = points[score].to_numpy(float), points[cost].to_numpy(float)
    beaten = [
        bool(np.any((values >= v) & (costs <= c) & ((values > v) | (costs < c))))
        for v, c in zip(values, costs, strict=True)
    ]
    known = np.isfinite(values) & np.isfinite(costs)
    return pd.Series(known & ~np.array(beaten, bool), index=points.index)


def on_grid(points: pd.DataFrame, x: str, grid: npt.NDArray[np.float64], value: str = "score") -> pd.Series:
    """Return the value in force at each place of `grid` along column `x` (time or moved): the last one known there.

    NaN before the first; after the last it stays, as the model does.
    """
    at = np.searchsorted(points[x].to_numpy(float), grid, side="right") - 1
    values = points[value].to_numpy(float)
    return pd.Series(np.where(at >= 0, values[np.maximum(at, 0)], np.nan))

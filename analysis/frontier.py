"""Score against simulated time and against bytes: curves, targets, and the Pareto front.

A curve's score at a moment is that of all clients together (see forgetting.pooled), averaged over the periods met so
far. So the test grows with every arrival, and scores before and after one are on different tests. A scoring
is `complete` once the test has stopped growing: from the first one at which every client that is scored in the run has
met all periods that it meets by the run's last scoring. A client's periods are counted by its own clock; clients
without data or without anything to be tested on do not count, nor do periods that arrive after the last scoring, on
which no model was tested. A single period is complete from the start. A restart of the server does not undo arrivals,
so completeness is never lost.

Where only the latest period is scored (algorithms that see their neighbours, see `Algorithm.sees`), the complete test
is the last period alone; where snapshots are scored ahead, it is the later snapshots of all that were trained on.
`each_period` is the rule for comparing period by period.

Bytes are wire bytes of every transfer ended by then, repeats and losses included.

Not modelled: smoothing. A target counts as reached at the first complete score at or above it, even if a later one is
lower. Runs of one sweep that end with different numbers of periods still have different tests; see `periods`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.communication import directions, moved_by
from analysis.forgetting import headline, of_clients, pooled, usable

ALL_PERIODS = "all_periods"  # the split of all periods of a stream, met or not


class Reached(NamedTuple):
    """When a target was reached: simulated seconds, wire bytes moved by then, and the mean number of periods met."""

    seconds: float
    moved: float
    periods: float


def curve(
    scores: pd.DataFrame, transfers: pd.DataFrame, model: str, metric: str = "accuracy", split: str = "test"
) -> pd.DataFrame:
    """Return one row per scoring, in order: columns time (s), version, score (fraction), periods, complete, up, down,
    moved (wire bytes).

    `periods` is the mean number of periods met, over the clients scored then; for `complete` see the module's
    docstring. `moved` counts all directions, peers included. The frame is empty without scores of this model, metric
    and split.
    """
    return with_bytes(scored(usable(scores, model, metric, split)), transfers)


def scored(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the score at each scoring, of the rows that count (see usable): columns `by`, time, version, score,
    periods, complete (see curve).
    """
    at = [*by, "time", "version"]
    cells = pooled(rows, [*at, "period"])
    means = cells.groupby(at, as_index=False)[["value"]].mean()
    seen = of_clients(rows).groupby([*at, "client"], as_index=False)[["seen"]].max()
    groups = seen.groupby(at)  # the same groups in the same order as the rows of `means`
    had = groups["seen"].mean().to_numpy(float)
    return means.rename(columns={"value": "score"}).assign(periods=had, complete=_complete(seen, groups.ngroup(), by))


def _complete(seen: pd.DataFrame, scoring: pd.Series, by: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return for each scoring, in order, whether all clients of its run have met all periods (see the module).

    `seen` has a row a client scored, in order of run (`by`), time and version; `scoring` counts the scorings.
    """
    run = seen.groupby(list(by)).ngroup() if by else pd.Series(0, index=seen.index)
    own = seen.assign(run=run, scoring=scoring)
    full = own[own["seen"] == own.groupby(["run", "client"])["seen"].transform("max")]
    begins = full.groupby(["run", "client"])["scoring"].min().groupby("run").max()
    scorings = own.drop_duplicates("scoring")
    return (scorings["scoring"] >= scorings["run"].map(begins)).to_numpy(bool)


def over_all_periods(scores: pd.DataFrame, model: str, metric: str, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the score over all periods, met or not, where it was taken: columns `by`, time, version, whole.

    The same test at every scoring and in every run: see the split all_periods of `measure.splits`.
    """
    cells = pooled(headline(scores, model, metric, ALL_PERIODS), [*by, "time", "version", "period"])
    means = cells.groupby([*by, "time", "version"], as_index=False)[["value"]].mean()
    return means.rename(columns={"value": "whole"})


def with_bytes(points: pd.DataFrame, transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one point with the wire bytes up, down and moved by their `time`."""
    way = directions(transfers)
    up, down = (moved_by(transfers[way == name], points["time"]) for name in ("up", "down"))
    return points.assign(up=up, down=down, moved=moved_by(transfers, points["time"]))


def reach(points: pd.DataFrame, target: float | None) -> Reached | None:
    """Return when a curve's score is first at or above the target, of complete scorings only; None if never, or
    without a target.
    """
    if target is None:
        return None
    hits = points[points["complete"] & (points["score"] >= target)]
    if hits.empty:
        return None
    first = hits.iloc[0]
    return Reached(float(first["time"]), int(first["moved"]), float(first["periods"]))


def pareto(points: pd.DataFrame, cost: str, score: str = "score") -> pd.Series:
    """Return for each row whether no other has a better score at no more cost, or the same score at less.

    A row without a score or a cost is never on the frontier; all of several equal rows are.
    """
    values, costs = points[score].to_numpy(float), points[cost].to_numpy(float)
    beaten = [
        bool(np.any((values >= v) & (costs <= c) & ((values > v) | (costs < c))))
        for v, c in zip(values, costs, strict=True)
    ]
    known = np.isfinite(values) & np.isfinite(costs)
    return pd.Series(known & ~np.array(beaten, bool), index=points.index)


def on_grid(points: pd.DataFrame, x: str, grid: npt.NDArray[np.float64], value: str = "score") -> pd.Series:
    """Return the score (or another column, `value`) in force at each place of `grid` along column `x` (time or moved):
    the last one known there.

    NaN before the first; after the last it stays, as the model does.
    """
    at = np.searchsorted(points[x].to_numpy(float), grid, side="right") - 1
    values = points[value].to_numpy(float)
    return pd.Series(np.where(at >= 0, values[np.maximum(at, 0)], np.nan))

"""Score against time and against bytes: curves, targets, and the Pareto front.

Every score is that of all clients together (see forgetting.pooled) for each period, then averaged over periods. A
curve's `score` is on one fixed test where there is one: all periods of the stream, arrived or not (the split
all_periods), comparable at all times. `met` is the score over the periods met so far, whose test grows with every
arrival.

Where no fixed test was scored, `score` is `met`, and a scoring is `complete` once its test has stopped growing: from
the first one at which every client that is scored in the run has met all periods that it meets by the run's last
scoring. A client's periods are counted by its own clock; clients without data or without anything to be tested on do
not count, nor do periods that arrive after the last scoring, on which no model was tested. A fixed test, and a single
period, are complete from the start. A restart of the server does not undo arrivals, so completeness is never lost.

Where only the latest period is scored (algorithms that see their neighbours, see `Algorithm.sees`), the complete test
is the last period alone; where snapshots are scored ahead, it is the later snapshots of all that were trained on.
`each_period` is the rule for comparing period by period.

Bytes are wire bytes of every transfer ended by then, repeats and losses included.

Not modelled: smoothing. A target counts as reached at the first complete score at or above it, even if a later one is
lower. Without a fixed test, runs that end with different numbers of periods have different tests; see `periods`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.measures.communication import moved_by
from analysis.measures.forgetting import headline, of_clients, pooled, usable
from analysis.measures.groups import groups
from fedsim.core.arrays import Bools, Floats, Ints

ALL_PERIODS = "all_periods"  # the split of all periods of a stream, met or not
ASKED = "test"  # whose nodes it scores


class Reached(NamedTuple):
    """When a target was reached: seconds, wire bytes moved by then, and the mean number of periods met.

    `at_first` is 1 if that was the first scoring that counted, so that the time says when counting began, and 0 if
    not; where a target counts on each period, the share of periods of which that is true.
    """

    seconds: float
    moved: float
    periods: float
    at_first: float


def curve(
    scores: pd.DataFrame, transfers: pd.DataFrame, model: str, metric: str = "accuracy", split: str = "test"
) -> pd.DataFrame:
    """Return one row per scoring, in order: columns time (s), version, score (fraction), met, periods, complete, fixed,
    up, down, moved (wire bytes).

    `fixed` says whether the score is on the fixed test, `periods` is the mean number of periods met, over the clients
    scored then; see the module's docstring for the others. `moved` counts all directions, peers included. The frame is
    empty without scores of this model, metric and split.
    """
    fixed = over_all_periods(scores, model, metric) if split == ASKED else None
    return with_bytes(scored(usable(scores, model, metric, split), fixed), transfers)


def scored(rows: pd.DataFrame, fixed: pd.DataFrame | None = None, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the score at each scoring, of the rows that count (see usable): columns `by`, time, version, score, met,
    periods, complete, fixed (see curve).

    `fixed` has the scores on the fixed test (see over_all_periods) of those runs that were tested on it.
    """
    at = [*by, "time", "version"]
    cells = pooled(rows, [*at, "period"])
    of_moments, own = groups(cells, at), groups(of_clients(rows), [*at, "client"])
    seen = own.keys.assign(seen=own.max(own.rows["seen"]))
    scorings = groups(seen, at)  # the same groups in the same order as `of_moments`
    found = of_moments.keys.assign(
        met=of_moments.mean(cells["value"]),
        periods=scorings.mean(seen["seen"]),
        complete=_complete(seen, scorings.of, by),
    )
    if fixed is None or fixed.empty:
        found = found.assign(score=found["met"], fixed=False)
    else:  # it is scored before anything has arrived too
        found = found.merge(fixed, on=at, how="outer").sort_values(at, kind="stable", ignore_index=True)
        tested = found["whole"].notna()
        found["fixed"] = tested.groupby([found[name] for name in by]).transform("any") if by else True
        found["score"] = found["whole"].where(found["fixed"], found["met"])
        found["periods"] = found["periods"].fillna(0.0)
        found["complete"] = tested.where(found["fixed"], found["complete"].eq(True))
    return found[[*at, "score", "met", "periods", "complete", "fixed"]]


def _complete(seen: pd.DataFrame, scoring: Ints, by: Sequence[str]) -> Bools:
    """Return for each scoring, in order, whether all clients of its run have met all periods (see the module).

    `seen` has a row a client scored, in order of run (`by`), time and version; `scoring` counts the scorings.
    """
    run = groups(seen, by).of if by else np.zeros(len(seen), np.int64)
    of_clients = groups(seen.assign(run=run), ["run", "client"])
    full = seen["seen"].to_numpy() == of_clients.max(seen["seen"])[of_clients.of]
    first = -of_clients.max(-np.where(full, scoring, len(seen)))  # scoring at which each client had met all
    begins = groups(of_clients.keys, ["run"]).max(first)
    runs = np.zeros(int(scoring.max()) + 1 if len(scoring) else 0, np.int64)
    runs[scoring] = run
    return np.arange(len(runs)) >= begins[runs]


def over_all_periods(scores: pd.DataFrame, model: str, metric: str) -> pd.DataFrame:
    """Return the score over all periods, met or not, where it was taken: columns time, version, whole.

    The same test at every scoring and in every run: see the split all_periods of `measure.splits`.
    """
    return over_periods(headline(scores, model, metric, ALL_PERIODS))


def over_periods(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the score at each scoring, mean over periods: columns `by`, time, version, whole."""
    at = [*by, "time", "version"]
    cells = pooled(rows, [*at, "period"])
    found = groups(cells, at)
    return found.keys.assign(whole=found.mean(cells["value"]))


def with_bytes(points: pd.DataFrame, transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of one point with the wire bytes up, down and moved by their `time`."""
    times = points["time"].to_numpy(float)
    up, down, moved = (moved_by(transfers, times, direction) for direction in ("up", "down", None))
    return points.assign(up=up, down=down, moved=moved)


def rule(points: pd.DataFrame) -> str:
    """Return the test that a target counts on, with this curve: all_periods, or met_periods once all have arrived.

    A run with a single period has one test throughout, which is of all periods.
    """
    changes = not points["fixed"].to_numpy(bool).all() and points["periods"].max() > 1
    return "met_periods" if changes else ALL_PERIODS


def reach(points: pd.DataFrame, target: float | None) -> Reached | None:
    """Return when a curve's score is first at or above the target, of complete scorings only; None if never, or
    without a target.
    """
    if target is None:
        return None
    counted = np.flatnonzero(points["complete"].to_numpy(bool))
    hits = counted[points["score"].to_numpy(float)[counted] >= target]
    if not len(hits):
        return None
    first = points[["time", "moved", "periods"]].iloc[hits[0]]
    return Reached(float(first["time"]), int(first["moved"]), float(first["periods"]), float(hits[0] == counted[0]))


def pareto(points: pd.DataFrame, cost: str, within: Sequence[str] = ()) -> pd.Series:
    """Return for each row whether no other has a better score at no more cost, or the same score at less.

    Rows are compared where they agree in the columns `within`. A row without a score or a cost is never on the
    frontier; all of several equal rows are.
    """
    if within:
        groups = points.groupby([*within], sort=False, dropna=False)
        fronts: pd.Series = pd.concat([pareto(rows, cost) for _, rows in groups]).reindex(points.index)
        return fronts
    values, costs = points["score"].to_numpy(float), points[cost].to_numpy(float)
    beaten = [
        bool(np.any((values >= v) & (costs <= c) & ((values > v) | (costs < c))))
        for v, c in zip(values, costs, strict=True)
    ]
    return pd.Series(np.isfinite(values) & np.isfinite(costs) & ~np.array(beaten, bool), index=points.index)


def on_grid(points: pd.DataFrame, x: str, grid: Floats, value: str = "score") -> Floats:
    """Return the score (or another column, `value`) in force at each place of `grid` along column `x` (time or moved):
    the last one known there.

    NaN before the first; after the last it stays, as the model does.
    """
    return in_force(points[x].to_numpy(float), points[value].to_numpy(float), grid)


def in_force(along: Floats, values: Floats, grid: Floats) -> Floats:
    """Return the value in force at each place of `grid`, of values at ascending places `along` (see on_grid)."""
    at = np.searchsorted(along, grid, side="right") - 1
    return np.where(at >= 0, values[np.maximum(at, 0)], np.nan)

"""Compute average accuracy and forgetting over the periods of a stream, from the scores table.

A[i][j] is the score on period j once period i has been learned: of every client the last row with
`seen == i + 1` and `period == j`, pooled over clients (see `pooled`). With T periods (counted from 0)

    AM = mean over j of A[T-1][j]                  FM = mean over j < T-1 of A[j][j] - A[T-1][j]

so that AM + FM (T-1)/T is the mean of the diagonal. Everything is a fraction, not a percentage.

Prequential rows, taken before a period was met, do not count. If clients meet periods at their own times and the run
ends early, the last row of A covers only the clients that have met all periods.

Not modelled: spread between clients, and classes: a period is the client's own, not a set of classes.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.measures.groups import groups
from fedsim.core.arrays import Floats, Ints
from fedsim.core.record import SERVER

MOMENT = ["time", "version", "period"]  # what all clients' predictions are scored at, and on


def matrix(scores: pd.DataFrame, model: str, metric: str = "accuracy", split: str = "test") -> Floats:
    """Return A of shape (T, T), fractions, NaN where nothing was scored and above the diagonal.

    `scores` has the columns of the scores table, rows of one point. A client without a row for a cell, or with weight
    zero there, does not count in that cell. Without any score of this model, metric and split, T is zero.
    """
    return matrix_of(usable(scores, model, metric, split))


def matrix_of(rows: pd.DataFrame) -> Floats:
    """Return A of the rows that count (see usable)."""
    if rows.empty:
        return np.empty((0, 0))
    cells = learned(rows)
    periods = int(cells["seen"].max())
    A = np.full((periods, periods), np.nan)
    A[cells["seen"].to_numpy(int) - 1, cells["period"].to_numpy(int)] = cells["value"].to_numpy(float)
    return A


def learned(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the cells of A that are known, of the rows that count (see usable): columns `by`, seen, period, value."""
    return pooled(rows, [*by, "seen", "period"], latest(of_clients(rows), by, ["client", "seen", "period"]))


def latest(rows: pd.DataFrame, by: Sequence[str], of: Sequence[str]) -> pd.DataFrame:
    """Return the last row, by time and version, of each group of `by` and `of`."""
    time, version = rows["time"].to_numpy(), rows["version"].to_numpy()
    before = (time[1:] < time[:-1]) | ((time[1:] == time[:-1]) & (version[1:] < version[:-1]))
    if before.any():
        rows = rows.sort_values(["time", "version"], kind="stable")
    found = groups(rows, [*by, *of])
    return found.rows.iloc[found.last()]


def usable(scores: pd.DataFrame, model: str, metric: str, split: str) -> pd.DataFrame:
    """Return the rows that count: of this model, metric and split, a period already met, a weight and a number."""
    return met(headline(scores, model, metric, split))


def met(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a period already met, neither prequential ones nor those ahead."""
    return rows[(rows["period"] < rows["seen"]) & (rows["period"] >= 0)]


def headline(scores: pd.DataFrame, model: str, metric: str, split: str) -> pd.DataFrame:
    """Return the rows of this model, metric and split that have a weight and a number, without these columns.

    Prequential ones are included.
    """
    chosen = (scores["weight"] > 0) & scores["value"].notna()
    for name, wanted in (("model", model), ("metric", metric), ("split", split)):
        chosen &= scores[name] == wanted
    return scores.drop(columns=["model", "metric", "split"])[chosen]


def of_clients(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of clients; all of them where a split is scored by the server alone."""
    own = rows[rows["client"] != SERVER]
    return rows if own.empty else own


def pooled(rows: pd.DataFrame, by: list[str], chosen: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return the score of all clients together in each group: columns `by`, value.

    Of a metric that is a mean over nodes it is the mean of the clients' values by `weight`.  Of any other it is the
    server's row of that moment and period, which scores all their predictions as one test, and over several such
    moments the mean of these by `weight`.  Where `chosen`, the clients' rows that count (by default all), are not all
    of a moment's, since clients met a period at times of their own, and where the server has no row
    (`measure.over: clients`), it is the mean of the clients' own values by `weight`.
    """
    own = of_clients(rows)
    chosen = own if chosen is None else chosen
    means = _means(chosen, by)
    if len(own) == len(rows):
        return means
    moment = [*(name for name in by if name not in (*MOMENT, "client", "seen")), *MOMENT]
    whole = rows[rows["client"] == SERVER].drop_duplicates(moment, keep="last")[[*moment, "value", "weight"]]
    counts = own.groupby(moment, as_index=False).agg(all=("client", "size"))
    parts = chosen.groupby([*dict.fromkeys([*by, *moment])], as_index=False).agg(some=("client", "size"))
    parts = parts.merge(counts, on=moment).merge(whole, on=moment, how="left")
    complete = parts[by].assign(known=(parts["some"] == parts["all"]) & parts["value"].notna())
    together = _means(parts.fillna({"value": 0.0, "weight": 1}), by)  # the same groups, in the same order
    known = complete.groupby(by)["known"].all().to_numpy()
    return means.assign(value=np.where(known, together["value"], means["value"]))


def _means(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the mean of `value` over each group, weighted by `weight`: columns `by`, value."""
    found = groups(rows, by)
    value, weight = (found.rows[name].to_numpy(float) for name in ("value", "weight"))
    return found.keys.assign(value=found.sum(value * weight) / found.sum(weight))


def average_accuracy(A: Floats) -> float | None:
    """Return AM, a fraction; None if a period was scored earlier but not at the end, or nothing was scored."""
    return _mean(A[-1:, scored(A)])


def forgetting(A: Floats) -> float | None:
    """Return FM, a fraction that may be negative; None for a single period or where a score it needs is missing."""
    earlier = scored(A)[scored(A) < len(A) - 1]
    return _mean(A[earlier, earlier] - A[-1, earlier]) if len(earlier) else None


def just_learned(A: Floats) -> float | None:
    """Return LA, the mean of the diagonal, a fraction: the score on each period right after it was learned.

    Learning accuracy of Riemer et al. ("Learning to learn without forgetting by maximizing transfer and minimizing
    interference", ICLR 2019).  None if a period has other scores but not that one.
    """
    return _mean(A[scored(A), scored(A)])


def scored(A: Floats) -> Ints:
    """Return the periods with any score; a period without test nodes anywhere has none."""
    return np.flatnonzero(np.isfinite(A).any(axis=0)) if A.size else np.empty(0, np.int64)


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if values.size and np.isfinite(values).all() else None

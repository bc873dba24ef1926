"""Summarise one point's tables in one row: the columns of summary.csv that follow from the tables."""

from typing import Any

import pandas as pd

from analysis.arrivals import prequential, staleness, updates_per_period
from analysis.communication import totals
from analysis.compute_time import compute_seconds
from analysis.each_period import each_period, mean_reached
from analysis.forgetting import average_accuracy, forgetting, just_learned, matrix
from analysis.frontier import curve, reach, rule
from analysis.recovery import recovery
from analysis.served import served


def summarise(
    transfers: Any,
    updates: Any,
    scores: Any,
    model: str,
    metric: str,
    target: float | None,
    split: str = "test",
    arrivals: Any = None,
    spans: Any = None,
    target_on: str = "all_periods",
) -> dict[str, Any]:
    """Return metric, score, periods, am, la, fm, prequential, bytes_up, ..., updates, updates_per_period, ...

    The tables are pandas data frames or pyarrow tables with the columns of a run's Parquet files. `model` is the
    headline's (global or local): where it was never scored, score, am, la, fm and the cost of the target are None; no
    other model replaces it. Scores and target are fractions, times seconds. `score` is the last of the curve (on the
    fixed test of all periods where there is one), `periods` the mean number of periods that clients had met by then.
    `la` is learning accuracy, None like `fm` for a single period: where periods are scored ahead, on snapshots that
    come later, it is the mean over the snapshots trained on.
    Whatever does not apply is None, never zero: without any update, asked, folded, lost, late and refused;
    without the numbers that protocols want, `wanted`;
    without the table of `arrivals`, updates_per_period, took_part and upload_jain (see served); without that of
    `spans`, client_seconds and server_seconds, which are the mean simulated seconds of computing a job and an update.
    `epsilon` is that of the last update that has one.

    `target_on` is "each_period" for a target on each period alone, from its arrival on, means over periods (see
    each_period), which needs the table of `arrivals`; else the target counts on the curve's score, and the row says on
    which test that is (see frontier.rule). `periods_at_target` is the mean number of periods that clients had met then,
    `target_at_first` whether that was the first scoring that counted (see frontier.Reached). If the target was not
    reached, its cost is None. For the columns on recovery, which need `arrivals`, see `recovery`.
    """
    moved, folding, scored = _frame(transfers), _frame(updates), _frame(scores)
    points = curve(scored, moved, model, metric, split)
    A = matrix(scored, model, metric, split)
    reached = reach(points, target)
    if target_on == "each_period" and target is not None:
        known = None if arrivals is None else _frame(arrivals)
        cost = each_period(scored, known, moved, target, model, metric, split) if known is not None else None
        reached = None if cost is None else mean_reached(cost)
    on = target_on if target_on == "each_period" else rule(points)
    back = None if arrivals is None or target is None else recovery(points, _frame(arrivals), target)
    sent = totals(moved)
    computed = {} if spans is None else compute_seconds(_frame(spans), folding)
    counts = {name: int(folding[name].sum()) if len(folding) else None for name in ("asked", "folded", "lost", "late")}
    counts["wanted"] = int(folding["wanted"].sum()) if "wanted" in folding and folding["wanted"].notna().any() else None
    counts["refused"] = int(folding["refused"].sum()) if len(folding) and "refused" in folding else None
    return {
        "metric": metric,
        "score": float(points["score"].iloc[-1]) if len(points) else None,
        "periods": float(points["periods"].iloc[-1]) if len(points) else None,
        "am": average_accuracy(A),
        "la": just_learned(A) if len(A) > 1 else None,
        "fm": forgetting(A),
        "prequential": prequential(scored, model, metric, split),
        **{name: sent[name] for name in ("bytes_up", "bytes_down", "bytes_peer", "bytes_wasted")},
        "updates": len(folding) or None,
        "updates_per_period": None if arrivals is None else updates_per_period(_frame(arrivals), folding),
        "staleness": staleness(folding),
        **counts,
        **served(scored, moved, None if arrivals is None else _frame(arrivals), model, metric, split),
        **{name: computed.get(name) for name in ("client_seconds", "server_seconds")},
        "epsilon": _last(folding),
        "target": target,
        "target_on": None if target is None else on,
        "seconds_to_target": reached.seconds if reached else None,
        "bytes_to_target": reached.moved if reached else None,
        "periods_at_target": reached.periods if reached else None,
        "target_at_first": reached.at_first if reached else None,
        "arrivals": back.arrivals if back else None,
        "recovery_seconds": back.seconds if back else None,
        "recovery_at_first": back.at_first if back else None,
        "never_recovered": back.never if back else None,
    }


def _last(updates: pd.DataFrame) -> float | None:
    """Return epsilon of all releases, or None if nothing was released privately."""
    known = updates["epsilon"].dropna() if "epsilon" in updates else updates["time"].iloc[:0]
    return float(known.iloc[-1]) if len(known) else None


def _frame(table: Any) -> pd.DataFrame:
    return table if isinstance(table, pd.DataFrame) else table.to_pandas()

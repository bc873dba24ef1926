"""Summarise one point's tables in one row: the columns of summary.csv that follow from the tables."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis.measures.arrivals import prequential, recovery, staleness, updates_per_period
from analysis.measures.communication import totals
from analysis.measures.compute_time import compute_seconds
from analysis.measures.each_period import each_period, mean_reached
from analysis.measures.forgetting import average_accuracy, forgetting, headline, just_learned, matrix_of, met
from analysis.measures.frontier import ASKED, over_all_periods, reach, rule, scored, with_bytes
from analysis.measures.served import served
from analysis.read.load import RECOVERY

READ = ("transfers", "updates", "scores", "arrivals", "spans")
REACHED = ("seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first")


def summarise(
    tables: Mapping[str, Any], model: str, metric: str, target: float | None, split: str = "test",
    target_on: str = "all_periods",
) -> dict[str, Any]:  # fmt: skip
    """Return metric, score, periods, am, la, fm, prequential, bytes_up, ..., updates, updates_per_period, ...

    The tables are pandas data frames or pyarrow tables with the columns of a run's Parquet files. `model` is the
    headline's (global or local): where it was never scored, score, am, la, fm and the cost of the target are None; no
    other model replaces it. Scores and target are fractions, times seconds. `score` is the last of the curve (on the
    fixed test of all periods where there is one), `periods` the mean number of periods that clients had met by then.
    `la` is learning accuracy, None like `fm` for a single period: where periods are scored ahead, on snapshots that
    come later, it is the mean over the snapshots trained on.
    Whatever does not apply is None, never zero: without any update, asked, folded, lost, late and refused;
    without the numbers that protocols want, `wanted`. client_seconds and server_seconds are the mean simulated seconds
    of computing a job and an update. `epsilon` is that of the last update that has one.

    `target_on` is "each_period" for a target on each period alone, from its arrival on, means over periods (see
    each_period); else the target counts on the curve's score, and the row says on which test that is (see
    frontier.rule). `periods_at_target` is the mean number of periods that clients had met then, `target_at_first`
    whether that was the first scoring that counted (see frontier.Reached). If the target was not reached, its cost is
    None. For the columns on recovery see `recovery`.
    """
    moved, folding, scores, came, spans = (
        table if isinstance(table, pd.DataFrame) else table.to_pandas() for table in map(tables.__getitem__, READ)
    )
    rows = headline(scores, model, metric, split)
    known = met(rows)
    fixed = over_all_periods(scores, model, metric) if split == ASKED else None
    points, A = with_bytes(scored(known, fixed), moved), matrix_of(known)
    reached, on = reach(points, target), rule(points)
    if target_on == "each_period" and target is not None:
        reached, on = mean_reached(each_period(scores, came, moved, target, model, metric, split)), target_on
    back = None if target is None else recovery(points, came, target)
    sent, computed = totals(moved), compute_seconds(spans, folding)
    epsilon = folding["epsilon"].dropna()
    return {
        "metric": metric,
        "score": float(points["score"].iloc[-1]) if len(points) else None,
        "periods": float(points["periods"].iloc[-1]) if len(points) else None,
        "am": average_accuracy(A),
        "la": just_learned(A) if len(A) > 1 else None,
        "fm": forgetting(A),
        "prequential": prequential(rows),
        **{name: sent[name] for name in ("bytes_up", "bytes_down", "bytes_peer", "bytes_wasted")},
        "updates": len(folding) or None,
        "updates_per_period": updates_per_period(came, folding),
        "staleness": staleness(folding),
        **{name: _sum(folding[name]) for name in ("asked", "folded", "lost", "late", "wanted", "refused")},
        **served(known, moved, came),
        **{name: computed[name] for name in ("client_seconds", "server_seconds")},
        "epsilon": float(epsilon.iloc[-1]) if len(epsilon) else None,
        "target": target,
        "target_on": None if target is None else on,
        **dict(zip(REACHED, reached or [None] * len(REACHED), strict=True)),
        **dict(zip(RECOVERY, back or [None] * len(RECOVERY), strict=True)),
    }


def _sum(counts: pd.Series) -> int | None:
    """Return the sum of what is known; None without anything."""
    return int(counts.sum()) if counts.notna().any() else None

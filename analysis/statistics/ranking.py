"""Rank the methods in each condition of a sweep, with intervals and paired differences from the best.

Ranked by the score at the end. A difference is taken within a replicate (the same
order, the same seed) and then averaged by the same rule as a mean (see intervals).

Not modelled: correction for many comparisons, and for the best having been chosen by the data that it is compared on.
"""

import math
from typing import Any

import pandas as pd

from analysis.axes import replicates
from analysis.statistics.intervals import Interval, counted, interval
from analysis.statistics.significance import differences

SCORE = "score"
COLUMNS = [
    "rank", "algorithm", "mean", "low", "high", "lowest", "highest", "fm", "fm_low", "fm_high", "fm_lowest",
    "fm_highest", "n", "replicates", "mean_rank", "pairs", "difference", "difference_low", "difference_high",
    "difference_lowest", "difference_highest", "excludes_zero", "units",
]  # fmt: skip


def ranking(points: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return one row per condition and method, best first: `axes`, then COLUMNS.

    Fractions throughout. `n` counts runs that have a score, `replicates` says what they are. `mean_rank` is over
    the replicates in which every ranked method has a score. A method without any has neither rank nor mean and
    comes last. `low` and `high` are the interval's ends, `lowest` and `highest` those of what it is over, and `units`
    a list of these where they are too few for an interval. `difference` is the method's score less that of the
    best, over their `pairs` common replicates, and `excludes_zero` is None without an interval.
    """
    used = points[[*axes, "algorithm", *replicates(points.columns), SCORE, "fm"]]
    groups = used.groupby(axes, sort=False) if axes else [((), used)]
    rows = []
    for key, runs in groups:
        place = dict(zip(axes, key, strict=True))
        rows += [{**place, **row} for row in _ranked(runs)]
    return pd.DataFrame(rows, columns=[*axes, *COLUMNS])


def _ranked(runs: pd.DataFrame) -> list[dict[str, Any]]:
    methods = {str(name): frame for name, frame in runs.groupby("algorithm", sort=False)}
    means = {name: interval(frame, SCORE) for name, frame in methods.items()}
    scores = pd.Series({name: own.mean for name, own in means.items()}, dtype="float64")
    order = list(scores.sort_values(ascending=False, kind="stable").index)  # equal means keep the order of the sweep
    ranks = _mean_ranks(runs)
    rows = []
    for rank, name in enumerate(order, 1):
        known, unknown = methods[name].dropna(subset=SCORE), math.isnan(means[name].mean)
        pairs, apart = differences(methods[name], methods[order[0]], SCORE)
        apart = Interval(0.0, math.nan, math.nan) if rank == 1 else apart
        rows.append(
            {
                "rank": None if unknown else rank, "algorithm": name,
                **ends("", means[name]), **ends("fm", interval(methods[name], "fm")),
                "n": len(known), "replicates": counted(known) if len(known) else "", "mean_rank": ranks.get(name),
                "pairs": len(pairs), **ends("difference", apart), "excludes_zero": apart.excludes_zero,
                "units": means[name].few,
            }
        )  # fmt: skip
    return rows


def _mean_ranks(runs: pd.DataFrame) -> dict[str, float]:
    """Return each method's mean rank over whole replicates, ties shared; empty if no replicate is whole."""
    known = runs.dropna(subset=SCORE)
    table = known.pivot_table(index=replicates(runs.columns), columns="algorithm", values=SCORE).dropna()
    return {str(name): float(rank) for name, rank in table.rank(axis=1, ascending=False).mean().dropna().items()}


def ends(name: str, found: Interval) -> dict[str, float]:
    """Return a mean and the ends of its interval and of its units, by columns: `name` (or mean), `name`_low, ..."""
    start = f"{name}_" if name else ""
    least, most = (min(found.units), max(found.units)) if found.units else (math.nan, math.nan)
    limits = {"low": found.low, "high": found.high, "lowest": least, "highest": most}
    return {name or "mean": found.mean, **{f"{start}{end}": value for end, value in limits.items()}}

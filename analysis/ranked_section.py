"""The report's section that ranks the methods: table, figure, and the rule behind its intervals."""

import math

import pandas as pd

from analysis.axes import short
from analysis.cells import key, placed, points
from analysis.page import Cell, paragraph, section, table, text
from analysis.quantity import COUNT, MISSING, show

NAMES = {"am": "AM", "score": "score"}
RULE = (
    "Intervals hold 95 % (Student's t). Runs of one order of tasks are not independent, so with several orders "
    "(numpy_seed, or another axis that ends in seed) the seeds within each order are averaged first and the interval "
    "is over the orders, with orders - 1 degrees of freedom; the mean is then that of the orders. Where there is one "
    "order only, the interval is over its seeds: it speaks for that order, and not for others. A single run has no "
    "interval. A difference is to the first-ranked, within the same order and seed, in percentage points, and follows "
    "the same rule. Nothing is corrected for the number of methods compared, nor for the first having been chosen by "
    "these very runs. The mean rank is over the replicates that all methods have. All of it: tables/ranking.csv."
)


def ranked(frame: pd.DataFrame, axes: list[str], measure: str, drawing: str) -> str:
    """Return the section of a ranking (see ranking.ranking) with its drawing; `measure` is the headline's name."""
    heads = [*map(short, axes), "rank", "algorithm", measure, "95 % interval", "FM", "95 % interval", "n", "mean rank"]
    heads += ["less the first", "95 % interval", "excludes zero"]
    rows = []
    for _, row in frame.iterrows():
        cells = placed(row, axes)
        rank = row["rank"]
        cells += [Cell(show(rank, COUNT), key(rank)), text(row["algorithm"])]
        cells += [points(row["mean"]), _ends(row["low"], row["high"])]
        cells += [
            points(row["fm"]),
            _ends(row["fm_low"], row["fm_high"]),
            text(row["replicates"] or MISSING, row["n"]),
        ]
        cells.append(Cell(f"{row['mean_rank']:.2f}", row["mean_rank"]) if row["mean_rank"] > 0 else Cell(MISSING, ""))
        cells += [points(row["difference"]) if rank != 1 else Cell(MISSING, "")]
        cells += [_ends(row["difference_low"], row["difference_high"]), _sure(row["excludes_zero"])]
        rows.append(cells)
    return section("ranking", "Ranking", drawing, table(heads, rows), paragraph(RULE, "note"))


def _ends(low: float, high: float) -> Cell:
    if math.isnan(low):
        return Cell(MISSING, "")
    return Cell(" to ".join(points(end).shown for end in (low, high)), high - low)


def _sure(excludes: bool | None) -> Cell:
    return text(MISSING, "") if excludes is None or pd.isna(excludes) else text("yes" if excludes else "no")

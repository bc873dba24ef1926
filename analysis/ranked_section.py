"""The report's table that ranks the methods, and the rule behind its intervals."""

import math

import pandas as pd

from analysis.axes import short
from analysis.cells import in_points, key, placed, ranged
from analysis.intervals import FEWEST
from analysis.page import Cell, text
from analysis.quantity import COUNT, MISSING, PERCENT, show
from analysis.sheet import part, sheet
from analysis.unchanging import settled

RULE = (
    "Intervals hold 95 % (Student's t). Runs of one order of tasks are not independent, so with several orders "
    "(numpy_seed, or another axis that ends in seed) the seeds within each order are averaged first, and the interval "
    "is over the orders, with one degree of freedom fewer than there are orders; the mean is then that of the orders. "
    "With one order only, the interval is over its seeds: it speaks for that order and not for others. "
    f"Fewer than {FEWEST} orders or seeds have no interval: the least and the greatest of them are shown instead. The "
    "difference from the best is taken within the same order and seed, in percentage points, and follows the same "
    "rule; it is significant where its interval excludes zero. Nothing is corrected for the number of methods "
    "compared, nor for the best having been chosen by the same runs. The mean rank is over the replicates that all "
    "methods share."
)


def ranked(frame: pd.DataFrame, axes: list[str], measure: str, drawing: str) -> str:
    """Return the part of the page on a ranking (see ranking.ranking) with its drawing; `measure` names the score."""
    frame, axes, same = settled(frame, axes, ["mean", "fm", "difference"])
    spread = _spread_name(frame["low"])
    heads = [*map(short, axes), "rank", "algorithm", measure, spread, "FM", f"FM, {spread}", "n", "mean rank"]
    heads += [
        "difference from the best",
        f"difference, {_spread_name(frame.loc[frame['rank'] > 1, 'difference_low'])}",
        "significant",
    ]
    rows = []
    for _, row in frame.iterrows():
        cells = placed(row, axes)
        rank = row["rank"]
        cells += [Cell(show(rank, COUNT), key(rank)), text(row["algorithm"])]
        cells += [in_points(row["mean"]), _ends(row, "")]
        cells += [in_points(row["fm"]), _ends(row, "fm_"), text(row["replicates"] or MISSING, row["n"])]
        cells.append(Cell(f"{row['mean_rank']:.2f}", row["mean_rank"]) if row["mean_rank"] > 0 else Cell(MISSING, ""))
        cells += [in_points(row["difference"]) if rank != 1 else Cell(MISSING, "")]
        cells += [_ends(row, "difference_"), _sure(row["excludes_zero"])]
        rows.append(cells)
    found = sheet(heads, rows, "ranking", len(axes) + 3, f"In percentage points. {same}")
    return part("ranking", "", drawing, found, f"<details><summary>How</summary><p>{RULE}</p></details>")


def _spread_name(low: pd.Series) -> str:
    known = low.notna()
    return "95 % interval" if known.all() or not len(low) else "interval or range" if known.any() else "range"


def _ends(row: "pd.Series[float]", of: str) -> Cell:
    low, high = (row[f"{of}low"], row[f"{of}high"])
    if math.isnan(low):
        low, high = (row[f"{of}lowest"], row[f"{of}highest"])
    if math.isnan(low) or row["n"] < 2:
        return Cell(MISSING, "")
    return Cell(ranged(low, high, PERCENT).removesuffix(" %"), high - low)


def _sure(excludes: bool | None) -> Cell:
    return text(MISSING, "") if excludes is None or pd.isna(excludes) else text("yes" if excludes else "no")

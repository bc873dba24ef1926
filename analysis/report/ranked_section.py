"""The report's table that ranks the methods, and the rule behind its intervals."""

import math
from functools import partial
from html import escape
from typing import Any

import pandas as pd

from analysis.quantity import COUNT, MISSING
from analysis.report.cells import Maker, ends, in_points, plain
from analysis.report.page import Cell, note, text
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import settled
from analysis.statistics.intervals import FEWEST


def ranked(frame: pd.DataFrame, axes: list[str], measure: str, drawing: str) -> str:
    """Return the part of the page on a ranking (see ranking.ranking) with its drawing; `measure` names the score."""
    frame, axes, same = settled(frame, axes, ["mean", "fm", "difference"])
    spread = _spread_name(frame["low"])
    apart = _spread_name(frame.loc[frame["rank"] > 1, "difference_low"])
    columns: list[tuple[str, Maker]] = [
        ("rank", plain("rank", COUNT)),
        ("algorithm", lambda row: text(row["algorithm"])),
        (measure, lambda row: in_points(row["mean"])),
        (spread, partial(ends, "")),
        ("FM", lambda row: in_points(row["fm"])),
        (f"FM, {spread}", partial(ends, "fm_")),
        ("n", lambda row: text(row["replicates"] or MISSING, row["n"])),
        ("mean rank", _mean_rank),
        ("difference from the best", lambda row: in_points(math.nan if row["rank"] == 1 else row["difference"])),
        (f"difference, {apart}", partial(ends, "difference_")),
        ("significant", _significant),
    ]
    rows = figures_table(frame, axes, columns, "ranking", "points", unchanged=same)
    rule = f"<details><summary>How</summary><p>{escape(note('ranking', fewest=FEWEST))}</p></details>"
    return part("ranking", "", drawing, rows, rule)


def _spread_name(low: pd.Series) -> str:
    known = low.notna()
    return "95 % interval" if known.all() or not len(low) else "interval or range" if known.any() else "range"


def _mean_rank(row: "pd.Series[Any]") -> Cell:
    rank = row["mean_rank"]
    return Cell(f"{rank:.2f}", rank) if rank > 0 else Cell(MISSING, "")


def _significant(row: "pd.Series[Any]") -> Cell:
    excludes = row["excludes_zero"]
    return text(MISSING, "") if excludes is None or pd.isna(excludes) else text("yes" if excludes else "no")

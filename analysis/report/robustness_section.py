"""The report's part on the numeric axes of a sweep: scores for equal budgets, changes of order, heat maps."""

from functools import partial
from itertools import combinations
from typing import Any

import pandas as pd

from analysis.axes import hardest_first, is_numeric, logarithmic, short
from analysis.charts import axis_charts
from analysis.charts.heat_maps import heat
from analysis.measures import robustness
from analysis.report.cells import Maker, ends, in_points
from analysis.report.page import paragraph, text
from analysis.report.report_context import ReportContext
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import every, flat, settled
from analysis.statistics.intervals import FEWEST


def robustness_section(
    curves: pd.DataFrame, means: pd.DataFrame, axes: list[str], target: float | None, score: str, files: ReportContext
) -> str:
    """Write the figures and tables, and return the part of the page; "" if no method was run along an axis.

    `curves` have a column `chance` (see robustness.readings).
    """
    numeric, parts = [axis for axis in axes if is_numeric(means[axis])], list[str]()
    for axis in numeric:
        others = [other for other in axes if other != axis]
        parts += _along(robustness.readings(curves, axis, others), axis, others, score, files)
    if not parts:
        return ""
    return part("robustness", "Robustness", *parts, *_heat_maps(means, numeric, axes, target, score, files))


def _along(rows: pd.DataFrame, axis: str, others: list[str], score: str, files: ReportContext) -> list[str]:
    by, line = ["budget", *others], hardest_first(axis, rows[axis])
    levels = robustness.rows_along(robustness.levels(rows, axis, others), axis, by)
    if levels.empty:
        return []
    files.save(f"score_along_{axis}", levels.drop(columns="units"))
    if flat(levels, axis, ["algorithm", *by], ["mean"]):
        same = f"The {score} is the same at every {every(axis, levels)}, to within 0.5 %"
        return [paragraph(f"{same}, for the same rounds, bytes and simulated time.")]
    areas, changes = robustness.areas(rows, axis, others), robustness.changes(rows, axis, others)
    files.save(f"robustness_{axis}", areas.drop(columns="units"))
    files.save(f"changes_{axis}", changes)
    columns: list[tuple[str, Maker]] = [
        (f"area of {score}", lambda row: in_points(row["mean"])), ("interval or range", partial(ends, "")),
        ("lost", lambda row: in_points(row["lost"])), (f"fails at {short(axis)}", lambda row: text(row["fails"])),
    ]  # fmt: skip
    facts: dict[str, Any] = {
        "score": score,
        "axis": short(axis),
        "log": logarithmic(rows["x"]),
        "fewest": FEWEST,
        "line": line,
    }
    parts = [
        files.drawn(f"score_along_{axis}".replace(".", "_"), axis_charts.robustness(levels, axis, by, score)),
        figures_table(areas, [*by, "algorithm"], columns, f"robustness_{axis}", "areas", **facts),
    ]
    columns = [
        (f"behind it at {short(axis)} {line[-1]}", lambda row: text(row["rival"])),
        ("by", lambda row: in_points(row["lead"])), ("interval", partial(ends, "lead_")),
        ("but ahead of it at", lambda row: text(row[axis])),
        ("by", lambda row: in_points(row["lag"])), ("interval", partial(ends, "lag_")),
    ]  # fmt: skip
    changed = figures_table(changes, [*by, "algorithm"], columns, f"changes_{axis}", "changes")
    return [*parts, changed] if len(changes) else parts


def _heat_maps(
    means: pd.DataFrame, numeric: list[str], axes: list[str], target: float | None, score: str, files: ReportContext
) -> list[str]:
    """Return heat maps over the first pair of axes of which all combinations were run."""
    for pair in combinations(numeric, 2):
        others = [axis for axis in axes if axis not in pair]
        rows = robustness.crossed(means, pair, others)
        if len(rows):
            goals = ["seconds_to_target", "bytes_to_target"] if rows["seconds_to_target"].notna().any() else []
            return [
                files.drawn(f"heat_{value}", heat(shown, value, pair, left, target, score, files.clock))
                for value in ["score", *goals, "bytes_moved"]
                for shown, left in [_settled_map(rows, value, pair, others)]
                if len(shown)
            ]
    return []


def _settled_map(
    rows: pd.DataFrame, value: str, pair: tuple[str, str], others: list[str]
) -> tuple[pd.DataFrame, list[str]]:
    """Return the rows that a map is drawn from and its further axes; no rows if one of the pair changes nothing."""
    shown, left, _ = settled(rows, [*pair, *others], [value])
    return (shown, [axis for axis in left if axis not in pair]) if {*pair} <= {*left} else (rows.iloc[:0], others)

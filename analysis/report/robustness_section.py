"""The report's part on the numeric axes of a sweep: the share of the score that is kept, the score, and heat maps."""

from itertools import combinations

import pandas as pd

from analysis.axes import best_end, is_numeric, joined, replicates, short
from analysis.charts import axis_charts
from analysis.charts.heat_maps import heat
from analysis.measures import robustness
from analysis.report import sections
from analysis.report.page import paragraph
from analysis.report.report_context import ReportContext
from analysis.report.sheet import part
from analysis.statistics.constant_axes import every, flat, settled
from analysis.statistics.spread import over_replicates


def robustness_section(
    points: pd.DataFrame, means: pd.DataFrame, axes: list[str], target: float | None, score: str, files: ReportContext
) -> str:
    """Write the figures and tables, and return the part of the page; "" if no method was run along an axis."""
    numeric = [axis for axis in axes if is_numeric(points[axis])]
    by = ["algorithm", *replicates(points.columns)]
    rows, left, _ = settled(points, axes, ["score"], by)
    same = [short(axis) for axis in numeric if axis not in left]
    parts = [paragraph(f"The {score} is the same at every {joined(same)}.")] if same else []
    for axis in (axis for axis in numeric if axis in left):
        others = [other for other in left if other != axis]
        found = robustness.rows_along(rows, axis, others)
        if len(found):
            parts += _absolute(found, axis, others, score, files) + _kept(found, axis, others, score, files)
    if not parts:
        return ""
    return part("robustness", "Robustness", *parts, *_heat_maps(means, numeric, axes, target, score, files))


def _absolute(rows: pd.DataFrame, axis: str, others: list[str], score: str, files: ReportContext) -> list[str]:
    levels = robustness.rows_along(robustness.levels(rows, axis, others, "score"), axis, others)
    if levels.empty:
        return []
    files.save(f"score_along_{axis}", levels.drop(columns="units"))
    if flat(levels, axis, ["algorithm", *others], ["mean"]):
        return [paragraph(f"The {score} is the same at every {every(axis, levels)}, to within 0.5 %.")]
    spec = axis_charts.absolute(levels, axis, others, score)
    return [files.drawn(f"score_along_{_name(axis)}", spec)]


def _kept(rows: pd.DataFrame, axis: str, others: list[str], score: str, files: ReportContext) -> list[str]:
    shares = robustness.shares(rows, axis, others).dropna(subset="share")
    shares = robustness.rows_along(shares, axis, others)
    if shares.empty:
        return []
    by, reference = ["algorithm", *others], best_end(axis, list(rows[axis]))
    kept = over_replicates(shares, [*by, axis, "x"], ["share"])
    areas = over_replicates(robustness.areas(shares, others), by, ["area"])
    files.save(f"robustness_{axis}", kept)
    files.save(f"robustness_area_{axis}", areas)
    if flat(kept, axis, by, ["share"]):
        return []  # nothing is lost, as the score along the axis shows
    spec = axis_charts.robustness(kept, axis, others, f"{short(axis)} {reference}", score)
    return [
        files.drawn(f"robustness_{_name(axis)}", spec),
        sections.areas(areas, axis, others, reference, score, f"robustness_area_{axis}"),
    ]


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


def _name(axis: str) -> str:
    return axis.replace(".", "_")

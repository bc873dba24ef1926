"""The report's part on the numeric axes of a sweep: scores for equal budgets, changes of order, heat maps."""

from functools import partial
from itertools import combinations

import pandas as pd

from analysis.axes import hardest_first, is_numeric, logarithmic, short
from analysis.charts import axis_charts
from analysis.charts.heat_maps import heat
from analysis.measures import robustness
from analysis.report.cells import Maker, ends, in_points
from analysis.report.page import paragraph, text
from analysis.report.report_context import ReportContext
from analysis.report.score_parts import with_chance
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import every, flat, settled
from analysis.statistics.intervals import FEWEST


def robustness_section(m: ReportContext) -> str:
    """Write the figures and tables, and return the part of the page; "" if no method was run along an axis."""
    numeric, parts = [axis for axis in m.axes if is_numeric(m.means[axis])], list[str]()
    curves = with_chance(m)
    for axis in numeric:
        others = [other for other in m.axes if other != axis]
        parts += _along(m, robustness.readings(curves, axis, others), axis, others)
    return part("robustness", "Robustness", *parts, *_heat_maps(m, numeric)) if parts else ""


def _along(m: ReportContext, rows: pd.DataFrame, axis: str, others: list[str]) -> list[str]:
    by, line = ["budget", *others], hardest_first(axis, rows[axis])
    levels = robustness.rows_along(robustness.levels(rows, axis, others), axis, by)
    if levels.empty:
        return []
    m.save(f"score_along_{axis}", levels.drop(columns="units"))
    if flat(levels, axis, ["algorithm", *by], ["mean"]):
        same = f"The {m.score} is the same at every {every(axis, levels)}, to within 0.5 %"
        return [paragraph(f"{same}, for the same rounds, bytes and simulated time.")]
    areas, changes = robustness.areas(rows, axis, others), robustness.changes(rows, axis, others)
    m.save(f"robustness_{axis}", areas.drop(columns="units"))
    m.save(f"changes_{axis}", changes)
    columns: list[tuple[str, Maker]] = [
        (f"area of {m.score}", lambda row: in_points(row["mean"])), ("interval or range", partial(ends, "")),
        ("lost", lambda row: in_points(row["lost"])), (f"fails at {short(axis)}", lambda row: text(row["fails"])),
    ]  # fmt: skip
    parts = [
        m.drawn(f"score_along_{axis}".replace(".", "_"), axis_charts.robustness(levels, axis, by, m.score)),
        figures_table(
            areas, [*by, "algorithm"], columns, f"robustness_{axis}", "areas", score=m.score, axis=short(axis),
            log=logarithmic(rows["x"]), fewest=FEWEST, line=line,
        ),
    ]  # fmt: skip
    columns = [
        (f"behind it at {short(axis)} {line[-1]}", lambda row: text(row["rival"])),
        ("by", lambda row: in_points(row["lead"])), ("interval", partial(ends, "lead_")),
        ("but ahead of it at", lambda row: text(row[axis])),
        ("by", lambda row: in_points(row["lag"])), ("interval", partial(ends, "lag_")),
    ]  # fmt: skip
    changed = figures_table(changes, [*by, "algorithm"], columns, f"changes_{axis}", "changes")
    return [*parts, changed] if len(changes) else parts


def _heat_maps(m: ReportContext, numeric: list[str]) -> list[str]:
    """Return heat maps over the first pair of axes of which all combinations were run."""
    maps = []
    for pair in combinations(numeric, 2):
        others = [axis for axis in m.axes if axis not in pair]
        rows = robustness.crossed(m.means, pair, others)
        if len(rows):
            goals = ["seconds_to_target", "bytes_to_target"] if rows["seconds_to_target"].notna().any() else []
            for value in ["score", *goals, "bytes_moved"]:
                shown, left, _ = settled(rows, [*pair, *others], [value])
                if {*pair} <= {*left}:  # both of the two change something
                    further = [axis for axis in left if axis not in pair]
                    spec = heat(shown, value, pair, further, m.target, m.score, m.clock)
                    maps.append(m.drawn(f"heat_{value}", spec))
            break
    return maps

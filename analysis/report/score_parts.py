"""The parts of a report on scores: how they develop, what they cost, what is forgotten and what changes along axes."""

from typing import Any

import pandas as pd

from analysis.axes import condition_of, conditions
from analysis.charts import axis_charts, totals
from analysis.charts.heat_maps import forgetting_matrix
from analysis.charts.score_curves import score_against
from analysis.measures import robustness
from analysis.measures.budgets import is_chosen
from analysis.measures.held_out import held_out, held_out_section
from analysis.report import sections
from analysis.report.budgets_section import budgets
from analysis.report.page import note, paragraph
from analysis.report.report_context import ReportContext
from analysis.report.sheet import part
from analysis.statistics.spread import mean_curves, over_replicates


def developing(m: ReportContext) -> list[str]:
    """Return how scores develop: curves, leads at equal budgets, and updates per period."""
    return [curves(m), budgets(with_chance(m), m.axes, m.score, m), periods_part(m)]


def curves(m: ReportContext) -> str:
    """Return the curves that the first screen does not show."""
    m.save("curves", m.kept.curves)
    shown = [("score_time", "time"), ("score_bytes", "moved")]
    parts = [curve(m, name, x) for name, x in shown if name not in m.charts]
    return part("curves", "Over time and bytes", *parts, paragraph(note("curves"), "note"))


def curve(m: ReportContext, name: str, x: str) -> str:
    """Return the chart of the score along `x`, time or moved."""
    means = mean_curves(m.kept.curves, m.by, x)
    return m.drawn(name, score_against(means, x, m.axes, m.score, m.target, clock=m.clock))


def met_curve(m: ReportContext) -> str:
    """Return the chart of the score over the periods met so far; "" where that is the score."""
    known = m.kept.curves[m.kept.curves["fixed"].astype(bool)]
    if known.empty or known["periods"].max() <= 1:
        return ""
    means = mean_curves(known, m.by, "time", "met")
    return m.drawn("met_time", score_against(means, "time", m.axes, m.score, None, met=True, clock=m.clock))


def cost(m: ReportContext) -> str:
    """Return the final score against its cost, and the table of all figures."""
    if not m.scored:
        return sections.summary(m.means, m.axes, m.score)
    scored = m.means.dropna(subset="score")
    given = [axis for axis in m.axes if not is_chosen(axis)]
    labels = [_choice(row, [axis for axis in m.axes if is_chosen(axis)]) for _, row in scored.iterrows()]
    parts = []
    for name, cost in {"time": "sim_seconds", "bytes": "bytes_moved"}.items():
        marks = scored.assign(choice=labels, frontier=scored[f"frontier_{name}"])
        parts.append(m.drawn(f"trade_{name}", totals.trade_off(marks, cost, m.score, given, m.clock)))
    title = f"{m.score.capitalize()} against cost"
    fronts = part("fronts", title, *parts, paragraph(note("fronts"), "note")) if len(scored) > 1 else ""
    return fronts + sections.summary(m.means, m.axes, m.score)


def _choice(row: "pd.Series[Any]", axes: list[str]) -> str:
    """Return "POWER, participation 0.3": what was chosen, beside the conditions."""
    return ", ".join(filter(None, [row["algorithm"], condition_of({axis: str(row[axis]) for axis in axes})]))


def with_chance(m: ReportContext) -> pd.DataFrame:
    """Return the curves with what guessing reaches in their runs, as `chance`."""
    return m.kept.curves.assign(chance=m.kept.curves["run"].map(m.points.set_index("run")["chance"]))


def periods_part(m: ReportContext) -> str:
    """Return the part on what each period was given; "" if no run has a second one."""
    cells = m.kept.periods
    if cells.empty or cells["period"].max() < 2:
        return ""
    m.save("periods", over_replicates(cells, [*m.by, "period"], ["updates", "prequential"]))
    parts = []
    for axis in m.axes if m.means["updates_per_period"].nunique() > 1 else []:
        others = [other for other in m.axes if other != axis]
        if len(rows := robustness.rows_along(m.means, axis, others)):
            spec = axis_charts.updates_had(rows, axis, others, m.score)
            parts.append(m.drawn(f"updates_per_period_{axis.replace('.', '_')}", spec))
    return part("periods", "Updates per period", *parts, sections.periods(m.means, m.axes, m.score))


def recovery_part(m: ReportContext) -> str:
    """Return the score over what has been met, and how soon it is at the target again; "" with a single period."""
    drawing = met_curve(m)
    table = sections.recovery(m.means, m.axes, m.score) if m.means["arrivals"].notna().any() else ""
    return part("recovery", "After each arrival", drawing, table) if drawing or table else ""


def forgetting(m: ReportContext) -> str:
    """Return the scores on each period as periods are learned; "" if there is only one period."""
    kept = m.kept.forgetting  # mean A[i][j] over runs: learned (i + 1), tested (j + 1); no empty cells
    cells = over_replicates(kept, [*m.by, "learned", "tested"], ["value"]) if len(kept) else kept
    m.save("forgetting", cells)
    if cells.empty or cells["learned"].max() < 2:
        return ""
    drawing = m.drawn("forgetting", forgetting_matrix(*conditions(cells, m.axes)))
    return part("forgetting", "", drawing, paragraph(note("forgetting"), "note"))


def held_out_part(m: ReportContext) -> str:
    """Return the part on nodes that nobody owns; "" if no run scored them."""
    frame = held_out(m.points, m.kept.held_out, m.by)
    if frame.empty:
        return ""
    m.save("held_out", frame)
    return held_out_section(frame, m.axes, m.score)

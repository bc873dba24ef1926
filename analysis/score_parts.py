"""The parts of a report on scores: how they develop, what they cost, what is forgotten and what changes along axes."""

from typing import Any

import pandas as pd

from analysis import along, budgets_section, charts, crosses, robustness_section, sections, tables
from analysis.budgets import is_chosen
from analysis.heat_maps import forgetting_matrix
from analysis.held_out import held_out, held_out_section
from analysis.material import Material
from analysis.page import paragraph
from analysis.score_curves import score_against
from analysis.sheet import part
from analysis.spread import mean_curves
from analysis.verdict import condition_of, conditions


def developing(m: Material) -> list[str]:
    """Return how scores develop: curves, leads at equal budgets, and updates per period."""
    return [curves(m), budgets_part(m), periods_part(m)]


def curves(m: Material) -> str:
    """Return the curves that the first screen does not show."""
    m.save("curves", m.kept.curves)
    shown = [("score_time", "time"), ("score_bytes", "moved")]
    parts = [curve(m, name, x) for name, x in shown if name not in m.charts]
    note = (
        "A curve holds the last score until the next; a run that has ended keeps its last. Bytes are all that had "
        "moved over the links by then."
    )
    return part("curves", "Over time and bytes", *parts, paragraph(note, "note"))


def curve(m: Material, name: str, x: str) -> str:
    """Return the chart of the score along `x`, time or moved."""
    means = mean_curves(m.kept.curves, m.by, x)
    return m.drawn(name, score_against(means, x, m.axes, m.score, m.target))


def met_curve(m: Material) -> str:
    """Return the chart of the score over the periods met so far; "" where that is the score."""
    known = m.kept.curves[m.kept.curves["fixed"].astype(bool)]
    if known.empty or known["periods"].max() <= 1:
        return ""
    means = mean_curves(known, m.by, "time", "met")
    return m.drawn("met_time", score_against(means, "time", m.axes, m.score, m.target, met=True))


def cost(m: Material) -> str:
    """Return the final score against its cost, and the table of all figures."""
    if not m.scored:
        return sections.summary(m.means, m.axes, m.score)
    scored = m.means.dropna(subset="score")
    given = [axis for axis in m.axes if not is_chosen(axis)]
    labels = [_choice(row, [axis for axis in m.axes if is_chosen(axis)]) for _, row in scored.iterrows()]
    parts = []
    for name, cost, best in (
        ("trade_time", "sim_seconds", "frontier_time"),
        ("trade_bytes", "bytes_moved", "frontier_bytes"),
    ):
        marks = scored.assign(choice=labels, frontier=scored[best])
        parts.append(m.drawn(name, charts.trade_off(marks, cost, m.score, given)))
    note = "The Pareto fronts are marked in tables/summary.csv as frontier_time and frontier_bytes."
    fronts = (
        part("fronts", f"{m.score.capitalize()} against cost", *parts, paragraph(note, "note"))
        if len(scored) > 1
        else ""
    )
    return fronts + sections.summary(m.means, m.axes, m.score)


def _choice(row: "pd.Series[Any]", axes: list[str]) -> str:
    """Return "POWER, participation 0.3": what was chosen, beside the conditions."""
    return ", ".join(filter(None, [row["algorithm"], condition_of({axis: str(row[axis]) for axis in axes})]))


def budgets_part(m: Material) -> str:
    """Return who leads for which budget; "" if a single method was run."""
    chance = m.points.set_index("point")["chance"]
    return budgets_section.budgets(m.kept.curves.assign(chance=m.kept.curves["point"].map(chance)), m.axes, m.score, m)


def periods_part(m: Material) -> str:
    """Return the part on what each period was given; "" if no run has a second one."""
    cells = m.kept.periods
    if cells.empty or cells["period"].max() < 2:
        return ""
    m.save("periods", tables.periods(cells, m.by))
    parts = []
    for axis in m.axes if m.means["updates_per_period"].nunique() > 1 else []:
        others = [other for other in m.axes if other != axis]
        if len(rows := crosses.along(m.means, axis, others)):
            spec = along.updates_had(rows, axis, others, m.score)
            parts.append(m.drawn(f"updates_per_period_{axis.replace('.', '_')}", spec))
    return part("periods", "Updates per period", *parts, sections.periods(m.means, m.axes, m.score))


def recovery_part(m: Material) -> str:
    """Return the score over what has been met, and how soon it is at the target again; "" with a single period."""
    drawing = met_curve(m)
    table = sections.recovery(m.means, m.axes, m.score) if m.means["arrivals"].notna().any() else ""
    return part("recovery", "After each arrival", drawing, table) if drawing or table else ""


def forgetting(m: Material) -> str:
    """Return the scores on each period as periods are learned; "" if there is only one period."""
    cells = tables.forgetting_matrices(m.kept.forgetting, m.by)
    m.save("forgetting", cells)
    if cells.empty or cells["learned"].max() < 2:
        return ""
    note = "Rows: the period just learned; columns: the period tested. All conditions: tables/forgetting.csv."
    drawing = m.drawn("forgetting", forgetting_matrix(*conditions(cells, m.axes)))
    return part("forgetting", "", drawing, paragraph(note, "note"))


def held_out_part(m: Material) -> str:
    """Return the part on vertices that nobody owns; "" if no run scored them."""
    frame = held_out(m.points, m.kept.held_out, m.by)
    if frame.empty:
        return ""
    m.save("held_out", frame)
    return held_out_section(frame, m.axes, m.score)


def robustness_part(m: Material) -> str:
    """Return what changes along the numeric axes; "" if nothing was run along one."""
    return robustness_section.robustness_section(m.points, m.means, m.axes, m.target, m.score, m)

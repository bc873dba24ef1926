"""The charts of a setting: mean score against bytes and against simulated time, with the budgets marked.

At most ten are drawn: those that lead at any budget or at the end, FedAvg, and the best of those tied with the leader
at the end. A curve is the mean over seeds of the last score at or before each place, from where all of them have
trained.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.charts import amounts
from analysis.charts.palette import RULE, SOFT
from analysis.charts.panels import colour, dash, facet, finished, ranges_text, tip
from analysis.charts.totals import COSTS as AXES
from analysis.measures.frontier import on_grid
from analysis.quantity import PERCENT, show
from fedsim.reference.cell import PARTS, BudgetShare, Contender
from fedsim.reference.findings import Outcome

FEDAVG = Contender("fedavg", "sync")
PLACES = 60  # along a curve
LEAST = 1e-4  # of the budget: where the axis begins at the latest
LEGEND = 5  # names in a row
MOST = 10  # curves, of more of which none can be followed


def drawn(outcome: Outcome) -> list[Contender]:
    """Return whom a setting's charts show, in the order of their final scores."""
    leaders = [standing.leader for standing in (*outcome.at.values(), outcome.final)]
    shown = {FEDAVG, *(leader for leader in leaders if leader)}
    tied = [name for name in outcome.final.tied if name not in shown]
    shown |= {*tied[: max(0, MOST - len(shown))]}
    return [row.contender for row in outcome.final.scored if row.contender in shown]


def frame(outcome: Outcome, courses: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return the mean curves: columns algorithm, x (bytes or seconds), score, n (seeds)."""
    budget = BudgetShare(cost, 1.0).of(outcome.budget)
    runs = {str(cell): rows for cell, rows in courses[courses["cell"].isin(outcome.runs["cell"])].groupby("cell")}
    first = min((float(rows[cost].iloc[0]) for rows in runs.values() if rows[cost].iloc[0] > 0), default=0)
    grid = np.geomspace(min(max(first, LEAST * budget), PARTS[0] * budget / 2), budget, PLACES)
    parts = []
    for name in drawn(outcome):
        cells = outcome.runs[(outcome.runs["method"] == name.method) & (outcome.runs["protocol"] == name.protocol)]
        held = np.array([on_grid(runs[cell], cost, grid) for cell in cells["cell"] if cell in runs])
        if len(held):
            mean = held.mean(axis=0)  # NaN until all have trained
            parts.append(pd.DataFrame({"algorithm": str(name), "x": grid, "score": mean, "n": len(held)}).dropna())
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["algorithm", "x", "score", "n"])


def chart(outcome: Outcome, courses: pd.DataFrame, cost: str) -> dict[str, Any] | None:
    """Return the Vega-Lite description, None where nobody has trained."""
    rows = frame(outcome, courses, cost)
    if rows.empty:
        return None
    name, units = AXES["moved" if cost == "bytes" else "time"]
    budget = BudgetShare(cost, 1.0).of(outcome.budget)
    across = amounts.along(rows["x"], units)
    rows = rows.assign(x=across.of(rows["x"]), column="", row="", place=range(len(rows)))
    names = list(rows["algorithm"].unique())
    ends = [float(rows["x"].min()), float(rows["x"].max())]
    x = alt.X("x:Q", title=across.title(name), axis=across.axis(), scale=alt.Scale(type="log", domain=ends, nice=False))
    y = alt.Y("score:Q", title="accuracy", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(zero=False))
    tint = colour(names, symbolType="stroke", symbolStrokeWidth=3, symbolSize=300, columns=LEGEND)
    layers = [alt.Chart().mark_line(strokeWidth=2, interpolate="step-after").encode(
        x=x, y=y, color=tint, strokeDash=dash(names))]  # fmt: skip
    for part in PARTS:
        at = alt.datum(part * budget / across.scale)
        once = alt.Chart().transform_filter("datum.place == 0")
        layers.append(once.mark_rule(strokeDash=[4, 4], color=RULE).encode(x=at))
        text = once.mark_text(align="right", dx=-4, dy=8, fontSize=10, color=SOFT)
        layers.append(text.encode(x=at, y=alt.value(0), text=alt.value(BudgetShare(cost, part).percent)))
    tips = [tip("x", name, across), tip("score", "accuracy", ".1%"), tip("n", "seeds", "d")]
    last = rows.groupby("algorithm", sort=False).tail(1)
    says = "Last scores: " + ranges_text(last, "score", lambda value: show(value, PERCENT))
    title = f"{outcome.setting}: accuracy against {name}"
    note = "Mean over seeds, as steps: leaders, those tied with them, FedAvg; dashed: shares of the budget"
    return finished(facet(layers, rows, height=260, width=940), rows, title, note, tips, says)

"""The charts of a setting: mean score against bytes and against simulated time, with the budgets marked.

At most ten are drawn: those that lead at any budget or at the end, FedAvg, and the best of those level with the leader
at the end. A curve is the mean over seeds of the last score at or before each place, from where all of them have
trained.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis import amounts
from analysis.charts import COSTS as AXES
from analysis.frontier import on_grid
from analysis.looks import RULE, SOFT
from analysis.panels import colour, dash, facet, finished, ranges_text, tip
from analysis.quantity import PERCENT, show
from fedsim.reference.findings import Outcome
from fedsim.reference.leaders_said import FEDAVG
from fedsim.reference.terms import PARTS, Contender, Share

PLACES = 60  # along a curve
LEAST = 1e-4  # of the budget: where the axis begins at the latest
LEGEND = 5  # names in a row
MOST = 10  # curves, of more of which none can be followed


def drawn(one: Outcome) -> list[Contender]:
    """Return whom a setting's charts show, in the order of their final scores."""
    first = {FEDAVG, *(leader for standing in (*one.at.values(), one.final) if (leader := standing.leader))}
    trained = [row for row in one.final.rows if row.kind != "none"]
    level = [row.contender for row in trained if row.kind == "level" and row.contender not in first]
    shown = {*first, *level[: max(0, MOST - len(first))]}
    return [row.contender for row in trained if row.contender in shown]


def frame(one: Outcome, courses: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return the mean curves: columns algorithm, x (bytes or seconds), score, n (seeds)."""
    whole = one.budget.bytes if cost == "bytes" else one.budget.seconds
    runs = {str(cell): rows for cell, rows in courses[courses["cell"].isin(one.runs["cell"])].groupby("cell")}
    first = min((float(rows[cost].iloc[0]) for rows in runs.values() if rows[cost].iloc[0] > 0), default=0)
    grid = np.geomspace(min(max(first, LEAST * whole), PARTS[0] * whole / 2), whole, PLACES)
    parts = []
    for name in drawn(one):
        own = one.runs[(one.runs["method"] == name.method) & (one.runs["protocol"] == name.protocol)]
        held = np.array([on_grid(runs[cell], cost, grid).to_numpy(float) for cell in own["cell"] if cell in runs])
        if len(held):
            mean = held.mean(axis=0)  # NaN until all have trained
            parts.append(pd.DataFrame({"algorithm": str(name), "x": grid, "score": mean, "n": len(held)}).dropna())
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["algorithm", "x", "score", "n"])


def chart(one: Outcome, courses: pd.DataFrame, cost: str) -> dict[str, Any] | None:
    """Return the Vega-Lite description, None where nobody has trained."""
    rows = frame(one, courses, cost)
    if rows.empty:
        return None
    name, units = AXES["moved" if cost == "bytes" else "time"]
    whole = one.budget.bytes if cost == "bytes" else one.budget.seconds
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
        at = alt.datum(part * whole / across.scale)
        once = alt.Chart().transform_filter("datum.place == 0")
        layers.append(once.mark_rule(strokeDash=[4, 4], color=RULE).encode(x=at))
        text = once.mark_text(align="right", dx=-4, dy=8, fontSize=10, color=SOFT)
        layers.append(text.encode(x=at, y=alt.value(0), text=alt.value(Share(cost, part).percent)))
    tips = [tip("x", name, expression=across.expression("x")), tip("score", "accuracy", ".1%"), tip("n", "seeds", "d")]
    last = rows.groupby("algorithm", sort=False).tail(1)
    says = "Last scores: " + ranges_text(last, "score", lambda value: show(value, PERCENT))
    title = f"{one.setting}: accuracy against {name}"
    note = "Mean over seeds, as steps: leaders, those level with them, FedAvg; dashed: shares of the budget"
    return finished(facet(layers, rows, height=260, width=940), rows, title, note, tips, says)

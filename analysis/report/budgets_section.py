"""The report on equal budgets: a bar of leaders for each condition, for seconds and for bytes, and the table."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.axes import condition_of, number, ordered
from analysis.charts import amounts
from analysis.charts.palette import SOFT
from analysis.charts.panels import colour, finished, tip
from analysis.charts.totals import COSTS, timed
from analysis.measures.budgets import COLUMNS, leads
from analysis.quantity import BYTES, MISSING, PERCENT, SECONDS
from analysis.report.cells import LAST, Maker, plain
from analysis.report.page import Cell, text
from analysis.report.report_context import ReportContext
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import drawn_once, settled

MOST = 40  # conditions that are drawn
TIED = "tied"
UNITS = {"time": SECONDS, "moved": BYTES}


def budgets(curves: pd.DataFrame, axes: list[str], score: str, files: ReportContext) -> str:
    """Write the figures and table, and return the part of the page; "" if no two methods can be compared."""
    found = {cost: leads(curves, axes, cost) for cost in COSTS}
    if found["time"].empty:
        return ""
    files.save("budgets", pd.concat(found.values(), ignore_index=True))
    parts, shown, repeats = [], [], []
    for cost, rows in found.items():
        places = [axis for axis in rows.columns if axis not in COLUMNS]
        once, left, same = settled(rows, places, ["from", "score"], ["method"])
        shown.append(once.drop(columns=[axis for axis in places if axis not in left]))
        parts.append(files.drawn(f"leaders_{cost}", leaders(rows, score, files.clock)))
        repeats += [f"{COSTS[cost][0].capitalize()}: {same[0].lower()}{same[1:]}"] if same else []
    return part("budgets", "Equal budgets", *parts, _table(pd.concat(shown, ignore_index=True), repeats, score))


def leaders(frame: pd.DataFrame, score: str, clock: str = "simulated") -> dict[str, Any]:
    """Chart which method leads over budgets (see budgets.leads, one cost): one bar a condition."""
    cost = frame["cost"].iloc[0]
    name, units = timed(COSTS[cost][0], clock), COSTS[cost][1]
    frame = _once(frame)
    conditions = list(dict.fromkeys(_conditions(frame)))
    rows = frame.assign(condition=_conditions(frame), choice=_choices(frame))
    rows = rows[rows["condition"].isin(_by_value(conditions)[:MOST])]
    first, last = float(rows["from"].min()), float(rows["from"].max())
    end = last * 1.5 if last > first else max(first, units[-1][0]) * 2
    across = amounts.along(pd.Series([max(first, units[-1][0]), end]), units)
    rows = rows.assign(begins=across.of(rows["from"]), ends=across.of(rows["to"].clip(upper=end)))
    axis = alt.Scale(type="log", nice=False) if across.wide else alt.Scale(type="linear", zero=False)
    x = alt.X("begins:Q", title=across.title(name), scale=axis, axis=across.axis(tickCount=8))
    algorithms = list(dict.fromkeys(frame["algorithm"]))
    down = alt.Y("condition:N", title=None, sort=_by_value(conditions))
    bars = alt.Chart(alt.NamedData(name="rows")).mark_bar(height={"band": 0.75}, stroke="white", strokeWidth=0.5)
    looks = {"color": colour(algorithms, columns=6), **_shades(frame)}
    chart = bars.encode(x=x, x2="ends:Q", y=down, **looks)
    chart = chart.properties(width=620, height=max(50, 24 * rows["condition"].nunique()))
    note = "From the first score above chance on; the last lead is open-ended"
    if len(conditions) > MOST:
        note += f"; the first {MOST} of {len(conditions)} conditions"
    tips = [tip("condition", "condition"), tip("method", "leader"), tip("begins", "from", across)]
    tips += [tip("ends", "to", across), tip("score", score, ".1%")]
    lasting = [f"{row['condition']}: {row['method']}" for _, row in rows[np.isinf(rows["to"])].iterrows()]
    rows = rows.drop(columns=["from", "to"])  # the last `to` is infinite, which JSON cannot hold
    says = f"Final leaders: {'; '.join(lasting)}"
    return finished(chart, rows, f"Highest {score} for a budget of {name}", note, tips, says)


def _once(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the ranges of one condition out of those that share them, and note that in `attrs`."""
    axes = [axis for axis in frame.columns if axis not in COLUMNS]
    places = frame.groupby(axes, sort=False, dropna=False).cumcount() if axes else range(len(frame))
    coded = frame.assign(place=places, code=pd.factorize(frame["method"])[0] + 1.0)
    return drawn_once(coded, axes, ["place"], ["from", "score", "code"]).drop(columns=["place", "code"])


def _choices(frame: pd.DataFrame) -> list[str]:
    """Return what each method is beside its algorithm, such as "participation 0.3", or that several are tied."""
    pairs = zip(frame["method"], frame["algorithm"], strict=True)
    return [
        TIED if " / " in method else method.removeprefix(algorithm).removeprefix(", ") for method, algorithm in pairs
    ]


def _shades(frame: pd.DataFrame) -> dict[str, alt.Opacity]:
    """Return the opacity channel that distinguishes the methods of one algorithm, which share its colour."""
    choices = sorted(ordered(_choices(frame)), key=lambda one: one != TIED)  # in the lightest shade
    if len(choices) < 2:
        return {}
    shades = [round(float(shade), 2) for shade in np.linspace(0.3, 1.0, len(choices))]
    scale = alt.Scale(domain=choices, range=shades)
    legend = alt.Legend(title=None, symbolType="square", symbolFillColor=SOFT, symbolStrokeWidth=0, columns=4)
    return {"opacity": alt.Opacity("choice:O", sort=choices, scale=scale, legend=legend)}


def _conditions(frame: pd.DataFrame) -> list[str]:
    axes = [axis for axis in frame.columns if axis not in (*COLUMNS, "condition") and frame[axis].nunique() > 1]
    return [condition_of({axis: str(row[axis]) for axis in axes}) or "all runs" for _, row in frame.iterrows()]


def _by_value(conditions: list[str]) -> list[str]:
    """Return conditions of one axis by its value, others as they come."""
    values = {condition.split(" ", 1)[-1]: condition for condition in conditions}
    if len(values) == len(conditions) and all(number(value) is not None for value in values):
        return [values[value] for value in ordered(values)]
    return conditions


def _table(frame: pd.DataFrame, repeats: list[str], score: str) -> str:
    axes = [axis for axis in frame.columns if axis not in COLUMNS]
    frame = frame.assign(**{axis: frame[axis].fillna("") for axis in axes})  # of a cost that is the same at every value

    def amount(name: str) -> Maker:
        return lambda row: plain(name, UNITS[row["cost"]])(row)

    columns = [
        ("budget of", lambda row: text(COSTS[row["cost"]][0])),
        ("from", amount("from")),
        ("to", lambda row: Cell("no end", LAST) if np.isinf(row["to"]) else amount("to")(row)),
        ("leads", lambda row: text(row["method"])),
        (score, plain("score", PERCENT)),
        ("next", lambda row: text(row["next"] or MISSING)),
        (score, plain("next_score", PERCENT)),
    ]
    return figures_table(frame, axes, columns, "budgets", repeats=" ".join(repeats))

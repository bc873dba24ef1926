"""One Vega-Lite description per chart, built with Altair, for the page and for paper figures alike.

Every function takes a tidy frame and returns a Vega-Lite description. Colour is the algorithm; the other axes of the
sweep make panels, unless nothing changes along them. Spread over replicates (seeds, and axes whose name ends in seed)
is one standard deviation either side of the mean, or the range of fewer than five; their number is stated. Curves are
in `score_curves`, heat maps in `heat_maps`, charts along an axis in `along`.

Not modelled: more than two axes of panels: further axes share the rows. What a click does is in `choosing`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.axes import joined, ordered, short
from analysis.charts import amounts
from analysis.charts.amounts import Amount
from analysis.charts.palette import CATEGORIES, INK, MIST, ROSE, SAND, SLATE, SOFT, TICK, UMBER
from analysis.charts.panels import colour, evenly, facet, finished, ranges_text, shape, tip, with_panels
from analysis.quantity import BYTES, ENERGY, GRAMS, PERCENT, SECONDS, many, show
from analysis.report.page import note
from analysis.statistics.constant_axes import drawn_once, left_out
from analysis.statistics.intervals import FEWEST
from analysis.statistics.spread import ends

Spec = dict[str, Any]
PARTS = {"up": SLATE, "down": MIST, "peer": SAND}
PARTS |= {"delivered": SLATE, "overhead": MIST, "cut": ROSE, "late": SAND, "discarded": UMBER}
TITLES = {"direction": "Bytes moved on the wire, by direction", "kind": "Bytes moved on the wire, by step"}
TITLES |= {"fate": "Bytes moved on the wire, by step and outcome"}
PART_NAMES = {"kind": "step", "fate": "outcome"}
TIME = "simulated time"
COSTS = {"time": (TIME, SECONDS), "moved": ("bytes moved on the wire", BYTES)}
SPENT = {**COSTS, "joules": ("energy (estimated)", ENERGY), "grams": ("CO2e (estimated)", GRAMS)}
MOST_MARKS = 1000  # of a trade-off
TARGETS = {"seconds_to_target": (TIME, SECONDS), "bytes_to_target": ("bytes moved", BYTES)}
RULES = {
    "all_periods": "A target counts on the test of all periods, arrived or not",
    "met_periods": "A target counts once all periods have arrived",
    "each_period": "A target counts on each period from its arrival; mean over periods",
}


def stacked_bytes(frame: pd.DataFrame, part: str, axes: list[str]) -> Spec:
    """Chart mean bytes as stacked bars: columns algorithm, `axes`, n, `part` (direction, kind or fate), bytes (mean),
    and the whole bar's total and total_sd.
    """
    known = set(frame[part])
    parts = ordered(known) if part == "kind" else [name for name in PARTS if name in known]
    colours = {name: PARTS.get(name, CATEGORIES[place % len(CATEGORIES)]) for place, name in enumerate(parts)}
    low, high = ends(frame, "total")
    values = ["bytes", "total", "low", "high", "n"]
    frame = drawn_once(frame.assign(low=low, high=high), axes, ["algorithm", part], values)
    across = amounts.linear([frame["total"].max()], BYTES)
    amount, place = across.of(frame["bytes"]), frame[part].map(parts.index)
    low, high = across.of(frame["low"].clip(lower=0.0)), across.of(frame["high"])
    rows = with_panels(frame.assign(amount=amount, place=place, low=low, high=high), axes)
    chart = stacked(rows, part, colours, across, "bytes on the wire")
    tips = [tip(part, PART_NAMES.get(part, part)), tip("amount", "bytes", across), tip("n", "replicates", "d")]
    of_what = ", of the whole bar" if frame["n"].max() > 1 else ""
    says = "Whole bars: " + ranges_text(rows, "total", lambda value: show(value, BYTES))
    return finished(chart, rows, TITLES[part], f"{spread_note(frame)}{of_what}", tips, says)


def lines(algorithms: list[str], **options: Any) -> alt.Y:
    """Return an upright axis with a line for each algorithm, in their order."""
    return alt.Y("algorithm:N", title=None, sort=algorithms, **options)


def line_height(rows: pd.DataFrame) -> int:
    """Return the height of a chart with a line for each algorithm."""
    return max(60, 26 * rows["algorithm"].nunique())


def stacked(rows: pd.DataFrame, part: str, colours: Mapping[str, str], across: Amount, what: str) -> dict[str, Any]:
    """Return bars of `amount` for each algorithm, stacked by `part` in the order of `place`, and a rule from `low` to
    `high`, all in the unit of `across`.
    """
    down = lines(list(rows["algorithm"].unique()))
    x = alt.X("amount:Q", stack="zero", title=across.title(what), axis=across.axis())
    tint = alt.Color(f"{part}:N", title=None, scale=alt.Scale(domain=[*colours], range=[*colours.values()]))
    bars = alt.Chart().mark_bar(height={"band": 0.7}).encode(x=x, y=down, color=tint, order="place:Q")
    rule = alt.Chart().mark_rule(strokeWidth=2, color=INK).encode(x="low:Q", x2="high:Q", y=down)
    return facet([bars, rule], rows, height=line_height(rows))


def timed(name: str, clock: str) -> str:
    """Return the name of a cost, its time called what it is: simulated, or measured where runs were deployed."""
    return f"{clock} time" if name == TIME else name


def to_target(
    frame: pd.DataFrame, value: str, axes: list[str], target: float | None, rule: str = "", clock: str = "simulated"
) -> Spec:
    """Chart when, or after how many bytes, the target was reached; what never reached it is labelled so.

    `rule` says from when the target counts.

    Columns algorithm, `axes`, n (runs), reached (runs that did), and `value` (seconds_to_target or bytes_to_target:
    mean over those that did, NaN if none, but known somewhere) with its `_sd`. `target` is None if points differ.
    """
    name, units = timed(TARGETS[value][0], clock), TARGETS[value][1]
    low, high = ends(frame, value, "reached")
    frame = drawn_once(frame.assign(low=low, high=high), axes, ["algorithm"], [value, "low", "high", "reached", "n"])
    frame = _reached_somewhere(frame, axes)
    known = frame[value].dropna()
    across = amounts.along(known, units)
    algorithms = list(frame["algorithm"].unique())
    least = known.min() / 2 if across.wide else 0.0
    low, high = across.of(frame["low"].clip(lower=least)), across.of(frame["high"])
    notes_of = [_reached(reached, runs) for reached, runs in zip(frame["reached"], frame["n"], strict=True)]
    rows = frame.assign(amount=across.of(frame[value]), low=low, high=high, note=notes_of, origin=least / across.scale)
    rows = with_panels(rows.assign(far=_far(rows["high"], across.wide)), axes)
    scale = alt.Scale(type="log", nice=False, padding=12) if across.wide else alt.Scale(zero=True)
    title = across.title(f"{name} to {goal(target)}")
    x: dict[str, Any] = {"title": title, "scale": scale, "axis": across.axis()}
    down = lines(algorithms, scale=alt.Scale(domain=algorithms))
    tint = colour(algorithms, explained=False)
    dots = alt.Chart().mark_point(filled=True, size=90, opacity=1)
    notes = alt.Chart().mark_text(align="left", dx=9, fontSize=10, color=SOFT)
    before = alt.Chart().mark_text(align="right", dx=-9, fontSize=10, color=SOFT)
    layers = [
        alt.Chart().mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **x), x2="high:Q", y=down, color=tint),
        dots.encode(x=alt.X("amount:Q", **x), y=down, color=tint, shape=shape(algorithms, explained=False)),
        notes.transform_filter("datum.amount !== null && !datum.far").encode(x="high:Q", y=down, text="note:N"),
        before.transform_filter("datum.amount !== null && datum.far").encode(x="low:Q", y=down, text="note:N"),
        notes.transform_filter("datum.amount === null").encode(x="origin:Q", y=down, text="note:N"),
    ]
    chart = facet(layers, rows, height=line_height(frame))
    tips = [tip("amount", name, across), tip("reached", "runs that reached it", "d"), tip("n", "of", "d")]
    says = ranges_text(rows, value, lambda one: show(one, units))
    title = f"{name.capitalize()} until {goal(target)} is reached"
    return finished(chart, rows, title, f"{spread_note(frame)}{rule and '. '}{rule}", tips, says)


def _reached_somewhere(frame: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return the rows at those values of each axis at which some run reached the target; `attrs` names the others."""
    nowhere = []
    for axis in axes:
        got = frame.groupby(axis, sort=False)["reached"].transform("sum") > 0
        if not got.all():
            nowhere.append(f"{short(axis)} {joined(ordered(frame.loc[~got, axis]))}")
            frame = frame[got].copy()
    return left_out(frame, f". Not reached in any run at {joined(nowhere)}") if nowhere else frame


def _far(ends: pd.Series, wide: bool) -> "pd.Series[bool]":
    """Return which marks are so far right that text fits only to their left."""
    places = pd.Series(np.log(ends) if wide else ends, index=ends.index)
    least = places.min() if wide else 0.0
    return pd.Series(places - least > 0.55 * (places.max() - least), index=ends.index)


def trade_off(
    frame: pd.DataFrame, cost: str, score: str, conditions: Sequence[str] = (), clock: str = "simulated"
) -> Spec:
    """Chart the final score against the total cost, one mark per mean over runs, and the Pareto front.

    Columns algorithm, `conditions` (axes that nobody chooses: each combination is a panel with a front of its own),
    choice (text: what a mark is beside them), score, n, `cost` (sim_seconds or bytes_moved) and frontier (bool).
    """
    name, units = {"sim_seconds": COSTS["time"], "bytes_moved": COSTS["moved"]}[cost]
    name = timed(name, clock)
    across = amounts.along(frame[cost], units)
    algorithms = list(frame["algorithm"].unique())
    rows = drawn_once(frame.assign(amount=across.of(frame[cost])), conditions, ["algorithm", "choice"], [cost, "score"])
    rows = with_panels(_fewer_marks(rows), [*conditions])
    scale = alt.Scale(type="log", nice=False, padding=12) if across.wide else alt.Scale(nice=True, padding=12)
    x = alt.X("amount:Q", title=across.title(name), scale=scale, axis=across.axis(tickCount=8))
    y = alt.Y("score:Q", title=score, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False, padding=12))
    best = alt.Chart().transform_filter("datum.frontier").mark_line(color=TICK, interpolate="step-after")
    marks = alt.Chart().mark_point(filled=True, size=60, opacity=0.9)
    layers = [best.encode(x=x, y=y), marks.encode(x=x, y=y, color=colour(algorithms), shape=shape(algorithms))]
    chart = facet(layers, rows, height=230)
    subtitle = f"Means over {replicates_text(frame)}; the line is the Pareto front"
    tips = [tip("choice", "choice"), tip("amount", name, across), tip("score", score, ".1%")]
    says = "; ".join(_front(panel) for _, panel in rows.groupby(["column", "row"], sort=False))
    return finished(chart, rows, f"{score.capitalize()} at the end against {name}", subtitle, tips, says)


def _front(panel: pd.DataFrame) -> str:
    """Return the ends of a panel's Pareto front in words."""
    front = panel[panel["frontier"].astype(bool)].sort_values("amount")
    ends = dict.fromkeys(front["choice"].iloc[[0, -1]]) if len(front) else ["nothing"]
    where = " ".join(filter(None, (panel["column"].iloc[0], panel["row"].iloc[0])))
    return f"The front {where and f'at {where} '}runs from {' to '.join(ends)}"


def _fewer_marks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return as many rows as can be distinguished: the frontier's, and an even selection of the others."""
    if len(frame) <= MOST_MARKS:
        return frame
    best = frame["frontier"].astype(bool)
    kept = [*frame.index[best], *evenly(list(frame.index[~best]), max(2, MOST_MARKS - int(best.sum())))]
    return left_out(frame.loc[sorted(kept)], f"; {len(kept)} of {len(frame)} marks are drawn, the tables have all")


def goal(target: float | None) -> str:
    """Return the target in words, without its value if points differ."""
    return "the target" if target is None else show(target, PERCENT).replace(".0 %", " %")


def _reached(reached: float, runs: float) -> str:
    if reached == runs:
        return ""
    return "not reached" if reached == 0 else f"{reached:.0f} of {runs:.0f} runs"


def replicates_text(frame: pd.DataFrame) -> str:
    """Return the number of replicates (`n`) behind a frame's rows: "3 replicates", "2 to 3 replicates"."""
    least, most = int(frame["n"].min()), int(frame["n"].max())
    return many(most, "replicate") if least == most else f"{least} to {most} replicates"


def spread_note(frame: pd.DataFrame) -> str:
    """Return the sentence that explains marks and bars."""
    least, most = int(frame["n"].min()), int(frame["n"].max())
    return note("spread", least=least, most=most, fewest=FEWEST, over=replicates_text(frame))

"""Charts of figures along one axis of the sweep: the score for equal budgets, and updates per period.

Marks are at the values that were run, and so are the ticks. Not drawn: anything between the values; the line only
guides the eye.
"""

from typing import Any

import altair as alt
import pandas as pd

from analysis.axes import logarithmic, number, ordered, short
from analysis.charts.panels import (
    MEANS,
    UNITS,
    colour,
    dash,
    each_unit,
    facet,
    finished,
    ranges_text,
    shape,
    tip,
    with_panels,
)
from analysis.charts.totals import Spec, replicates_text, spread_note
from analysis.quantity import PERCENT, show
from analysis.report.page import note
from analysis.statistics.constant_axes import drawn_once
from analysis.statistics.spread import ends

FLAT = 0.1  # shares that differ by less are drawn on a scale of this height
WIDTHS = {1: 620, 2: 380, 3: 290}


def robustness(frame: pd.DataFrame, axis: str, others: list[str], what: str) -> Spec:
    """Chart a score along an axis: columns algorithm, `others`, axis (text), x, mean, low, high (NaN: no
    interval), n, replicates (what they are), units (what the mean is of, where there is no interval); fractions.
    Intervals are drawn as far as a share can go; the table has all of them.
    """
    known = frame.dropna(subset="mean")
    rows = known.assign(y=known["mean"], low=known["low"].fillna(known["mean"]).clip(lower=0.0))
    rows = rows.assign(high=known["high"].fillna(known["mean"]).clip(upper=1.0))
    kinds = list(dict.fromkeys(known["replicates"]))
    over = kinds[0] if len(kinds) == 1 else replicates_text(known)
    few, interval = bool((known["units"].str.len() > 0).any()), bool(known["low"].notna().any())
    rows = drawn_once(rows, others, ["algorithm", axis], ["y", "low", "high"])
    algorithms = list(rows["algorithm"].unique())
    log = logarithmic(rows["x"])
    rows = with_panels(rows, others)
    texts = {number(text): text for text in rows[axis]}
    places = sorted(value for value in texts if value is not None)
    spelled = " : ".join(f"datum.value == {place!r} ? '{texts[place]}'" for place in places)
    ticks = alt.Axis(values=places, labelExpr=f"{spelled} : ''", labelOverlap=True)
    scale = alt.Scale(type="log" if log else "linear", zero=alt.Undefined if log else False, nice=False, padding=12)
    across = alt.X("x:Q", title=short(axis), axis=ticks, scale=scale)
    up: dict[str, Any] = {"title": what, "axis": alt.Axis(format="%", tickCount=6)}
    common = {"x": across, "color": colour(algorithms, symbolStrokeWidth=0, columns=6)}
    columns = rows["column"].nunique()
    layers = _joined(algorithms, common, up, alt.Scale(zero=False, **_span(rows)))
    if few:
        each = alt.Chart().transform_filter(UNITS).mark_point(filled=False, size=30, opacity=0.9)
        layers.append(each.encode(y="unit:Q", **common))
    chart = facet(layers, rows, height=260, width=WIDTHS.get(columns, 230))
    tips = [tip("at", short(axis)), tip("y", what, ".1%"), tip("low", "low", ".1%"), tip("high", "high", ".1%")]
    placed, words = each_unit(rows.assign(at=rows[axis])), note("along", over=over, few=few, interval=interval)
    says = ranges_text(rows, "y", lambda value: show(value, PERCENT))
    return finished(chart, placed, f"{what[:1].upper()}{what[1:]} against {short(axis)}", words, tips, says)


def _span(rows: pd.DataFrame) -> dict[str, Any]:
    """Return axis limits for shares that hardly differ, so that there is more than one tick; otherwise none."""
    low, high = float(rows["low"].min()), float(rows["high"].max())
    middle = (low + high) / 2
    return {} if high - low >= FLAT else {"domain": [middle - FLAT / 2, middle + FLAT / 2]}


def _joined(algorithms: list[str], common: dict[str, Any], up: dict[str, Any], scale: alt.Scale) -> list[alt.Chart]:
    """Return marks of `y` along an axis, joined by a line, with a rule from `low` to `high` at each."""
    means = alt.Chart().transform_filter(MEANS)
    line, upright = means.mark_line(strokeWidth=2, opacity=0.8), alt.Y("y:Q", scale=scale, **up)
    return [
        means.mark_rule(strokeWidth=1.5, opacity=0.6).encode(y=alt.Y("low:Q", **up), y2="high:Q", **common),
        line.encode(y=upright, strokeDash=dash(algorithms), **common),
        means.mark_point(filled=True, size=55, opacity=1).encode(y="y:Q", shape=shape(algorithms), **common),
    ]


def updates_had(frame: pd.DataFrame, axis: str, others: list[str], score: str) -> Spec:
    """Chart the updates had per period along an axis, beside the score at the end; the axis may be of names or draws.

    Columns algorithm, `axis`, `others`, updates_per_period and score (fraction) with their `_sd`, n.
    """
    values = [name for column in ("updates_per_period", "score") for name in (column, f"{column}_sd")]
    frame = drawn_once(frame, others, ["algorithm", axis], [*values, "n"])
    algorithms = list(frame["algorithm"].unique())
    sides = []
    for name, column, scale in (
        ("updates per period", "updates_per_period", 1), (f"{score} at the end (%)", "score", 100),
    ):  # fmt: skip
        low, high = ends(frame, column)
        sides.append(frame.assign(side=name, y=frame[column] * scale, low=low * scale, high=high * scale))
    rows = pd.concat(sides, ignore_index=True).dropna(subset="y")
    rows = with_panels(rows.assign(x=rows[axis]), others, "side")
    places = alt.X("x:O", sort=ordered(frame[axis]), title=short(axis), axis=alt.Axis(labelAngle=0))
    up: dict[str, Any] = {"title": None, "axis": alt.Axis(tickCount=5)}
    common = {"x": places, "color": colour(algorithms, symbolStrokeWidth=0)}
    chart = facet(_joined(algorithms, common, up, alt.Scale(zero=True)), rows, height=170, y="independent")
    tips = [tip("side", "what"), tip("x", short(axis)), tip("y", "mean", ".4~g"), tip("n", "replicates", "d")]
    says = "Updates per period: " + ranges_text(frame, "updates_per_period", lambda value: f"{value:.3g}")
    return finished(chart, rows, f"Updates per period against {short(axis)}", spread_note(frame), tips, says)

"""Draw heat maps: the score on each period as periods are learned, and a figure over two axes of the sweep.

Not drawn: values between two of an axis, and spread, which is in the tables.
"""

import altair as alt
import pandas as pd

from analysis.axes import ordered, short
from analysis.charts import amounts
from analysis.charts.palette import ABSENT, INK, ON_DARK, ON_LIGHT
from analysis.charts.panels import Chart, evenly, facet, finished, ranges_text, tip, with_panels
from analysis.charts.totals import TARGETS, Spec, goal, replicates_text, timed
from analysis.quantity import BYTES, MISSING, PERCENT, SECONDS, show
from analysis.statistics.constant_axes import drawn_once, every, flat, left_out

MOST_CELLS = 24  # along either side of a heat map


def forgetting_matrix(frame: pd.DataFrame, conditions: list[str]) -> Spec:
    """Chart A[i][j] as one heat map an algorithm: columns algorithm, condition (one of `conditions`, the first is
    drawn), learned (i), tested (j), both from 1, value, n."""
    rows = with_panels(frame.dropna(subset="value"), [], column="algorithm")
    size = max(110, 32 * int(frame["learned"].max()))
    x = alt.X("tested:O", title="tested on period", axis=alt.Axis(labelAngle=0, grid=False))
    y = alt.Y("learned:O", title="after learning period", axis=alt.Axis(grid=False))
    ends = float(rows["value"].min()), float(rows["value"].max())
    chart = facet(_cells(x, y, ends, "format(datum.value, '.0%')", "score"), rows, height=size, width=size)
    tips = [tip("learned", "learned", "d"), tip("tested", "tested", "d"), tip("value", "score", ".1%")]
    note = f"Mean over {replicates_text(frame)}. Darker is better"
    last = rows[(rows["learned"] == rows["learned"].max()) & (rows["condition"] == conditions[0])]
    says = "Scores after the last period: " + ranges_text(last, "value", lambda value: show(value, PERCENT))
    return finished(chart, rows, "Score on each period, as periods are learned", note, tips, says, conditions)


def heat(
    frame: pd.DataFrame, value: str, axes: tuple[str, str], others: list[str], target: float | None,
    score: str = "score", clock: str = "simulated",
) -> Spec:  # fmt: skip
    """Chart a figure over two numeric axes, one heat map an algorithm: columns algorithm, `axes`, `others`, value, n.

    `value` is score (which `score` names), seconds_to_target, bytes_to_target or bytes_moved; a missing one is marked.
    Of a target, a cell is grey and says "1 of 5" where not all of the n runs `reached` it: the mean of those that did
    would look fast.
    If the figure does not change along one of the axes, that side has a single cell.
    """
    names = {key: f"{timed(name, clock)} to {goal(target)}".capitalize() for key, (name, _) in TARGETS.items()}
    names |= {"score": f"{score} at the end".capitalize(), "bytes_moved": "Bytes moved on the wire"}
    figures = [value, "n", *(["reached"] if value in TARGETS else [])]
    if value in TARGETS:
        frame = frame.assign(**{value: frame[value].where(frame["reached"] == frame["n"])})
    across, down = axes
    frame = drawn_once(_fewer_cells(frame, axes), others, ["algorithm", *axes], figures)
    rows = frame.assign(x=frame[across], y=frame[down], gap=_gaps(frame) if value in TARGETS else MISSING)
    for axis, side in ((across, "x"), (down, "y")):
        others_of = ["algorithm", *(other for other in (*axes, *others) if other != axis)]
        if flat(rows, axis, others_of, figures) and frame[axis].nunique() > 1:
            rows = rows[rows[axis] == rows[axis].iloc[0]].assign(**{side: "any"})
            rows = left_out(rows, f". The same at every {every(axis, frame)}")
            break
    known = rows[value].dropna()
    fraction = value == "score"
    amount = amounts.linear(known, SECONDS if value == "seconds_to_target" else BYTES)
    rows = with_panels(rows.assign(value=rows[value] / (1.0 if fraction else amount.scale)), others, column="algorithm")
    shown = rows["value"].dropna()
    low, high = (float(shown.min()), float(shown.max())) if len(shown) else (0.0, 1.0)
    legend = score if fraction else value.split("_")[0]
    columns, lines = ordered(rows["x"].astype(str)), ordered(rows["y"].astype(str))[::-1]
    x = alt.X("x:N", sort=columns, title=short(across), axis=alt.Axis(labelAngle=0, grid=False))
    y = alt.Y("y:N", sort=lines, title=short(down), axis=alt.Axis(grid=False))
    written = "format(datum.value, '.0%')" if fraction else amount.label(plain="format(datum.value, '.3~r')")
    cells = _cells(x, y, (low, high), written, legend, reverse=not fraction)
    wide, tall = (max(110, 58 * rows[side].nunique()) for side in ("x", "y"))
    tall = 40 if rows["y"].nunique() == 1 else max(90, int(tall * 0.6))
    chart = facet(cells, rows, height=tall, width=wide)
    note = f"Mean over {replicates_text(frame)}"
    if value in TARGETS:
        note += "; grey where not all of them reached it, with how many did"
    units, scale = (PERCENT, 1.0) if fraction else (amount.units, amount.scale)
    tips = [tip("x", short(across)), tip("y", short(down)), tip("n", "replicates", "d")]
    tips += [tip("reached", "runs that reached it", "d")] if value in TARGETS else []
    tips.append(tip("value", legend, ".1%" if fraction else amount))
    says = ranges_text(rows, "value", lambda number: show(number * scale, units))
    title = names[value] if fraction else amount.title(names[value])
    return finished(chart, rows, title, f"{note}. Darker is better", tips, says)


def _gaps(frame: pd.DataFrame) -> list[str]:
    """Return what cells without a value say of a target: how many of the runs reached it, if any did."""
    pairs = zip(frame["reached"], frame["n"], strict=True)
    return [f"{reached:.0f} of {runs:.0f}" if reached else MISSING for reached, runs in pairs]


def _cells(
    x: alt.X, y: alt.Y, domain: tuple[float, float], written: str, legend: str, reverse: bool = False
) -> list[Chart]:
    low, high = domain
    middle = (low + high) / 2
    dark = f"datum.value < {middle}" if reverse else f"datum.value > {middle}"
    scale = alt.Scale(scheme="blues", domain=[low - 0.15 * (high - low), high], reverse=reverse)
    if low == high:
        scale = alt.Scale(scheme="blues", domain=[low - 1, low + 1])
    base = alt.Chart().encode(x=x, y=y)
    numbers = base.transform_filter("isValid(datum.value)")
    ink = alt.condition(dark, alt.value(ON_DARK), alt.value(ON_LIGHT))
    return [
        base.transform_filter("!isValid(datum.value)").mark_rect(color=ABSENT),
        numbers.mark_rect(stroke="white").encode(color=alt.Color("value:Q", scale=scale, title=legend, legend=None)),
        base.transform_filter("!isValid(datum.value)").mark_text(fontSize=11, color=INK).encode(text="gap:N"),
        numbers.transform_calculate(text=written).mark_text(fontSize=11).encode(text="text:N", color=ink),
    ]


def _fewer_cells(frame: pd.DataFrame, axes: tuple[str, str]) -> pd.DataFrame:
    """Return the rows of at most MOST_CELLS values of either axis, evenly over all."""
    kept = {axis: evenly(ordered(frame[axis]), MOST_CELLS) for axis in axes}
    shown = frame[frame[axes[0]].isin(kept[axes[0]]) & frame[axes[1]].isin(kept[axes[1]])].copy()
    return left_out(shown, "; some values are left out, the tables have all") if len(shown) < len(frame) else shown

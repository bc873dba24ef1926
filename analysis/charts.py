"""One description a chart, in Vega-Lite through Altair, for the page and for paper figures alike.

Every function takes a tidy frame and returns a Vega-Lite description. Colour is the algorithm; the other axes of the
sweep make panels. Spread over replicates (seeds, and axes that end so) is the mean and one standard
deviation either side, with their number stated. Charts along an axis are in `along`.

Not modelled: more than two axes of panels: further axes share the rows. What a click does is in `choosing`.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.axes import ordered, short
from analysis.panels import PALETTE, Chart, colour, dash, evenly, facet, finished, shape, tip, with_panels
from analysis.quantity import BYTES, SECONDS, unit_between, unit_for

Spec = dict[str, Any]
PARTS = {"up": "#0072B2", "down": "#56B4E9", "peer": "#009E73", "wasted": "#D55E00"}
PARTS |= {"delivered": "#0072B2", "repeated": "#56B4E9", "cut": "#D55E00", "late": "#E69F00", "discarded": "#CC79A7"}
TITLES = {"direction": "Bytes moved, by direction", "kind": "Bytes moved on the wire, by step"}
TITLES |= {"fate": "Bytes moved on the wire, by step and by what became of them"}
PART_NAMES = {"kind": "step"}
COSTS = {"time": ("simulated time", SECONDS), "moved": ("bytes moved on the wire", BYTES)}
SCORES = ("score", "am")  # more is better, unlike costs
MOST_MARKS = 1000  # of a trade-off
MOST_CELLS = 24  # along either side of a heat map
TARGETS = {"seconds_to_target": ("simulated time", SECONDS), "bytes_to_target": ("bytes moved", BYTES)}


def score_against(frame: pd.DataFrame, x: str, axes: list[str], score: str, target: float | None) -> Spec:
    """Chart mean curves: columns algorithm, `axes`, x (`time` in s or `moved` in bytes), score, low, high, n."""
    name, units = COSTS[x]
    # panels have scales of their own, so the unit suits the typical one rather than the longest
    ends = frame.groupby([*axes, "algorithm"])[x].max().clip(lower=units[-1][0])
    scale, unit = unit_for(float(np.exp(np.log(ends).mean())), units)
    algorithms = list(frame["algorithm"].unique())
    least = min(0.0, float(frame["score"].min()))
    rows = with_panels(frame.assign(x=frame[x] / scale, low=frame["low"].clip(lower=least)), axes)
    across = alt.X("x:Q", title=f"{name} ({unit})", axis=alt.Axis(tickCount=5))
    percent = alt.Axis(format="%", tickCount=5)
    line, band = (
        alt.Chart().mark_line(strokeWidth=2),
        alt.Chart().mark_area(opacity=0.18 if len(algorithms) <= 5 else 0.08),
    )
    lines = colour(algorithms, symbolType="stroke", symbolStrokeWidth=3, symbolSize=300)
    layers = [
        band.encode(x=across, y=alt.Y("low:Q", title=score, axis=percent), y2="high:Q", color=lines),
        line.encode(
            x=across,
            y=alt.Y("score:Q", title=score, axis=percent, scale=alt.Scale(zero=False)),
            color=lines,
            strokeDash=dash(algorithms),
        ),
    ]
    if target is not None:
        rule = alt.Chart().mark_rule(strokeDash=[4, 4], color="#777")
        layers.append(rule.encode(y=alt.datum(target)))
    chart = facet(layers, rows, height=170, x="independent")
    note = "" if target is None else f"; dashed: the target, {target:.0%}"
    tips = [tip("x", f"{name} ({unit})", ".3~g"), tip("score", score, ".1%"), tip("low", "low", ".1%")]
    tips += [tip("high", "high", ".1%"), tip("n", "replicates", "d")]
    return finished(chart, rows, f"{score.capitalize()} against {name}", f"{spread_note(frame)}{note}", tips)


def stacked_bytes(frame: pd.DataFrame, part: str, axes: list[str]) -> Spec:
    """Chart mean bytes as stacked bars: columns algorithm, `axes`, n, `part` (direction, kind or fate), bytes (mean),
    and the whole bar's total and total_sd. The direction `wasted` is whatever moved beyond delivered payload.
    """
    parts = ordered(frame[part]) if part == "kind" else [name for name in PARTS if name in set(frame[part])]
    colours = PALETTE if part == "kind" else [PARTS[name] for name in parts]
    scale, unit = unit_for(frame["total"].max(), BYTES)
    sd = frame["total_sd"].fillna(0.0)
    rows = frame.assign(
        amount=frame["bytes"] / scale,
        place=frame[part].map(parts.index),
        low=(frame["total"] - sd) / scale,
        high=(frame["total"] + sd) / scale,
    )
    rows = with_panels(rows, axes)
    down = alt.Y("algorithm:N", title=None, sort=list(frame["algorithm"].unique()))
    bars = (
        alt.Chart()
        .mark_bar(height={"band": 0.7})
        .encode(
            x=alt.X("amount:Q", stack="zero", title=f"bytes ({unit})", axis=alt.Axis(tickCount=5)),
            y=down,
            color=alt.Color(f"{part}:N", title=None, scale=alt.Scale(domain=parts, range=colours[: len(parts)])),
            order="place:Q",
        )
    )
    spread = alt.Chart().mark_rule(strokeWidth=2, color="#222").encode(x="low:Q", x2="high:Q", y=down)
    chart = facet([bars, spread], rows, height=_bar_height(frame))
    tips = [tip(part, PART_NAMES.get(part, part)), tip("amount", unit, ".4~g"), tip("n", "replicates", "d")]
    whole = ", of the whole bar" if frame["n"].max() > 1 else ""
    return finished(chart, rows, TITLES[part], f"{spread_note(frame)}{whole}", tips)


def to_target(frame: pd.DataFrame, value: str, axes: list[str], target: float | None) -> Spec:
    """Chart when, or for how many bytes, the target was reached; what never reached it is written out.

    Columns algorithm, `axes`, n (runs), reached (runs that did), and `value` (seconds_to_target or bytes_to_target:
    mean over those that did, NaN if none, but known somewhere) with its `_sd`. `target` is None where points differ.
    """
    name, units = TARGETS[value]
    known = frame[value].dropna()
    wide, scale, unit = unit_between(float(known.min()), float(known.max()), units)
    algorithms = list(frame["algorithm"].unique())
    sd = frame[f"{value}_sd"].fillna(0.0)
    least = known.min() / 2 if wide else 0.0
    rows = frame.assign(
        amount=frame[value] / scale,
        low=(frame[value] - sd).clip(lower=least) / scale,
        high=(frame[value] + sd) / scale,
        note=[_reached(r, n) for r, n in zip(frame["reached"], frame["n"], strict=True)],
        origin=least / scale,
    )
    rows = with_panels(rows, axes)
    axis = alt.Scale(type="log", nice=True) if wide else alt.Scale(zero=True)
    across: dict[str, Any] = {
        "title": f"{name} to {_goal(target)} ({unit})",
        "scale": axis,
        "axis": alt.Axis(tickCount=5, format="~r"),
    }
    down = alt.Y("algorithm:N", title=None, sort=algorithms, scale=alt.Scale(domain=algorithms))
    tint = colour(algorithms, explained=False)
    dots = alt.Chart().mark_point(filled=True, size=90, opacity=1)
    notes = alt.Chart().mark_text(align="left", dx=9, fontSize=10, color="#444")
    layers = [
        alt.Chart().mark_rule(strokeWidth=2).encode(
            x=alt.X("low:Q", **across), x2="high:Q", y=down, color=tint
        ),
        dots.encode(x=alt.X("amount:Q", **across), y=down, color=tint),
        notes.transform_filter("datum.amount !== null").encode(x="high:Q", y=down, text="note:N"),
        notes.transform_filter("datum.amount === null").encode(x="origin:Q", y=down, text="note:N"),
    ]  # fmt: skip
    chart = facet(layers, rows, height=_bar_height(frame))
    tips = [tip("amount", f"{name} ({unit})", ".4~g"), tip("reached", "runs that reached it", "d"), tip("n", "of", "d")]
    return finished(chart, rows, f"{name.capitalize()} until {_goal(target)} is reached", spread_note(frame), tips)


def trade_off(frame: pd.DataFrame, cost: str, score: str) -> Spec:
    """Chart the final score against its whole cost, one mark a mean over runs, and the line of those nobody beats.

    Columns algorithm, condition (text), score, n, `cost` (sim_seconds or bytes_moved) and frontier (bool).
    """
    name, units = {"sim_seconds": COSTS["time"], "bytes_moved": COSTS["moved"]}[cost]
    wide, scale, unit = unit_between(float(frame[cost].min()), float(frame[cost].max()), units)
    algorithms = list(frame["algorithm"].unique())
    rows = _fewer_marks(frame.assign(amount=frame[cost] / scale, column="", row=""))
    x = alt.X("amount:Q", title=f"{name} ({unit})", scale=alt.Scale(type="log" if wide else "linear"))
    y = alt.Y("score:Q", title=score, axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    best = alt.Chart().transform_filter("datum.frontier").mark_line(color="#999", interpolate="step-after")
    marks = alt.Chart().mark_point(filled=True, size=60, opacity=0.9)
    layers = [
        best.encode(x=x, y=y),
        marks.encode(x=x, y=y, color=colour(algorithms), shape=shape(algorithms), description="condition:N"),
    ]
    chart = facet(layers, rows, height=230)
    note = f"One mark a condition, mean over {replicates_told(frame)}; the line joins those that nobody beats on both"
    tips = [tip("condition", "where"), tip("amount", f"{name} ({unit})", ".4~g"), tip("score", score, ".1%")]
    return finished(chart, rows, f"Final {score} against {name}", note, tips)


def forgetting_matrix(frame: pd.DataFrame, where: str) -> Spec:
    """Chart A[i][j] as one heat map an algorithm: columns algorithm, learned (i), tested (j), both from 1, value, n."""
    rows = with_panels(frame.dropna(subset="value"), [], column="algorithm")
    size = max(110, 32 * int(frame["learned"].max()))
    cells = _cells(
        alt.X("tested:O", title="tested on period", axis=alt.Axis(labelAngle=0, grid=False)),
        alt.Y("learned:O", title="just learned period", axis=alt.Axis(grid=False)),
        (float(rows["value"].min()), float(rows["value"].max())),
        ".0%",
        "score",
    )
    chart = facet(cells, rows, height=size, width=size)
    tips = [tip("learned", "learned", "d"), tip("tested", "tested", "d"), tip("value", "score", ".1%")]
    note = f"{where}Mean over {replicates_told(frame)}"
    return finished(chart, rows, "Score on each period, as periods are learned", note, tips)


def heat(frame: pd.DataFrame, value: str, axes: tuple[str, str], others: list[str], target: float | None) -> Spec:
    """Chart a figure over two numeric axes, one heat map an algorithm: columns algorithm, `axes`, `others`, value, n.

    `value` is score, am, seconds_to_target, bytes_to_target or bytes_moved; where missing the cell says so.
    """
    names = {key: f"{name} to {_goal(target)}".capitalize() for key, (name, _) in TARGETS.items()}
    names |= {"score": "Final score", "am": "AM", "bytes_moved": "Bytes moved"}
    known = frame[value].dropna()
    kind = SECONDS if value == "seconds_to_target" else BYTES
    scale, unit = (1.0, "") if value in SCORES else unit_for(known.max() if len(known) else 1.0, kind)
    across, down = axes
    frame = _fewer_cells(frame, axes)
    rows = frame.assign(value=frame[value] / scale, x=frame[across], y=frame[down])
    rows = with_panels(rows, others, column="algorithm")
    low, high = (float(known.min() / scale), float(known.max() / scale)) if len(known) else (0.0, 1.0)
    legend = f"{value.split('_')[0]} ({unit})" if unit else value
    cells = _cells(
        alt.X("x:N", sort=ordered(frame[across]), title=short(across), axis=alt.Axis(labelAngle=0, grid=False)),
        alt.Y("y:N", sort=ordered(frame[down])[::-1], title=short(down), axis=alt.Axis(grid=False)),
        (low, high),
        ".0%" if value in SCORES else ".3~g",
        legend,
        reverse=value not in SCORES,
    )
    wide, tall = (max(110, 58 * frame[axis].nunique()) for axis in (across, down))
    chart = facet(cells, rows, height=max(90, int(tall * 0.6)), width=wide)
    note = f"Mean over {replicates_told(frame)}"
    if value in TARGETS:
        note += ", of those that reached it; an en dash where none did"
    tips = [tip("x", short(across)), tip("y", short(down)), tip("n", "replicates", "d")]
    tips.append(tip("value", legend, ".1%" if value in SCORES else ".4~g"))
    return finished(chart, rows, f"{names[value]}{f' ({unit})' if unit else ''}", f"{note}. Darker is better", tips)


def _cells(
    x: alt.X, y: alt.Y, domain: tuple[float, float], form: str, legend: str, reverse: bool = False
) -> list[Chart]:
    low, high = domain
    middle = (low + high) / 2
    dark = f"datum.value < {middle}" if reverse else f"datum.value > {middle}"
    scale = alt.Scale(scheme="blues", domain=[low - 0.15 * (high - low), high], reverse=reverse)
    if low == high:
        scale = alt.Scale(scheme="blues", domain=[low - 1, low + 1])
    base = alt.Chart().encode(x=x, y=y)
    written = alt.condition(f"isValid(datum.value) && {dark}", alt.value("white"), alt.value("#222"))
    return [
        base.transform_filter("!isValid(datum.value)").mark_rect(color="#eeeeee"),
        base.transform_filter("isValid(datum.value)")
        .mark_rect(stroke="white")
        .encode(color=alt.Color("value:Q", scale=scale, title=legend, legend=None)),
        base.transform_calculate(text=f"isValid(datum.value) ? format(datum.value, '{form}') : '–'")
        .mark_text(fontSize=11)
        .encode(text="text:N", color=written),
    ]


def _fewer_marks(frame: pd.DataFrame) -> pd.DataFrame:
    """Return as many rows as can be told apart: the frontier's, and of the others some, evenly over all."""
    if len(frame) <= MOST_MARKS:
        return frame
    best = frame["frontier"].astype(bool)
    kept = [*frame.index[best], *evenly(list(frame.index[~best]), max(2, MOST_MARKS - int(best.sum())))]
    shown = frame.loc[sorted(kept)]
    shown.attrs["left_out"] = f"; {len(shown)} of {len(frame)} marks are drawn, the tables have all"
    return shown


def _fewer_cells(frame: pd.DataFrame, axes: tuple[str, str]) -> pd.DataFrame:
    """Return the rows of at most MOST_CELLS values of either axis, evenly over all."""
    kept = {axis: evenly(ordered(frame[axis]), MOST_CELLS) for axis in axes}
    shown = frame[frame[axes[0]].isin(kept[axes[0]]) & frame[axes[1]].isin(kept[axes[1]])].copy()
    if len(shown) < len(frame):
        shown.attrs["left_out"] = "; some values are left out, the tables have all"
    return shown


def _bar_height(frame: pd.DataFrame) -> int:
    return max(60, 26 * frame["algorithm"].nunique())


def _goal(target: float | None) -> str:
    return "the target" if target is None else f"{target:.0%}"


def _reached(reached: float, runs: float) -> str:
    if reached == runs:
        return ""
    return "not reached" if reached == 0 else f"{reached:.0f} of {runs:.0f} runs"


def replicates_told(frame: pd.DataFrame) -> str:
    """Return of how many replicates (`n`) a frame's rows are: "3 replicates", "2 to 3 replicates"."""
    least, most = int(frame["n"].min()), int(frame["n"].max())
    return f"{most} replicate{'s' if most > 1 else ''}" if least == most else f"{least} to {most} replicates"


def spread_note(frame: pd.DataFrame) -> str:
    """Return the sentence that says what marks and bars stand for."""
    if frame["n"].max() == 1:
        return "A single replicate: no spread is known"
    return f"Mean and one standard deviation over n = {replicates_told(frame)}"

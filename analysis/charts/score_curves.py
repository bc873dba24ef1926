"""The chart of mean curves: score against time or bytes, with the arrivals of periods marked.

Each arrival is a vertical rule in the colour of its curve; with several clients or replicates that is where their mean
number of periods passes the next whole one. A score over the periods met so far is on a different test after each
arrival, so its curve is dotted until all periods have arrived. A curve of a single score is a dot.

Not modelled: anything between two scorings, where the curve is a straight line.
"""

import math

import altair as alt
import pandas as pd

from analysis.charts import amounts
from analysis.charts.amounts import Amount
from analysis.charts.palette import RULE
from analysis.charts.panels import Chart, colour, dash, facet, finished, ranges_text, share, tip, with_panels
from analysis.charts.totals import SPENT, Spec, spread_note, timed
from analysis.quantity import PERCENT, show
from analysis.report.page import note
from analysis.statistics.constant_axes import drawn_once

NEARLY = 1e-6  # of a period


def score_against(
    frame: pd.DataFrame, x: str, axes: list[str], score: str, target: float | None, *, met: bool = False,
    clock: str = "simulated",
) -> Spec:  # fmt: skip
    """Chart mean curves: columns algorithm, `axes`, x, score, low, high, n; x is `time` (s), `moved` (bytes), `joules`
    or `grams`.

    Where the frame has them, `periods` is the mean number of periods met by then and `complete` whether all have
    arrived (see spread.mean_curves). With `met` the score is over the periods met by then although there is one on a
    fixed test, on which the target counts.
    """
    name, units = timed(SPENT[x][0], clock), SPENT[x][1]
    by = [*axes, "algorithm"]
    if met:
        last = frame.groupby(by, sort=False, dropna=False)["periods"].transform("max")
        frame, target = frame.assign(complete=frame["periods"] >= last - NEARLY), None
    rows = _staged(frame, by)
    rows = drawn_once(rows, axes, ["algorithm", "place"], [x, "score", "low", "high", "n"])
    least = min(0.0, float(rows["score"].min()))
    rows = with_panels(rows.assign(low=rows["low"].clip(lower=least)), axes)
    across = amounts.linear(rows.groupby(["column", "row"])[x].max(), units)
    rows["x"] = across.of(rows[x])
    chart = facet(_layers(rows, across, name, score, target), rows, height=190, x="independent")
    what = f"{score} over the periods met so far" if met else score
    tips = [tip("x", name, across), tip("score", score, ".1%"), tip("low", "from", ".1%")]
    tips += [tip("high", "to", ".1%"), tip("n", "replicates", "d")]
    if rows["periods"].notna().any():
        tips.append(tip("periods", "periods met", ".2~f"))
    ended = rows.groupby(by, sort=False, dropna=False).tail(1)
    says = "Last scores: " + ranges_text(ended, "score", lambda value: show(value, PERCENT))
    subtitle = f"{spread_note(rows)}{_note(rows, target)}"
    return finished(chart, rows, f"{what[:1].upper()}{what[1:]} against {name}", subtitle, tips, says)


def _staged(frame: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows with `place` along their curve, `lone` (a curve's only row), `before` (not all periods have
    arrived, or the first row at which they have), `after`, and `arrives`, the period whose arrival a row marks."""
    groups = frame.groupby(by, sort=False, dropna=False)
    complete = frame["complete"].astype(bool) if "complete" in frame else pd.Series(True, index=frame.index)
    periods = frame["periods"] if "periods" in frame else pd.Series(math.nan, index=frame.index)
    reached = (periods + NEARLY).floordiv(1)
    arrives = reached.where(reached > reached.groupby([frame[name] for name in by], dropna=False).shift(1))
    earlier = complete.groupby([frame[name] for name in by], dropna=False).shift(1, fill_value=False)
    begins = complete & ~earlier.astype(bool) & (groups.cumcount() > 0)
    lone = groups["score"].transform("size") == 1
    return frame.assign(
        place=groups.cumcount(), lone=lone, before=~complete | begins, after=complete, arrives=arrives, periods=periods
    )


def _layers(rows: pd.DataFrame, across: Amount, name: str, score: str, target: float | None) -> list[Chart]:
    algorithms = list(rows["algorithm"].unique())
    x = alt.X("x:Q", title=across.title(name), axis=across.axis())
    y = share("score", score, scale=alt.Scale(zero=False))
    band_y = {"y": share("low", score), "y2": "high:Q"}
    tint = colour(algorithms, symbolType="stroke", symbolStrokeWidth=3, symbolSize=300)
    faint = 0.18 if len(algorithms) <= 5 else 0.08
    layers = [alt.Chart().mark_area(opacity=faint).encode(x=x, color=tint, **band_y)]
    if not rows["after"].all():
        dotted = alt.Chart().transform_filter("datum.before").mark_line(strokeWidth=1.6, strokeDash=[2, 3], opacity=0.8)
        layers.append(dotted.encode(x=x, y=y, color=tint))
    line = alt.Chart().transform_filter("datum.after").mark_line(strokeWidth=2)
    layers.append(line.encode(x=x, y=y, color=tint, strokeDash=dash(algorithms)))
    if rows["arrives"].notna().any():
        arrival = alt.Chart().transform_filter("datum.arrives != null")
        layers.append(arrival.mark_rule(strokeWidth=1, strokeDash=[1, 2], opacity=0.7).encode(x=x, color=tint))
    if rows["lone"].any():
        alone = alt.Chart().transform_filter("datum.lone")
        layers.append(alone.mark_rule(strokeWidth=1.5).encode(x=x, color=tint, **band_y))
        layers.append(alone.mark_point(filled=True, size=70, opacity=1).encode(x=x, y=y, color=tint))
    if target is not None:
        rule = alt.Chart().transform_filter("datum.place == 0").mark_rule(strokeDash=[4, 4], color=RULE)
        layers.append(rule.encode(y=alt.datum(target)))
    return layers


def _note(rows: pd.DataFrame, target: float | None) -> str:
    marked = rows["arrives"].notna().any()
    periods = int(rows["arrives"].max()) if marked else 0
    dotted = marked and not rows["after"].all()
    goal = "" if target is None else show(target, PERCENT)
    return note("score_curves", target=goal, periods=periods, dotted=dotted, lone=rows["lone"].any())

"""Chart a ranking: each method's mean and interval, best on top, one panel per condition.

Fewer than five replicates have no interval; each of them is then a hollow dot, from a row of its own (see
panels.each_unit).

Not drawn, but in the table: the part of an interval outside 0 to 100 %, conditions beyond the first dozen, and
paired differences.
"""

from typing import Any

import altair as alt
import pandas as pd

from analysis.axes import condition_of
from analysis.charts.panels import MEANS, UNITS, colour, each_unit, facet, finished, shape, tip
from analysis.report.page import note
from analysis.statistics.intervals import FEWEST

MOST_PANELS = 12


def forest(frame: pd.DataFrame, axes: list[str], algorithms: list[str], measure: str) -> dict[str, Any]:
    """Chart a ranking (see ranking.ranking, fractions): `algorithms` in the order of their colours."""
    known = frame.dropna(subset="mean")
    varied = [axis for axis in axes if known[axis].nunique() > 1]
    labels = [condition_of({axis: str(row[axis]) for axis in varied}) for _, row in known.iterrows()]
    conditions = list(dict.fromkeys(labels))
    rows = known.assign(column=labels, row="")
    rows = rows[rows["column"].isin(conditions[:MOST_PANELS])]
    rows = rows.assign(least=rows["low"].fillna(rows["lowest"]), most=rows["high"].fillna(rows["highest"]))
    rows = rows.assign(low=rows["low"].clip(lower=0.0), high=rows["high"].clip(upper=1.0))
    down = alt.Y("algorithm:N", title=None, sort=alt.EncodingSortField("rank", op="min"))
    few = bool((rows["units"].str.len() > 0).any())
    ticks, scale = alt.Axis(format="%", tickCount=5), alt.Scale(zero=False)
    across: dict[str, Any] = {"title": measure, "axis": ticks, "scale": scale}
    place = {"y": down, "color": colour(algorithms, explained=False)}
    ends = alt.Chart().transform_filter("isValid(datum.low)").mark_rule(strokeWidth=2)
    means = alt.Chart().transform_filter(MEANS).mark_point(filled=True, size=80, opacity=1)
    layers = [
        ends.encode(x=alt.X("low:Q", **across), x2="high:Q", **place),
        means.encode(x=alt.X("mean:Q", **across), shape=shape(algorithms, explained=False), **place),
    ]
    if few:
        each = alt.Chart().transform_filter(UNITS).mark_point(filled=False, size=36, strokeWidth=1.5, opacity=1)
        layers.append(each.encode(x=alt.X("unit:Q", **across), **place))
    tall = max(60, 22 * rows.groupby("column")["algorithm"].nunique().max())
    chart = facet(layers, each_unit(rows), height=int(tall), y="independent")
    counts = " or ".join(dict.fromkeys(rows["replicates"]))
    subtitle = note(
        "forest", few=few, interval=bool(rows["low"].notna().any()), over=counts, fewest=FEWEST,
        conditions=len(conditions), drawn=min(MOST_PANELS, len(conditions)),
    )  # fmt: skip
    tips = [tip("rank", "rank", "d"), tip("mean", measure, ".1%")]
    tips += [tip("least", "from", ".1%"), tip("most", "to", ".1%")]
    return finished(chart, each_unit(rows), f"Methods ranked by {measure}", subtitle, tips)

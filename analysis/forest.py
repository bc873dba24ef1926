"""The chart of a ranking: each method's mean and interval, best on top, one panel a condition.

Not drawn, but in the table: what of an interval lies outside of 0 to 100 %, conditions beyond the first dozen, and
paired differences.
"""

from typing import Any

import altair as alt
import pandas as pd

from analysis.panels import colour, facet, finished, shape, tip
from analysis.verdict import condition_of

MOST_PANELS = 12


def forest(frame: pd.DataFrame, axes: list[str], algorithms: list[str], measure: str) -> dict[str, Any]:
    """Chart a ranking (see ranking.ranking, fractions): `algorithms` in the order of their colours."""
    known = frame.dropna(subset="mean")
    varied = [axis for axis in axes if known[axis].nunique() > 1]
    labels = [condition_of({axis: str(row[axis]) for axis in varied}) for _, row in known.iterrows()]
    conditions = list(dict.fromkeys(labels))
    rows = known.assign(column=labels, row="")
    rows = rows[rows["column"].isin(conditions[:MOST_PANELS])]
    # an interval that is not known is drawn as none, not as a wide one
    rows = rows.assign(
        low=rows["low"].fillna(rows["mean"]).clip(lower=0.0), high=rows["high"].fillna(rows["mean"]).clip(upper=1.0)
    )
    down = alt.Y("algorithm:N", title=None, sort=alt.EncodingSortField("rank", op="min"))
    across: dict[str, Any] = {"title": f"{measure} (mean, 95 % interval)"}
    across |= {"axis": alt.Axis(format="%", tickCount=5), "scale": alt.Scale(zero=False)}
    tint = colour(algorithms, explained=False)
    layers = [
        alt.Chart().mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", **across), x2="high:Q", y=down, color=tint),
        alt.Chart().mark_point(filled=True, size=80, opacity=1).encode(
            x=alt.X("mean:Q", **across), y=down, color=tint, shape=shape(algorithms, explained=False)
        ),
    ]  # fmt: skip
    tall = max(60, 22 * rows.groupby("column")["algorithm"].nunique().max())
    chart = facet(layers, rows, height=int(tall), y="independent")
    counts = " or ".join(dict.fromkeys(rows["replicates"]))
    note = f"Mean and 95 % interval over {counts}" if (rows["n"] > 1).any() else f"{counts}: no interval is known"
    if len(conditions) > MOST_PANELS:
        note += f"; the first {MOST_PANELS} of {len(conditions)} conditions"
    tips = [tip("rank", "rank", "d"), tip("mean", measure, ".1%"), tip("low", "low", ".1%"), tip("high", "high", ".1%")]
    return finished(chart, rows, f"Methods ranked by {measure}", note, tips)

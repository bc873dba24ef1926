"""Waiting and straggling: the spread of the replies to one update, and how long the last one delays the rest.

A reply belongs to the first update that ends at or after its arrival. `spread` is the time from the first reply to the
last, `held` that from the median reply to the last: how long half of the clients wait for the slowest.

Not modelled: the server's own computing between the last reply and the update; replies that were not delivered.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis import amounts
from analysis.axes import short
from analysis.cells import figure, placed
from analysis.charts import spread_note
from analysis.communication import SERVER, stamps
from analysis.looks import INK
from analysis.panels import colour, facet, finished, ranges_text, tip, with_panels
from analysis.quantity import SECONDS, show
from analysis.sheet import part, sheet
from analysis.spread import ends, over_replicates
from analysis.unchanging import drawn_once

COLUMNS = {"round_seconds": "time per update", "spread": "first to last reply", "held": "median to last reply"}
NOTE = (
    "Means over the updates with at least two replies, then over replicates; a reply is an upload delivered to the "
    "server."
)


def replies(transfers: pd.DataFrame, updates: pd.DataFrame) -> pd.DataFrame:
    """Return one row an update with two replies or more: columns version, round_seconds, spread, held (s), replies."""
    times, versions = stamps(updates)
    came = transfers[(transfers["dst"] == SERVER) & (transfers["fate"] == "delivered")]
    arrived = np.sort(came["arrived"].to_numpy(float))
    at, begins, counts = np.unique(np.searchsorted(times, arrived, side="left"), return_index=True, return_counts=True)
    several = (counts > 1) & (at < len(times))
    at, begins, counts = at[several], begins[several], counts[several]
    last = arrived[begins + counts - 1]
    middle = (arrived[begins + (counts - 1) // 2] + arrived[begins + counts // 2]) / 2
    starts = np.concatenate([[0.0], times])
    return pd.DataFrame(
        {
            "version": versions[at],
            "round_seconds": times[at] - starts[at],
            "spread": last - arrived[begins],
            "held": last - middle,
            "replies": counts,
        }
    )


def mean_wait(transfers: pd.DataFrame, updates: pd.DataFrame) -> dict[str, float]:
    """Return the means of COLUMNS (s) over one point's updates, NaN where none had two replies."""
    found = replies(transfers, updates)[list(COLUMNS)].mean()
    return {name: float(found[name]) for name in COLUMNS}


def waiting(points: pd.DataFrame, found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `by`, n, and mean and `_sd` over replicates of COLUMNS (s); no rows where no update had two replies.

    `found` has each point's `mean_wait`, under the points' index.
    """
    rows = points[by].join(found[list(COLUMNS)])
    return over_replicates(rows.dropna(subset="spread"), by, list(COLUMNS))


def waited(frame: pd.DataFrame, axes: list[str]) -> dict[str, Any]:
    """Chart how long the last reply keeps half of the others waiting (see waiting)."""
    low, high = ends(frame, "held")
    frame = drawn_once(frame.assign(low=low, high=high), axes, ["algorithm"], ["held", "low", "high", "n"])
    rows = with_panels(frame, axes)
    across = amounts.linear([rows["high"].max()], SECONDS)
    algorithms = list(rows["algorithm"].unique())
    left_out = rows.attrs
    rows = rows.assign(
        amount=across.of(rows["held"]),
        whole=across.of(rows["round_seconds"]),
        low=across.of(rows["low"].clip(lower=0.0)),
        high=across.of(rows["high"]),
    )
    rows.attrs = left_out
    x: dict[str, Any] = {"title": across.title("waiting"), "axis": across.axis()}
    down = alt.Y("algorithm:N", title=None, sort=algorithms)
    tint = colour(algorithms, explained=False)
    layers = [
        alt.Chart().mark_bar(height={"band": 0.6}).encode(x=alt.X("amount:Q", **x), y=down, color=tint),
        alt.Chart().mark_rule(strokeWidth=2, color=INK).encode(x="low:Q", x2="high:Q", y=down),
    ]
    chart = facet(layers, rows, height=max(60, 26 * len(algorithms)))
    tips = [tip("amount", "waiting", expression=across.expression("amount"))]
    tips += [tip("whole", "whole update", expression=across.expression("whole")), tip("n", "replicates", "d")]
    says = ranges_text(frame, "held", lambda value: show(value, SECONDS))
    title = "From the median reply to the last reply of an update"
    return finished(chart, rows, title, spread_note(frame), tips, says)


def waiting_section(frame: pd.DataFrame, axes: list[str], drawing: str) -> str:
    """Return the part of the page with its drawing (see waiting)."""
    rows = [
        placed(row, [*axes, "algorithm"]) + [figure(row, name, SECONDS) for name in COLUMNS]
        for _, row in frame.iterrows()
    ]
    heads = [*map(short, axes), "algorithm", *COLUMNS.values()]
    return part("waiting", "Waiting for the slowest", drawing, sheet(heads, rows, "waiting", len(axes) + 1, NOTE))

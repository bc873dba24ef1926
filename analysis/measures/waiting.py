"""Waiting and straggling: the spread of the replies to one update, and how long the last one delays the rest.

A reply belongs to the first update that ends at or after its arrival. `spread` is the time from the first reply to the
last, `held` that from the median reply to the last: how long half of the clients wait for the slowest.

Not modelled: the server's own computing between the last reply and the update; replies that were not delivered.
"""

import math
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.charts import amounts
from analysis.charts.palette import INK
from analysis.charts.panels import colour, facet, finished, ranges_text, tip, with_panels
from analysis.charts.totals import line_height, lines, spread_note
from analysis.measures.communication import stamps
from analysis.quantity import SECONDS, show
from analysis.report.cells import figure
from analysis.report.sheet import figures_table, part
from analysis.statistics.constant_axes import drawn_once
from analysis.statistics.spread import ends, over_replicates
from fedsim.core.arrays import Floats
from fedsim.core.record import SERVER

COLUMNS = {"round_seconds": "time per update", "spread": "first to last reply", "held": "median to last reply"}


def replies(transfers: pd.DataFrame, updates: pd.DataFrame) -> dict[str, Floats]:
    """Return the columns COLUMNS (s), a row for each update with two replies or more."""
    times, _ = stamps(updates)
    came = (transfers["dst"].to_numpy() == SERVER) & (transfers["fate"] == "delivered").to_numpy(bool)
    arrived = np.sort(transfers["arrived"].to_numpy(float)[came])
    at, begins, counts = np.unique(np.searchsorted(times, arrived, side="left"), return_index=True, return_counts=True)
    several = (counts > 1) & (at < len(times))
    at, begins, counts = at[several], begins[several], counts[several]
    last = arrived[begins + counts - 1]
    middle = (arrived[begins + (counts - 1) // 2] + arrived[begins + counts // 2]) / 2
    starts = np.concatenate([[0.0], times])
    spread, held = last - arrived[begins], last - middle
    return {"round_seconds": times[at] - starts[at], "spread": spread, "held": held}


def mean_wait(transfers: pd.DataFrame, updates: pd.DataFrame) -> dict[str, float]:
    """Return the means of COLUMNS (s) over one point's updates, NaN where none had two replies."""
    found = replies(transfers, updates)
    return {name: float(values.mean()) if len(values) else math.nan for name, values in found.items()}


def waiting(points: pd.DataFrame, found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `by`, n, and mean and `_sd` over replicates of COLUMNS (s); no rows where no update had two replies.

    `found` has each point's `mean_wait`, under the points' index.
    """
    return over_replicates(points[by].join(found[list(COLUMNS)]).dropna(subset="spread"), by, list(COLUMNS))


def waited(frame: pd.DataFrame, axes: list[str]) -> dict[str, Any]:
    """Chart how long the last reply keeps half of the others waiting (see waiting)."""
    low, high = ends(frame, "held")
    frame = drawn_once(frame.assign(low=low, high=high), axes, ["algorithm"], ["held", "low", "high", "n"])
    across = amounts.linear([frame["high"].max()], SECONDS)
    low, high = across.of(frame["low"].clip(lower=0.0)), across.of(frame["high"])
    amount, update = across.of(frame["held"]), across.of(frame["round_seconds"])
    rows = with_panels(frame.assign(low=low, high=high, amount=amount, whole=update), axes)
    algorithms = list(rows["algorithm"].unique())
    down, tint = lines(algorithms), colour(algorithms, explained=False)
    x = alt.X("amount:Q", title=across.title("waiting"), axis=across.axis())
    layers = [
        alt.Chart().mark_bar(height={"band": 0.6}).encode(x=x, y=down, color=tint),
        alt.Chart().mark_rule(strokeWidth=2, color=INK).encode(x="low:Q", x2="high:Q", y=down),
    ]
    chart = facet(layers, rows, height=line_height(rows))
    tips = [tip("amount", "waiting", across), tip("whole", "whole update", across), tip("n", "replicates", "d")]
    says = ranges_text(frame, "held", lambda value: show(value, SECONDS))
    title = "From the median reply to the last reply of an update"
    return finished(chart, rows, title, spread_note(frame), tips, says)


def waiting_section(frame: pd.DataFrame, axes: list[str], drawing: str) -> str:
    """Return the part of the page with its drawing (see waiting)."""
    columns = [(head, figure(name, SECONDS)) for name, head in COLUMNS.items()]
    rows = figures_table(frame, [*axes, "algorithm"], columns, "waiting")
    return part("waiting", "Waiting for the slowest", drawing, rows)

"""Use of the server's links over simulated time, in bits per second and as a share of their capacity.

A transfer's wire bytes are spread evenly from its sending to its end, because the table does not record when they
moved; so handshakes and queues smooth the curve, and short peaks appear lower than they were. Messages between edge
aggregators and clients, or between peers, do not pass the server's links and are left out.

Not modelled: the clients' own links, whose drawn rates are not in the tables.
"""

from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis import amounts
from analysis.axes import number
from analysis.communication import SERVER
from analysis.load import lookup
from analysis.panels import colour, facet, finished, ranges_text, tip
from analysis.quantity import PERCENT, SECONDS, show

STEPS = 80  # intervals that a run is divided into
LINKS = {"ingress": "dst", "egress": "src"}  # the server's links, and the column that says whose messages they carry
RATES = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]


def moved(transfers: pd.DataFrame, edges: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the wire bytes moved between consecutive `edges` (s), each transfer's spread evenly over its duration."""
    sent, arrived = (transfers[name].to_numpy(float) for name in ("sent", "arrived"))
    # an instant transfer counts in the interval that ends at or after it
    lasts = np.maximum(arrived - sent, 1e-12)
    size = transfers["wire_bytes"].to_numpy(float)
    done = [float((np.clip((edge - sent) / lasts, 0.0, 1.0) * size).sum()) for edge in edges]
    return np.diff(done)


def link_use(transfers: pd.DataFrame, scenario: dict[str, Any]) -> pd.DataFrame:
    """Return one row a stretch and link of a run: link, time (its end, s), rate (bit/s), capacity, share (a fraction).

    `scenario` is the resolved one; capacity and share are NaN where the link has no single rate, such as none at all.
    """
    frames = []
    last = float(transfers["arrived"].max()) if len(transfers) else 0.0
    for link, end in LINKS.items():
        rows = transfers[transfers[end] == SERVER]
        if rows.empty or last <= 0:
            continue
        edges = np.linspace(0.0, last, STEPS + 1)
        rate = moved(rows, edges) * 8 / np.diff(edges)
        found = number(lookup(scenario, f"network.server.{link}"))
        capacity = np.nan if found is None else found
        frames.append(
            pd.DataFrame(
                {"link": link, "time": edges[1:], "rate": rate, "capacity": capacity, "share": rate / capacity}
            )
        )
    columns = ["link", "time", "rate", "capacity", "share"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def used(frame: pd.DataFrame, where: str) -> dict[str, Any]:
    """Chart the use of the server's links, one run an algorithm: columns algorithm and those of link_use.

    The share is drawn where every link has a capacity, else the rate.
    """
    known = bool(frame["share"].notna().all())
    ends = frame.groupby("algorithm")["time"].max()
    across, up = amounts.linear(ends, SECONDS), amounts.linear([float(frame["rate"].max())], RATES)
    rows = frame.assign(x=across.of(frame["time"]), y=frame["share"] if known else up.of(frame["rate"]))
    # a row each with its own time axis: a run of seconds would be invisible beside one of minutes
    rows = rows.assign(column="server " + frame["link"], row=frame["algorithm"])
    algorithms = list(frame["algorithm"].unique())
    title = "share of capacity" if known else up.title("rate")
    form = alt.Axis(format="~%", tickCount=5) if known else up.axis()
    line = alt.Chart().mark_line(strokeWidth=1.8, interpolate="step-before")
    tint = colour(algorithms, explained=False)
    x = alt.X("x:Q", title=across.title("simulated time"), axis=across.axis(tickCount=6))
    y = alt.Y("y:Q", title=title, axis=form)
    chart = facet([line.encode(x=x, y=y, color=tint)], rows, height=100, x="independent", y="independent")
    tips = [tip("x", "until", expression=across.expression("x"))]
    tips.append(tip("y", title, ".3~%") if known else tip("y", "rate", expression=up.expression("y")))
    peak = "share" if known else "rate"
    most = frame.groupby("algorithm", sort=False)[peak].max().reset_index()
    says = "Highest: " + ranges_text(most, peak, lambda value: show(value, PERCENT if known else RATES))
    return finished(chart, rows, "Use of the server's links", f"{where}One run per algorithm", tips, says)

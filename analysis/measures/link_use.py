"""Use of the server's links, update by update, in bits per second and as a share of their capacity.

A transfer's wire bytes are spread evenly from its sending to its end, because the table does not record when they
moved; so handshakes and queues smooth the curve, and short peaks appear lower than they were. Messages between edge
aggregators and clients, or between peers, do not pass the server's links and are left out.

The stretches are the server's updates, or several of them where there are many: stretches that do not fit to rounds
would show waves that are not there. Not modelled: the clients' own links, whose drawn rates are not in the tables.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.axes import number
from analysis.charts import amounts
from analysis.charts.panels import colour, facet, finished, ranges_text, tip
from analysis.quantity import PERCENT, SECONDS, show
from analysis.read.load import lookup
from fedsim.core.arrays import Floats
from fedsim.core.record import SERVER

MOST = 100  # stretches that a run is divided into
LINKS = {"ingress": "dst", "egress": "src"}  # the server's links, and the column that says whose messages they carry
RATES = [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s")]


def moved(transfers: pd.DataFrame, edges: Floats) -> Floats:
    """Return the wire bytes moved between consecutive `edges` (s), each transfer's spread evenly over its duration."""
    sent, arrived = (transfers[name].to_numpy(float) for name in ("sent", "arrived"))
    # an instant transfer counts in the interval that ends at or after it
    lasts = np.maximum(arrived - sent, 1e-12)
    size = transfers["wire_bytes"].to_numpy(float)
    return np.diff([float((np.clip((edge - sent) / lasts, 0.0, 1.0) * size).sum()) for edge in edges])


def link_use(transfers: pd.DataFrame, updates: pd.DataFrame, scenario: dict[str, Any]) -> pd.DataFrame:
    """Return one row a stretch and link of a run: link, begin, end (s), rate (bit/s), capacity, share (a fraction).

    A stretch ends at an update, the last one not before the end of the last transfer. `scenario` is the resolved one;
    capacity and share are NaN where the link has no single rate, such as none at all.
    """
    frames = []
    edges = stretches(updates["time"].to_numpy(float), transfers["arrived"].to_numpy(float))
    for link, side in LINKS.items():
        rows = transfers[transfers[side] == SERVER]
        if rows.empty or len(edges) < 2:
            continue
        rate = moved(rows, edges) * 8 / np.diff(edges)
        capacity = number(lookup(scenario, f"network.server.{link}")) or np.nan
        shares = {"rate": rate, "capacity": capacity, "share": rate / capacity}
        frames.append(pd.DataFrame({"link": link, "begin": edges[:-1], "end": edges[1:], **shares}))
    columns = ["link", "begin", "end", "rate", "capacity", "share"]
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def stretches(updates: Floats, arrived: Floats) -> Floats:
    """Return the ends (s) of MOST stretches at most, from 0 on: each is one update, or the same number of updates."""
    ends = np.unique(np.append(updates, arrived.max(initial=0.0)))
    ends = ends[(ends > 0) & (np.isin(ends, updates) | (ends > updates.max(initial=0.0)))]
    step = -(-len(ends) // MOST) or 1
    return np.unique(np.concatenate([[0.0], ends[step - 1 :: step], ends[-1:]]))


def used(frame: pd.DataFrame, conditions: list[str], clock: str = "simulated") -> dict[str, Any]:
    """Chart the use of the server's links, one run an algorithm: columns algorithm, condition and those of link_use.

    The share is drawn where every link has a capacity, else the rate.
    """
    known = bool(frame["share"].notna().all())
    ends = frame.groupby(["condition", "algorithm"])["end"].max()
    across, up = amounts.linear(ends, SECONDS), amounts.linear([float(frame["rate"].max())], RATES)
    begins, ends, height = across.of(frame["begin"]), across.of(frame["end"]), up.of(frame["rate"])
    rows = frame.assign(begins=begins, ends=ends, y=frame["share"] if known else height)
    rows = rows.assign(column="server " + frame["link"], row=frame["algorithm"])
    algorithms = list(frame["algorithm"].unique())
    title = "share of capacity" if known else up.title("rate")
    form = alt.Axis(format="~%", tickCount=5) if known else up.axis()
    x = alt.X("begins:Q", bin="binned", title=across.title(f"{clock} time"), axis=across.axis(tickCount=6))
    y = alt.Y("y:Q", title=title, axis=form)
    bars = alt.Chart().mark_bar(binSpacing=0).encode(x=x, x2="ends:Q", y=y, color=colour(algorithms, explained=False))
    # a row each with its own time axis: a run of seconds would be invisible beside one of minutes
    chart = facet([bars], rows, height=100, x="independent")
    tips = [tip("begins", "from", across), tip("ends", "to", across)]
    tips.append(tip("y", title, ".3~%") if known else tip("y", "rate", up))
    peak = "share" if known else "rate"
    most = frame[frame["condition"] == conditions[0]].groupby("algorithm", sort=False)[peak].max().reset_index()
    says = "Highest: " + ranges_text(most, peak, lambda value: show(value, PERCENT if known else RATES))
    note = "One run per algorithm; a bar is an update, or as many as fit"
    return finished(chart, rows, "Use of the server's links", note, tips, says, conditions)

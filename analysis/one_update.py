"""What each client does during one update: downloading, training, uploading, and waiting until the update is through.

The update is the one of median length of one run, so that it is typical; intervals that reach
beyond it are cut at its ends. A client waits from its last delivered upload to the update.

Not modelled: queueing within a transfer, which lasts from its sending to its end.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis import amounts
from analysis.looks import MIST, ROSE, SAND, SLATE, UMBER
from analysis.panels import finished, ranges_text, tip
from analysis.quantity import SECONDS, show

STRETCHES = {"download": SLATE, "train": SAND, "upload": ROSE, "waiting": MIST, "offline": UMBER}
MOST_CLIENTS = 40
NOTE = (
    "The update of median length in one run: what each client did between the previous update and this one, the last "
    "client to finish on top. Full table: tables/timeline.csv."
)


def one_update(transfers: pd.DataFrame, spans: pd.DataFrame, updates: pd.DataFrame) -> pd.DataFrame:
    """Return the stretches of the update of median length: columns version, client, what, start, end, seconds (s).

    `start` and `end` count from the update before. Clients with nothing sent or received in it are left out.
    """
    ends = updates.sort_values("time", kind="stable")
    times = ends["time"].to_numpy(float)
    lengths = np.diff(times, prepend=0.0)
    known = np.flatnonzero((lengths > 0) & (ends["folded"].to_numpy() > 0))
    if not len(known):
        return pd.DataFrame(columns=["version", "client", "what", "start", "end", "seconds"])
    at = known[np.argsort(lengths[known], kind="stable")[len(known) // 2]]
    begin, end = times[at] - lengths[at], times[at]
    moved = transfers[(transfers["arrived"] > begin) & (transfers["sent"] < end)]
    down, up = moved[moved["dst"] >= 0], moved[(moved["src"] >= 0) & (moved["dst"] < 0)]
    trained = spans[(spans["client"] >= 0) & spans["what"].isin(["train", "offline"])]
    parts = [
        pd.DataFrame({"client": down["dst"], "what": "download", "start": down["sent"], "end": down["arrived"]}),
        pd.DataFrame({"client": up["src"], "what": "upload", "start": up["sent"], "end": up["arrived"]}),
        trained[["client", "what", "start", "end"]],
    ]
    came = up[(up["fate"] == "delivered") & (up["arrived"] <= end)].groupby("src")["arrived"].max()
    parts.append(pd.DataFrame({"client": came.index, "what": "waiting", "start": came.to_numpy(), "end": end}))
    rows = pd.concat(parts, ignore_index=True)
    rows = rows[rows["client"].isin({*down["dst"], *up["src"]}) & (rows["end"] > begin) & (rows["start"] < end)]
    rows = rows.assign(start=rows["start"].clip(lower=begin) - begin, end=rows["end"].clip(upper=end) - begin)
    rows = rows.assign(seconds=rows["end"] - rows["start"], version=int(ends["version"].iloc[at]))
    lasting: pd.DataFrame = rows[rows["seconds"] > 0].reset_index(drop=True)
    return lasting


def timeline(frame: pd.DataFrame, where: str) -> dict[str, Any]:
    """Chart the stretches of one update, the client that was last through on top (see one_update)."""
    across = amounts.linear([float(frame["end"].max())], SECONDS)
    busy = frame[frame["what"] != "waiting"].groupby("client")["end"].max().sort_values(ascending=False, kind="stable")
    names = [f"client {client}" for client in busy.index]
    step = max(1, -(-len(names) // MOST_CLIENTS))
    kept = names[::step]
    rows = frame.assign(who=[f"client {client}" for client in frame["client"]])
    rows = rows[rows["who"].isin(kept)]
    rows = rows.assign(begins=across.of(rows["start"]), ends=across.of(rows["end"]), lasts=across.of(rows["seconds"]))
    there = [what for what in STRETCHES if what in set(rows["what"])]
    tint = alt.Color(
        "what:N",
        scale=alt.Scale(domain=there, range=[STRETCHES[what] for what in there]),
        legend=alt.Legend(title=None),
    )
    bars = alt.Chart(alt.NamedData(name="rows")).mark_bar(height={"band": 0.8})
    chart = bars.encode(
        x=alt.X(
            "begins:Q", title=across.title("simulated time since the previous update"), axis=across.axis(tickCount=8)
        ),
        x2="ends:Q",
        y=alt.Y("who:N", sort=kept, title=None),
        color=tint,
    ).properties(width=620, height=max(80, 15 * len(kept)))
    shown = "" if step == 1 else f"; {len(kept)} of {len(names)} clients"
    note = f"{where}Update {int(frame['version'].iloc[0])}, of median length{shown}"
    tips = [tip("who", "client"), tip("what", "what"), tip("begins", "from", expression=across.expression("begins"))]
    tips += [
        tip("ends", "to", expression=across.expression("ends")),
        tip("lasts", "duration", expression=across.expression("lasts")),
    ]
    totals = frame.groupby("what", sort=False)["seconds"].mean().reset_index()
    says = "Mean duration: " + ranges_text(totals, "seconds", lambda value: show(value, SECONDS), by="what")
    return finished(chart, rows, "One update, client by client", note, tips, says)

"""What each client does during one update: downloading, training, uploading, and waiting until the update is through.

The update is the one of median length of one run, so that it is typical; intervals that reach
beyond it are cut at its ends. A client waits from its last delivered upload to the update.

Not modelled: queueing within a transfer, which lasts from its sending to its end.
"""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from analysis.charts import amounts
from analysis.charts.palette import MIST, ROSE, SAND, SLATE, UMBER
from analysis.charts.panels import finished, ranges_text, tip
from analysis.quantity import SECONDS, show

STRETCHES = {"download": SLATE, "train": SAND, "upload": ROSE, "waiting": MIST, "offline": UMBER}
MOST_CLIENTS = 40


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


def timeline(frame: pd.DataFrame, choices: list[str], clock: str = "simulated") -> dict[str, Any]:
    """Chart the stretches of one update, the client that was last through on top (see one_update).

    `frame` has a column `condition`, one of `choices`: which run it is of.
    """
    across = amounts.linear(frame.groupby("condition")["end"].max(), SECONDS)
    one = ["condition", "client"]
    busy = frame.loc[frame["what"] != "waiting"].groupby(one)["end"].max().rename("busy").reset_index()
    order = busy.sort_values(["condition", "busy"], ascending=False, kind="stable")
    place, count = order.groupby("condition").cumcount(), order.groupby("condition")["client"].transform("size")
    kept = order[place % -(-count // MOST_CLIENTS) == 0]
    rows = frame.merge(kept, on=one)
    begins, ends, lasts = (across.of(rows[name]) for name in ("start", "end", "seconds"))
    rows = rows.assign(who="client " + rows["client"].astype(str), begins=begins, ends=ends, lasts=lasts)
    known = {what: tint for what, tint in STRETCHES.items() if what in set(rows["what"])}
    title = across.title(f"{clock} time since the previous update")
    chart = alt.Chart(alt.NamedData(name="rows")).mark_bar(height={"band": 0.8}).encode(
        x=alt.X("begins:Q", title=title, axis=across.axis(tickCount=8)), x2="ends:Q",
        y=alt.Y("who:N", sort=alt.EncodingSortField("busy", op="max", order="descending"), title=None),
        color=alt.Color("what:N", title=None, scale=alt.Scale(domain=[*known], range=[*known.values()])),
    ).properties(width=620, height=alt.Step(15))  # fmt: skip
    shown = f"; at most {MOST_CLIENTS} clients, evenly chosen" if len(kept) < len(busy) else ""
    tips = [tip("who", "client"), tip("what", "what"), tip("begins", "from", across), tip("ends", "to", across)]
    tips += [tip("lasts", "duration", across), tip("version", "update", "d")]
    first = frame[frame["condition"] == choices[0]]
    totals = first.groupby("what", sort=False)["seconds"].mean().reset_index()
    says = "Mean duration: " + ranges_text(totals, "seconds", lambda value: show(value, SECONDS), by="what")
    subtitle = f"The update of median length{shown}"
    return finished(chart, rows, "One update, client by client", subtitle, tips, says, choices)

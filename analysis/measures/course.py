"""A point's named curves: each of its scores, and the bytes moved.

A curve's name is metric/model/split.  A score is over the periods met by then, on a test that grows with every arrival,
except the split all_periods, whose test never changes.  Times are simulated seconds, bytes wire bytes
of all directions.
"""

import pandas as pd

from analysis.measures.communication import moved_by
from analysis.measures.frontier import ALL_PERIODS, curve, over_all_periods, with_bytes
from analysis.read.stored import Tables

MOVED = "bytes moved"


def course(tables: Tables) -> dict[str, pd.DataFrame]:
    """Return curves by name, each with the columns time (s), moved (bytes) and value, in order of time."""
    scores, moved = tables["scores"], tables["transfers"]
    found = {}
    for metric, model, split in scores[["metric", "model", "split"]].drop_duplicates().itertuples(index=False):
        if split == ALL_PERIODS:
            rows = with_bytes(over_all_periods(scores, model, metric), moved).rename(columns={"whole": "value"})
        else:
            rows = curve(scores, moved, model, metric, split).dropna(subset="met").rename(columns={"met": "value"})
        found[f"{metric}/{model}/{split}"] = rows[["time", "moved", "value"]]
    times = tables["updates"]["time"]
    sums = moved_by(moved, times)
    found[MOVED] = pd.DataFrame({"time": times.to_numpy(float), "moved": sums, "value": sums.astype(float)})
    return {name: rows for name, rows in found.items() if len(rows)}


def milliseconds(seconds: float) -> int:
    """Return simulated seconds as whole milliseconds, the steps of curves by time."""
    return round(seconds * 1000)

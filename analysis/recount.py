"""Recount the targets of older runs, whose summary counted them on incomplete scores too.

Such a summary has no column `target_on`, and its cost of a target is that of the first score over the periods met so
far, which is a different question. The figures are recomputed from the tables.
Not modelled: targets on each period, which those runs could not ask for.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.frontier import curve, reach
from analysis.stored import tables

COUNTED = ["periods", "seconds_to_target", "bytes_to_target", "periods_at_target"]


def recounted(points: pd.DataFrame, folders: Mapping[str, Path]) -> pd.DataFrame:
    """Return the points with COUNTED and `target_on` as current runs have them; `folders` are of finished points."""
    old = points[points["target"].notna() & (points["target_on"] == "") & points["point"].isin([*folders])]
    if old.empty:
        return points
    rows = []
    for point in old.to_dict("records"):
        found = tables(folders[point["point"]])
        head = point["scored_model"], point["metric"], point["scored_split"]
        course = curve(found["scores"], found["transfers"], *head)
        reached = reach(course, point["target"]) or (np.nan, np.nan, np.nan)
        rows.append([course["periods"].iloc[-1] if len(course) else np.nan, *reached])
    new = points.copy()
    new.loc[old.index, COUNTED] = np.array(rows, float)
    new.loc[old.index, "target_on"] = "all_periods"
    return new

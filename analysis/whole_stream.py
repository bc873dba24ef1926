"""Targets on all periods: when the last period arrives, and what a test on all periods shows before that.

A score over the periods met so far is complete once all have arrived (see frontier); the split all_periods tests on all
of them from the start, so that its target can be reached earlier.
"""

from collections.abc import Sequence

import pandas as pd

from analysis.contest import contest
from analysis.wording import TIME, except_where

SECONDS = "seconds_whole"


def last_arrival(curves: pd.DataFrame) -> str:
    """Return which update brings the last period, if it is the same in all runs; "" for a single period."""
    done = curves[curves["complete"].astype(bool)]
    first = done.groupby("point")["version"].min()
    if first.empty or first.nunique() > 1 or first.iloc[0] < 1 or curves["periods"].max() < 1.5:
        return ""
    return (
        f"All {curves['periods'].max():g} periods have arrived by update {first.iloc[0]:.0f}, and no earlier score "
        "counts towards the target."
    )


def seconds_whole(points: pd.DataFrame, curves: pd.DataFrame) -> pd.Series:
    """Return when each point's score over all periods, arrived or not, was first at its target; NaN if never."""
    goals = curves["point"].map(points.set_index("point")["target"])
    hits = curves[curves["whole"] >= goals]
    return points["point"].map(hits.groupby("point")["time"].min())


def from_the_start(points: pd.DataFrame, curves: pd.DataFrame, who: str, axes: Sequence[str]) -> str:
    """Return who is first by the score over all periods from the start; "" if it was not scored everywhere."""
    if (
        set(points["target_on"]) != {"all_periods"}
        or curves.empty
        or curves["whole"].isna().any()
        or curves["periods"].max() < 1.5
    ):
        return ""
    found = contest(points.assign(**{SECONDS: seconds_whole(points, curves)}), [*axes], who, SECONDS, least=True)
    if all(one.kind in ("alone", "none") for one in found):
        return ""
    return except_where(found, contest(points, [*axes], who, "seconds_to_target", least=True), TIME)

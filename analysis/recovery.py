"""How long after an arrival the score over what has been met is at the target again: a continual learner's view.

The score over the periods met falls when a new one arrives, because its test then holds something that was never
trained on. Clocked from each arrival to the first scoring after it at which that score is at the target, whatever else
has arrived by then. What arrives at second 0 is left out, so data that are all there from the start have no figures;
of a method that learns nothing, every arrival is never recovered from.

Arrivals of one moment at several clients are one. Not modelled: how far the score falls; see `forgetting`.
"""

from typing import NamedTuple

import pandas as pd


class Recovery(NamedTuple):
    """Arrivals after second 0: how many, the mean seconds to the target of those recovered from (None if there are
    none), how many of these took one scoring only, and how many were never recovered from.
    """

    arrivals: int
    seconds: float | None
    at_first: int
    never: int


def recovery(points: pd.DataFrame, arrivals: pd.DataFrame, target: float) -> Recovery | None:
    """Return the recovery of one run from its curve (see frontier.curve) and its table of arrivals; None without any.

    Arrivals after the last scoring do not count.
    """
    known = points.dropna(subset="met")
    moments = arrivals.loc[arrivals["time"] > 0, ["time", "version"]].drop_duplicates()
    took, at_first, never = [], 0, 0
    for time, version in moments.itertuples(index=False):
        # a scoring of the same moment and version was taken before what arrived then
        later = known[(known["time"] > time) | ((known["time"] == time) & (known["version"] > version))]
        there = (later["met"] >= target).to_numpy()
        if there.any():
            took.append(float(later["time"].iloc[there.argmax()]) - time)
            at_first += int(there[0])
        else:
            never += len(later) > 0
    if not took and not never:
        return None
    return Recovery(len(took) + never, sum(took) / len(took) if took else None, at_first, never)

"""Scores on data at its arrival, the updates that each period was given, and how soon the score recovers.

A prequential score is that of a period on its arrival at a client, by the models of that moment, before any training
on it (Gama, Sebastiao and Rodrigues, Machine Learning 90, 2013); rows of the scores table with period >= seen.

The score over the periods met falls when a new one arrives, because its test then holds something that was never
trained on. Recovery is clocked from each arrival to the first scoring after it at which that score is at the target,
whatever else has arrived by then. What arrives at second 0 is left out, so data that are all there from the start have
no figures; of a method that learns nothing, every arrival is never recovered from. Arrivals of one moment at several
clients are one.

Not modelled: fading or windows (every arrival is weighted by its size alone, however long ago it was), and how far the
score falls; see `forgetting`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.measures.forgetting import pooled


def foreseen(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return the score on each period at its arrivals, pooled over clients: columns `by`, period, value.

    `rows` are those of one headline (see forgetting.headline). Data that arrives at second 0 is left out:
    its score would be the initial model's. So a run with a single period from the start has none.
    """
    return pooled(rows[(rows["period"] >= rows["seen"]) & (rows["time"] > 0)], [*by, "period"])


def prequential(rows: pd.DataFrame) -> float | None:
    """Return the mean over periods of `foreseen`, a fraction; None if there are none."""
    periods = foreseen(rows)
    return float(periods["value"].mean()) if len(periods) else None


def updates_had(arrivals: pd.DataFrame, updates: pd.DataFrame) -> pd.DataFrame:
    """Return one row per arrival: columns client, period, updates (the server's until the client's next arrival).

    For a client's last period, updates count until the end of the run.
    """
    client, period, version, time = (arrivals[name].to_numpy() for name in ("client", "period", "version", "time"))
    order = np.lexsort((period, time, client))
    client, period, version = client[order], period[order], version[order].astype(np.int64)
    end = int(updates["version"].max()) if len(updates) else 0
    last = np.append(client[1:] != client[:-1], True)[: len(client)]
    following = np.where(last, end, np.append(version[1:], end)[: len(client)])
    return pd.DataFrame({"client": client, "period": period, "updates": np.maximum(following - version, 0)})


def updates_per_period(arrivals: pd.DataFrame, updates: pd.DataFrame) -> float | None:
    """Return the mean of `updates_had` over all arrivals; None if nothing arrived."""
    had = updates_had(arrivals, updates)["updates"]
    return float(had.mean()) if len(had) else None


def staleness(updates: pd.DataFrame) -> float | None:
    """Return the mean number of versions by which folded replies were behind; None if none was folded."""
    known = updates[updates["staleness"].notna()]
    folded = known["folded"].sum()
    return float((known["staleness"] * known["folded"]).sum() / folded) if folded else None


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
    times, versions, met = (points[name].to_numpy() for name in ("time", "version", "met"))
    known = np.isfinite(met.astype(float))
    came = arrivals["time"].to_numpy()
    moments = dict.fromkeys(
        zip(came[came > 0].tolist(), arrivals["version"].to_numpy()[came > 0].tolist(), strict=True)
    )
    took, at_first, never = [], 0, 0
    for time, version in moments:
        # a scoring of the same moment and version was taken before what arrived then
        later = np.flatnonzero(known & ((times > time) | ((times == time) & (versions > version))))
        there = met[later] >= target
        if there.any():
            took.append(float(times[later[there.argmax()]]) - time)
            at_first += int(there[0])
        else:
            never += len(later) > 0
    if not took and not never:
        return None
    return Recovery(len(took) + never, sum(took) / len(took) if took else None, at_first, never)

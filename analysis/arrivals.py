"""Scores on data at its arrival, before training on it, and the number of updates that each period was given.

A prequential score is that of a period on its arrival at a client, by the models of that moment, before any training
on it (Gama, Sebastiao and Rodrigues, Machine Learning 90, 2013); rows of the scores table with period >= seen.

Not modelled: fading or windows. Every arrival is weighted by its size alone, however long ago it was.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.forgetting import headline, pooled


def prequential_scores(scores: pd.DataFrame, model: str, metric: str = "accuracy", split: str = "test") -> pd.DataFrame:
    """Return the score on each period at its arrivals, pooled over clients: columns period, value.

    Data that arrives at second 0 is left out: its score would be the initial model's. So a run with a single period
    from the start has none.
    """
    return foreseen(headline(scores, model, metric, split))


def foreseen(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return scores on arrival (see prequential_scores) of the rows of one model, metric and split, grouped by `by`."""
    return pooled(rows[(rows["period"] >= rows["seen"]) & (rows["time"] > 0)], [*by, "period"])


def prequential(scores: pd.DataFrame, model: str, metric: str = "accuracy", split: str = "test") -> float | None:
    """Return the mean over periods of `prequential_scores`, a fraction; None if there are none."""
    periods = prequential_scores(scores, model, metric, split)
    return float(periods["value"].mean()) if len(periods) else None


def updates_had(arrivals: pd.DataFrame, updates: pd.DataFrame) -> pd.DataFrame:
    """Return one row per arrival: columns client, period, updates (the server's until the client's next arrival).

    For a client's last period, updates count until the end of the run.
    """
    rows = arrivals.sort_values(["client", "time", "period"], kind="stable").reset_index(drop=True)
    end = int(updates["version"].max()) if len(updates) else 0
    following = rows.groupby("client")["version"].shift(-1).fillna(end).astype(np.int64)
    return rows[["client", "period"]].assign(updates=np.maximum(following - rows["version"], 0))


def updates_per_period(arrivals: pd.DataFrame, updates: pd.DataFrame) -> float | None:
    """Return the mean of `updates_had` over all arrivals; None if nothing arrived."""
    had = updates_had(arrivals, updates)["updates"]
    return float(had.mean()) if len(had) else None


def staleness(updates: pd.DataFrame) -> float | None:
    """Return the mean number of versions by which folded replies were behind; None if none was folded."""
    known = updates[updates["staleness"].notna()]
    folded = known["folded"].sum()
    return float((known["staleness"] * known["folded"]).sum() / folded) if folded else None

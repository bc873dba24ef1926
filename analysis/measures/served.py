"""Who is served: how even scores are among clients, and how evenly clients took part.

Jain's index of x over n clients is (sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has everything (Jain,
Chiu and Hawe, DEC technical report 301, 1984).  A client's score is the last on each of its periods, their mean by
`weight`; it takes part with every upload that was delivered, and all clients count that have received data.  Which
classes clients hold is in no table, so that `covered` is known only where a point has just run.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.measures.communication import stamps, uploads
from analysis.measures.forgetting import latest, of_clients, pooled
from fedsim.core.arrays import Floats

WORST = 0.1  # the share of clients behind `worst_decile`
PLACES = np.linspace(0.0, 1.0, 21)  # shares of the clients at which distributions over them are kept


def served(rows: pd.DataFrame, transfers: pd.DataFrame, arrivals: pd.DataFrame) -> dict[str, float | None]:
    """Return worst_decile, score_jain, took_part and upload_jain; None where nothing says.

    `worst_decile` is the mean score of the worst tenth of the clients (rounded up), `took_part` the share of clients
    with a delivered upload, `score_jain` and `upload_jain` are the indices of scores and of delivered
    uploads; `rows` are those that count (see forgetting.usable).
    """
    own = np.sort(last_scores(rows)["value"].to_numpy(float))
    worst = own[: math.ceil(WORST * len(own) - 1e-9)]
    counts = counted(uploads(transfers), arrivals)
    return {
        "worst_decile": float(worst.mean()) if len(worst) else None,
        "score_jain": jain(own),
        "took_part": float((counts > 0).mean()) if counts.any() else None,
        "upload_jain": jain(counts),
    }


def covered(held: Any, transfers: pd.DataFrame) -> float | None:
    """Return the share of a class's training nodes that clients hold which took part, mean over the classes.

    `held` (K, C) counts the nodes of each class that each client trains on; None for a single class.
    """
    whole = held.sum(axis=0)
    own = held[np.unique(uploads(transfers)["src"])].sum(axis=0)
    return float((own[whole > 0] / whole[whole > 0]).mean()) if len(whole) > 1 and whole.any() else None


def among(tables: Mapping[str, pd.DataFrame], own: Floats) -> dict[str, tuple[Floats, Floats]]:
    """Return a point's distributions, with `own` its clients' last scores (see last_scores): places, and values there.

    For `score` and `uploads` clients are in ascending order and a place is a share of them: the value is the score of
    the client there, or the share that all up to there have of the delivered uploads (Lorenz's curve).  For `behind` it
    is the share of delivered uploads that were aggregated so many versions late, for `took` the share of clients that
    had taken part by that share of the run's last delivered upload.
    """
    parts = {"score": (PLACES, np.quantile(own, PLACES))} if len(own) else {}
    came = uploads(tables["transfers"])
    if len(came) and len(tables["arrivals"]):
        counts = np.sort(counted(came, tables["arrivals"]))
        if counts.any():
            shares = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
            parts["uploads"] = PLACES, np.interp(PLACES * len(counts), np.arange(len(shares)), shares)
            arrived, source = came["arrived"].to_numpy(float), came["src"].to_numpy()
            order = np.argsort(arrived, kind="stable")
            first = np.sort(arrived[order][np.unique(source[order], return_index=True)[1]])
            parts["took"] = PLACES, np.searchsorted(first, PLACES * arrived.max(), side="right") / len(counts)
    late = behind(came, tables["updates"])
    if len(late):
        versions, times = np.unique(late, return_counts=True)
        parts["behind"] = versions.astype(float), times / len(late)
    return parts


def behind(came: pd.DataFrame, updates: pd.DataFrame) -> Any:
    """Return by how many versions delivered uploads were behind the server's when it next updated.

    That is the update at which an upload is aggregated, unless a protocol puts it off; those after the last are left
    out.
    """
    times, versions = stamps(updates)
    at = np.searchsorted(times, came["arrived"].to_numpy(float), side="left")
    return np.maximum(0, np.concatenate([[0], versions])[at] - came["version"].to_numpy(int))[at < len(times)]


def last_scores(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return each client's last score, of the rows that count (see forgetting.usable): columns `by`, client, value."""
    return pooled(latest(of_clients(rows), by, ["client", "period"]), [*by, "client"])


def counted(came: pd.DataFrame, arrivals: pd.DataFrame) -> Floats:
    """Return how many of these uploads (K,) are of each client that has received data."""
    clients = np.unique(arrivals["client"].to_numpy())
    return np.asarray(came["src"].value_counts().reindex(clients, fill_value=0), dtype=float)


def jain(values: Any) -> float | None:
    """Return Jain's index of values that are not negative; None without any, or if all are 0."""
    squares = len(values) * float(np.square(values).sum())
    return float(values.sum()) ** 2 / squares if squares else None

"""Who is served: how even scores are among clients, and how evenly clients took part.

Jain's index of x over n clients is (sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has everything (Jain,
Chiu and Hawe, DEC technical report 301, 1984).  A client's score is the last on each of its periods, their mean by
`weight`; it takes part with every upload that was delivered, and all clients count that have received data.  Which
classes clients hold is in no table, so that `covered` is known only where a point has just run.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.communication import stamps, uploads
from analysis.forgetting import of_clients, pooled, usable

WORST = 0.1  # the share of clients behind `worst_decile`
PLACES = np.linspace(0.0, 1.0, 21)  # shares of the clients at which distributions over them are kept


def served(
    scores: pd.DataFrame, transfers: pd.DataFrame, arrivals: pd.DataFrame | None, model: str, metric: str, split: str
) -> dict[str, float | None]:
    """Return worst_decile, score_jain, took_part and upload_jain; None where nothing says.

    `worst_decile` is the mean score of the worst tenth of the clients (rounded up), `took_part` the share of clients
    with a delivered upload, `score_jain` and `upload_jain` are the indices of scores and of delivered uploads.
    """
    own = np.sort(client_scores(scores, model, metric, split)["value"].to_numpy(float))
    worst = own[: math.ceil(WORST * len(own) - 1e-9)]
    counts = None if arrivals is None else counted(uploads(transfers), arrivals)
    return {
        "worst_decile": float(worst.mean()) if len(worst) else None,
        "score_jain": jain(own),
        "took_part": float((counts > 0).mean()) if counts is not None and len(counts) and counts.any() else None,
        "upload_jain": None if counts is None else jain(counts),
    }


def covered(held: Any, transfers: pd.DataFrame) -> float | None:
    """Return the share of a class's examples that clients hold which took part, mean over the classes.

    `held` (K, C) counts the examples of each class that each client trains on; None for a single class.
    """
    whole = held.sum(axis=0)
    own = held[np.unique(uploads(transfers)["src"])].sum(axis=0)
    return float((own[whole > 0] / whole[whole > 0]).mean()) if len(whole) > 1 and whole.any() else None


def among(tables: Mapping[str, pd.DataFrame], model: str, metric: str, split: str) -> pd.DataFrame:
    """Return distributions of a point: columns what, at, value.

    For `score` and `uploads` clients are in ascending order and `at` is a share of them: the value is the score of the
    client there, or the share that all up to there have of the delivered uploads (Lorenz's curve).  For `behind` it is
    the share of delivered uploads that were aggregated `at` versions late, for `took` the share of clients that had
    taken part by the share `at` of the run's last delivered upload.
    """
    own = np.sort(client_scores(tables["scores"], model, metric, split)["value"].to_numpy(float))
    parts = [_part("score", PLACES, np.quantile(own, PLACES))] if len(own) else []
    came = uploads(tables["transfers"])
    if len(came) and len(tables["arrivals"]):
        counts = np.sort(counted(came, tables["arrivals"]))
        if counts.any():
            shares = np.concatenate([[0.0], np.cumsum(counts) / counts.sum()])
            parts.append(_part("uploads", PLACES, np.interp(PLACES * len(counts), np.arange(len(shares)), shares)))
            first = np.sort(came.groupby("src")["arrived"].min().to_numpy(float))
            by_then = np.searchsorted(first, PLACES * came["arrived"].max(), side="right")
            parts.append(_part("took", PLACES, by_then / len(counts)))
    late = behind(came, tables["updates"])
    if len(late):
        versions, counts = np.unique(late, return_counts=True)
        parts.append(_part("behind", versions, counts / len(late)))
    return pd.concat(parts, ignore_index=True) if parts else _part("score", [], [])


def behind(came: pd.DataFrame, updates: pd.DataFrame) -> Any:
    """Return by how many versions delivered uploads were behind the server's when it next updated.

    That is the update at which an upload is aggregated, unless a protocol puts it off; those after the last are left
    out.
    """
    times, versions = stamps(updates)
    at = np.searchsorted(times, came["arrived"].to_numpy(float), side="left")
    before = np.concatenate([[0], versions])
    return np.maximum(0, before[at] - came["version"].to_numpy(int))[at < len(times)]


def _part(what: str, at: Any, value: Any) -> pd.DataFrame:
    return pd.DataFrame({"what": what, "at": np.asarray(at, float), "value": np.asarray(value, float)})


def client_scores(scores: pd.DataFrame, model: str, metric: str, split: str) -> pd.DataFrame:
    """Return each client's last score: columns client, value."""
    ordered = of_clients(usable(scores, model, metric, split)).sort_values(["time", "version"], kind="stable")
    return pooled(ordered.groupby(["client", "period"]).tail(1), ["client"])


def counted(came: pd.DataFrame, arrivals: pd.DataFrame) -> Any:
    """Return how many of these uploads (K,) are of each client that has received data."""
    return came["src"].value_counts().reindex(np.unique(arrivals["client"]), fill_value=0).to_numpy(float)


def jain(values: Any) -> float | None:
    """Return Jain's index of values that are not negative; None without any, or if all are 0."""
    squares = len(values) * float(np.square(values).sum())
    return float(values.sum()) ** 2 / squares if squares else None

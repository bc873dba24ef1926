"""Who is served: how even scores are among clients, and how evenly clients took part.

Jain's index of x over n clients is (sum x)^2 / (n sum x^2): 1 if all have the same, 1/n if one has everything (Jain,
Chiu and Hawe, DEC technical report 301, 1984).  A client's score is the last on each of its periods, pooled by
`weight`; it takes part with every upload that was delivered, and all clients count that have received data.  Not
modelled: which classes those hold that took part, which no table says.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from analysis.forgetting import pooled, usable

WORST = 0.1  # the share of clients behind `worst_decile`


def served(
    scores: pd.DataFrame, transfers: pd.DataFrame, arrivals: pd.DataFrame | None, model: str, metric: str, split: str
) -> dict[str, float | None]:
    """Return worst_decile, score_jain, took_part and upload_jain; None where nothing says.

    `worst_decile` is the mean score of the worst tenth of the clients (rounded up), `took_part` the share of clients
    with a delivered upload, `score_jain` and `upload_jain` are the indices of scores and of delivered uploads.
    """
    own = np.sort(client_scores(scores, model, metric, split)["value"].to_numpy(float))
    worst = own[: math.ceil(WORST * len(own) - 1e-9)]
    counts = None if arrivals is None else uploads(transfers, arrivals)
    return {
        "worst_decile": float(worst.mean()) if len(worst) else None,
        "score_jain": jain(own),
        "took_part": float((counts > 0).mean()) if counts is not None and len(counts) and counts.any() else None,
        "upload_jain": None if counts is None else jain(counts),
    }


def client_scores(scores: pd.DataFrame, model: str, metric: str, split: str) -> pd.DataFrame:
    """Return each client's last score: columns client, value."""
    ordered = usable(scores, model, metric, split).sort_values(["time", "version"], kind="stable")
    return pooled(ordered.groupby(["client", "period"]).tail(1), ["client"])


def uploads(transfers: pd.DataFrame, arrivals: pd.DataFrame) -> Any:
    """Return the delivered uploads (K,) of each client that has received data."""
    came = (transfers["src"] >= 0) & (transfers["dst"] < 0) & (transfers["fate"] == "delivered")
    counts = transfers.loc[came, "src"].value_counts()
    return counts.reindex(np.unique(arrivals["client"]), fill_value=0).to_numpy(float)


def jain(values: Any) -> float | None:
    """Return Jain's index of values that are not negative; None without any, or if all are 0."""
    squares = len(values) * float(np.square(values).sum())
    return float(values.sum()) ** 2 / squares if squares else None

"""Match uploads with the updates that folded them, from the tables of transfers and updates.

Replies are folded in the order of their arrival, so the delivered uploads of a step are assigned to its updates, as
many to each as it has folded; what edge aggregators send is folded by the next update.  Where the numbers do not add up
there is no arrow, nor between peers, which fold locally.

Not modelled: which of several uploads at one instant came first, if an update is between them.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from analysis.communication import SERVER


def folded_by(transfers: pd.DataFrame, updates: pd.DataFrame) -> Iterator[tuple[int, int]]:
    """Yield (place in the table of transfers, place in that of updates) of each upload that the server has folded."""
    came = transfers[(transfers["dst"] == SERVER) & (transfers["fate"] == "delivered")]
    yield from _dealt_out(came[came["src"] >= 0], updates)
    yield from _next(came[came["src"] < SERVER], updates)


def _dealt_out(came: pd.DataFrame, updates: pd.DataFrame) -> Iterator[tuple[int, int]]:
    for step, uploads in came.groupby("kind", sort=True):
        of = np.flatnonzero(updates["step"] == step)
        takers = np.repeat(of, updates["folded"].to_numpy()[of])
        if len(takers) == len(uploads) and (uploads["arrived"].to_numpy() <= updates["time"].to_numpy()[takers]).all():
            yield from zip(uploads.index.tolist(), takers.tolist(), strict=True)


def _next(came: pd.DataFrame, updates: pd.DataFrame) -> Iterator[tuple[int, int]]:
    takers = np.searchsorted(updates["time"].to_numpy(float), came["arrived"].to_numpy(float), side="left")
    for upload, taker in zip(came.index.tolist(), takers.tolist(), strict=True):
        if taker < len(updates):
            yield upload, taker

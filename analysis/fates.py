"""Wire bytes of every step by fate: delivered, overhead, late, discarded or cut.

`delivered` is the payload that arrived in time, `overhead` what moved with it (headers and retransmissions); `late`,
`discarded` and `cut` are all wire bytes of messages with that fate. A lost message moved nothing.

Not modelled: headers apart from retransmissions, which the table of transfers does not separate.
"""

import pandas as pd

from analysis.tables import mean_parts

FATES = ["delivered", "overhead", "cut", "late", "discarded"]


def fate_bytes(booked: pd.DataFrame) -> pd.DataFrame:
    """Return `booked` rows (see communication.booked) by fate, with the columns fate (of FATES) and bytes added;
    fates without bytes have no row.
    """
    came = booked["fate"] == "delivered"
    parts = [
        booked[came].assign(bytes=lambda rows: rows["payload"]),
        booked[came].assign(fate="overhead", bytes=lambda rows: rows["wasted"]),
        booked[~came].assign(bytes=lambda rows: rows["wire"]),
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["bytes"] > 0]


def by_fate(booked: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean bytes over replicates: `by`, kind, fate, bytes, n, and of the step's bar total and total_sd.

    `booked` are the rows of all points, with `by` and `point`.
    """
    return mean_parts(fate_bytes(booked), points, by, "fate", bar=["kind"])

"""Bytes by step and by what became of them: the wire bytes of every step, parted into delivered, repeated, late, ...

`delivered` is the payload that arrived in time, `repeated` what moved beside it (headers and repeats); `late`,
`discarded` and `cut` are all wire bytes of messages with that fate. A lost message moved nothing.

Not modelled: headers apart from repeats, which the table of transfers does not tell.
"""

import pandas as pd

from analysis.tables import mean_parts

FATES = ["delivered", "repeated", "cut", "late", "discarded"]


def fate_bytes(booked: pd.DataFrame) -> pd.DataFrame:
    """Return `booked` rows (see communication.booked) with their bytes by fate: columns fate (of FATES) and bytes
    beside those that were there; nothing where none moved.
    """
    came = booked["fate"] == "delivered"
    parts = [
        booked[came].assign(bytes=lambda rows: rows["payload"]),
        booked[came].assign(fate="repeated", bytes=lambda rows: rows["wasted"]),
        booked[~came].assign(bytes=lambda rows: rows["wire"]),
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["bytes"] > 0]


def by_fate(booked: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean bytes over replicates: `by`, kind, fate, bytes, n, and of the step's bar total and total_sd.

    `booked` are the rows of all points, with `by` and `point`.
    """
    return mean_parts(fate_bytes(booked), points, by, "fate", bar=["kind"])

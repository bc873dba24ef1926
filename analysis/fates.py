"""Bytes by step and by what became of them: the wire bytes of every step, parted into delivered, repeated, late, ...

`delivered` is the payload that arrived in time, `repeated` what moved beside it (headers and repeats); `late`,
`discarded` and `cut` are all wire bytes of messages with that fate. A lost message moved nothing.

Not modelled: headers apart from repeats, which the table of transfers does not tell.
"""

import pandas as pd

from analysis.load import Runs

FATES = ["delivered", "repeated", "cut", "late", "discarded"]


def fate_bytes(transfers: pd.DataFrame) -> pd.DataFrame:
    """Return one point's bytes by step and fate: columns kind, fate (of FATES), bytes; nothing where none moved."""
    came = transfers["fate"] == "delivered"
    payload, wire = transfers["nbytes"].where(came, 0), transfers["wire_bytes"]
    parts = [
        pd.DataFrame({"kind": transfers["kind"][came], "fate": "delivered", "bytes": payload[came]}),
        pd.DataFrame({"kind": transfers["kind"][came], "fate": "repeated", "bytes": (wire - payload)[came]}),
        pd.DataFrame({"kind": transfers["kind"], "fate": transfers["fate"], "bytes": wire})[~came],
    ]
    sums = pd.concat(parts, ignore_index=True).groupby(["kind", "fate"], as_index=False)[["bytes"]].sum()
    return sums[sums["bytes"] > 0]


def by_fate(runs: Runs, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return mean bytes over replicates: `by`, kind, fate, bytes, n, and of the step's bar total and total_sd.

    A run without a part moved no bytes of it, which counts as zero.
    """
    transfers = runs.split("transfers")
    keys = [*by, "kind"]
    frames = [
        fate_bytes(transfers[str(row["point"])]).assign(**{name: row[name] for name in [*by, "point"]})
        for _, row in points.iterrows()
    ]
    rows = pd.concat(frames, ignore_index=True)
    runs_of = points.groupby(by, sort=False).size().rename("n")
    wholes = rows.groupby([*keys, "point"], sort=False)["bytes"].sum().groupby(keys, sort=False)
    totals = pd.DataFrame({"sum": wholes.sum(), "total_sd": wholes.std(ddof=1)})
    sums = rows.groupby([*keys, "fate"], sort=False)["bytes"].sum().reset_index().join(runs_of, on=by)
    sums = sums.join(totals, on=keys)
    return sums.assign(bytes=sums["bytes"] / sums["n"], total=sums["sum"] / sums["n"]).drop(columns="sum")

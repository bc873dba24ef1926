"""Bytes sent: the transfers table by direction, step, client and fate, and over time.

Payload bytes are `nbytes` of delivered transfers. Wire bytes are `wire_bytes`, whatever became of the transfer.
The difference is the overhead of delivered messages (headers and retransmissions), and what was wasted: cut transfers,
and replies that came too late or were discarded by the protocol.
Bytes are counted when a transfer has ended; the table does not show what is in transit at a moment.

Not modelled: which link of a path carried the bytes; energy and money are in `costs_section`.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedsim.core.arrays import Floats, Ints
from fedsim.core.record import SERVER

WAYS = {"down": -1, "peer": 0, "up": 1}
CAUSES = {"late": ["late"], "discarded": ["discarded"], "broken": ["cut", "lost"]}


def uploads(transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the messages of clients that were delivered to the server or an edge."""
    up = (transfers["src"].to_numpy() >= 0) & (transfers["dst"].to_numpy() < 0)
    return transfers[up & (transfers["fate"] == "delivered").to_numpy(bool)]


def stamps(updates: pd.DataFrame) -> tuple[Floats, Ints]:
    """Return when the server updated, ascending, and the version then; the first one of those at the same time."""
    times, at = np.unique(updates["time"].to_numpy(np.float64), return_index=True)
    return times, updates["version"].to_numpy(np.int64)[at]


def directions(transfers: pd.DataFrame) -> pd.Series:
    """Return the direction of each transfer: up (towards the server), down (away from it) or peer (client to client).

    Edge aggregators, which have the numbers below the server's, stand between it and the clients, so that each hop of
    an aggregated upload is one up.
    """
    return pd.Series(np.array([*WAYS])[_ways(transfers) + 1], index=transfers.index, dtype="str")


def _ways(transfers: pd.DataFrame) -> Ints:
    """Return 1 for each transfer up, -1 for one down and 0 for one between peers."""
    source, target = (np.minimum(transfers[end].to_numpy(np.int64), 0) for end in ("src", "dst"))
    ranks = [np.where(numbers == SERVER, 2, np.minimum(-numbers, 1)) for numbers in (source, target)]
    ways: Ints = np.sign(ranks[1] - ranks[0])
    return ways


def durations(transfers: pd.DataFrame) -> pd.DataFrame:
    """Return the duration of each delivered transfer, under its index: columns direction (up, down, peer), seconds."""
    came = transfers[transfers["fate"] == "delivered"]
    return pd.DataFrame({"direction": directions(came), "seconds": came["arrived"] - came["sent"]})


def totals(transfers: pd.DataFrame) -> dict[str, int | None]:
    """Return payload bytes delivered up, down and between peers, all other bytes, and wire bytes: bytes_up, bytes_down,
    bytes_peer, bytes_wasted, bytes_moved.

    `bytes_wasted` has the overhead of delivered messages too, unlike `wasted_parts`: it and the payloads are
    bytes_moved. Up and down are None if messages went between peers only; bytes_peer is None where none went so.
    """
    direction = directions(transfers)
    payload = transfers["nbytes"].where(transfers["fate"] == "delivered", 0)
    peer = direction == "peer"
    serverless = len(transfers) > 0 and bool(peer.all())
    moved = int(transfers["wire_bytes"].sum())
    return {
        "bytes_up": None if serverless else int(payload[direction == "up"].sum()),
        "bytes_down": None if serverless else int(payload[direction == "down"].sum()),
        "bytes_peer": int(payload[peer].sum()) if peer.any() else None,
        "bytes_wasted": moved - int(payload.sum()),
        "bytes_moved": moved,
    }


def duration_summary(rows: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return of `durations` by direction: columns `by`, direction, transfers (count), median, p95, largest (s)."""
    cells = rows.groupby([*by, "direction"])["seconds"]
    parts = {"transfers": cells.size(), "median": cells.median(), "p95": cells.quantile(0.95), "largest": cells.max()}
    return pd.DataFrame(parts).reset_index()


def split_bytes(transfers: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return sums for each group: columns `by`, transfers (count), payload, wire, wasted (bytes)."""
    payload = transfers["nbytes"].where(transfers["fate"] == "delivered", 0)
    rows = transfers[by].assign(transfers=1, payload=payload, wire=transfers["wire_bytes"])
    sums = rows.groupby(by, as_index=False)[["transfers", "payload", "wire"]].sum()
    return sums.assign(wasted=sums["wire"] - sums["payload"])


def booked(transfers: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return bytes by step, direction (up, down, peer) and fate (delivered, late, discarded, cut, lost): columns `by`,
    kind, direction, fate, transfers, payload, wire, wasted. All coarser sums derive from these rows.
    """
    return split_bytes(transfers.assign(direction=directions(transfers)), [*by, "kind", "direction", "fate"])


def wasted_parts(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the wasted bytes of `booked` rows by cause, for each group: columns `by`, then CAUSES.

    broken is what was cut or lost; the overhead of delivered messages is not wasted.
    """
    rows = rows[rows["fate"] != "delivered"]
    causes = rows["fate"].map({fate: cause for cause, fates in CAUSES.items() for fate in fates})
    sums = rows[by].assign(cause=causes, wasted=rows["wasted"]).groupby([*by, "cause"], sort=False)["wasted"].sum()
    parts = sums.unstack(fill_value=0).reindex(columns=list(CAUSES), fill_value=0)
    return parts.reset_index().rename_axis(columns=None)


def by_client(transfers: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return bytes by client and direction: columns `by`, client, direction, transfers, payload, wire, wasted.

    A transfer between peers is counted once, for its sender; one between the server and an edge aggregator for the
    aggregator, whose number is negative.
    """
    client = transfers["src"].where((transfers["src"] >= 0) | (transfers["dst"] == SERVER), transfers["dst"])
    return split_bytes(transfers.assign(client=client, direction=directions(transfers)), [*by, "client", "direction"])


def moved_by(transfers: pd.DataFrame, times: npt.ArrayLike, direction: str | None = None) -> Ints:
    """Return the wire bytes of all transfers ended at or before each of `times` (s), of one direction or of all."""
    arrived, sizes = transfers["arrived"].to_numpy(float), transfers["wire_bytes"].to_numpy(np.int64)
    if direction is not None:
        there = _ways(transfers) == WAYS[direction]
        arrived, sizes = arrived[there], sizes[there]
    order = np.argsort(arrived, kind="stable")
    cumulative = np.concatenate([[0], sizes[order].cumsum()])
    return cumulative[np.searchsorted(arrived[order], np.asarray(times, float), side="right")]

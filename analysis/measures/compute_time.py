"""How long computing takes on the simulated clock: clients' jobs and the server's updates, from the table of spans.

A client's job is a span `train`, from the download to the upload; interrupted jobs count with the time they took. The
server's computing are the spans `serve` of nodes below zero: the server itself (-1) and edge aggregators, waiting for
a core not included. Both follow from operations over a node's speed.

Not modelled: real time; the peers' merging (`mix`), which is only in the table of spans. A round in which an algorithm
asks a client for several steps has as many jobs.
"""

import pandas as pd

from analysis.statistics.spread import over_replicates

MASKING = ("keys", "shares", "unmask")  # exchanges of secure aggregation, which fold nothing
COLUMNS = ["client_seconds", "server_seconds", "client_total", "server_total"]


def compute_seconds(spans: pd.DataFrame, updates: pd.DataFrame) -> dict[str, float | None]:
    """Return simulated seconds of one point: the mean client_seconds a job and server_seconds an update, and the sums
    over the run, client_total (over all clients) and server_total.

    None if there is no such span, or no update that folded anything.
    """
    seconds, client = (spans["end"] - spans["start"]).to_numpy(float), spans["client"].to_numpy()
    train, serve = ((spans["what"] == what).to_numpy(bool) for what in ("train", "serve"))
    jobs, served = seconds[train & (client >= 0)], seconds[serve & (client < 0)]
    folded = int(((updates["folded"] > 0) & ~updates["step"].isin(MASKING)).sum())
    return {
        "client_seconds": float(jobs.mean()) if len(jobs) else None,
        "server_seconds": float(served.sum()) / folded if len(served) and folded else None,
        "client_total": float(jobs.sum()) if len(jobs) else None,
        "server_total": float(served.sum()) if len(served) else None,
    }


def compute_times(points: pd.DataFrame, found: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return means and `_sd` over replicates: `axes`, rank, algorithm, n, then COLUMNS and real_seconds.

    The rank within a condition, 1 for the smallest, is by the sum of client_seconds and server_seconds, where an
    unknown one counts as zero. real_seconds is the host's for a whole point, set-up and scoring included; points that
    followed what another had learned are left out of it, and it is NaN where all did. Conditions keep their order;
    those without any span of computing are left out. `found` has each point's `compute_seconds`, under the points'
    index.
    """
    rows = points.drop(columns=COLUMNS, errors="ignore").join(found[COLUMNS].astype("float64"))
    rows = rows[rows["client_seconds"].notna() | rows["server_seconds"].notna()]
    rows["real_seconds"] = rows["real_seconds"].where(rows["followed"] == "")
    means = over_replicates(rows, [*axes, "algorithm"], [*COLUMNS, "real_seconds"])
    means["cost"] = means[COLUMNS[:2]].sum(axis=1)
    ranks = (means.groupby(axes, sort=False) if axes else means)["cost"].rank(method="min")
    means["place"] = means.groupby(axes, sort=False).ngroup() if axes else 0
    means.insert(len(axes), "rank", ranks.astype("int64"))
    ordered = means.sort_values(["place", "cost"], kind="stable").reset_index(drop=True)
    return ordered.drop(columns=["cost", "place"])

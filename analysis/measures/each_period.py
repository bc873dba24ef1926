"""The cost of reaching a target on each period alone, counted from its arrival.

A period's score is that of all clients together (see forgetting.pooled), of all that are ever scored on it: a scoring
counts for a period once every one of them has met it, so that its test is the same at each. The time to the target runs
from the arrival at a client to the first such score at or above the target; of a period it is the mean over its
clients (they may have met it at different moments), and so are the bytes, all that were moved in the network meanwhile.

Not modelled: a score of one client's own. Where only the latest period is scored, a period can only reach the target
before the next one arrives.
"""

import pandas as pd

from analysis.measures.communication import moved_by
from analysis.measures.forgetting import MOMENT, of_clients, pooled, usable
from analysis.measures.frontier import Reached, scored


def each_period(
    scores: pd.DataFrame,
    arrivals: pd.DataFrame,
    transfers: pd.DataFrame,
    target: float,
    model: str,
    metric: str = "accuracy",
    split: str = "test",
) -> pd.DataFrame:
    """Return one row a period that was scored: columns period (from 0), seconds, bytes, periods, at_first.

    `periods` is the mean number of periods that clients had met when this one reached the target, and `at_first` is 1
    where that was the first scoring that counted for it, else 0. The four are NaN for a period that never did. The
    tables are those of one point.
    """
    rows = usable(scores, model, metric, split)
    own = of_clients(rows)
    whose = own[["client", "period"]].drop_duplicates()
    began = arrivals.assign(moved=moved_by(transfers, arrivals["time"]))
    starts = whose.merge(began, on=["client", "period"], how="left").groupby("period")[["time", "moved"]].mean()
    tested = pooled(rows, MOMENT).merge(own.groupby(MOMENT, as_index=False)["client"].nunique(), on=MOMENT)
    everybody = tested["period"].map(whose.groupby("period").size())
    counted = tested[tested["client"] == everybody].sort_values(["time", "version"])
    counted["at_first"] = (counted.groupby("period").cumcount() == 0).astype(float)
    good = counted[counted["value"] >= target]
    first = good.groupby("period")[["time", "version", "at_first"]].first().reset_index()
    first = first.merge(scored(rows)[["time", "version", "periods"]], on=["time", "version"])
    first = first.assign(moved=moved_by(transfers, first["time"])).set_index("period").reindex(starts.index)
    found = pd.DataFrame({"seconds": first["time"] - starts["time"], "bytes": first["moved"] - starts["moved"]})
    return found.assign(periods=first["periods"], at_first=first["at_first"]).reset_index()


def mean_reached(found: pd.DataFrame) -> Reached | None:
    """Return the means over periods; None if one never reached the target, or there is none."""
    if found.empty or found["seconds"].isna().any():
        return None
    return Reached(*map(float, found[["seconds", "bytes", "periods", "at_first"]].mean()))

"""One pass over the points of a report: every table is read once, and released before the next.

Little is kept of a point: its bytes by step, direction and fate and by client, its curve, the updates of its periods,
its matrix of scores, and one row of figures. So a sweep of a thousand points fits into memory.
Points are read in batches, because aggregating fifty small tables together takes no longer than aggregating one.

Not modelled: means over replicates; see `tables`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import compute_time, held_out, waiting
from analysis.arrivals import foreseen, updates_had
from analysis.axes import replicates
from analysis.communication import booked, by_client, duration_summary, durations
from analysis.each_period import each_period
from analysis.forgetting import headline, learned, met
from analysis.frontier import ASKED, over_all_periods, scored, with_bytes
from analysis.load import Runs
from analysis.served import among, last_scores
from analysis.stored import TABLES, Tables
from analysis.terminal import Say, silent

MOST_ROWS = 200_000  # of a batch, unless a single point has more
PLACE = ["place"]  # of a point among the points

Head = tuple[str, str, str]  # a headline's model, metric and split


@dataclass(frozen=True)
class Digest:
    """What is kept. The first eight frames begin with the condition, the replicates and `point`.

    `booked` and `clients` are those of `communication`, `curves` of `frontier.curve`. `periods` has period (from 1),
    updates and prequential, `forgetting` learned (i + 1), tested (j + 1) and value without empty cells, `partitions`
    the rows of that table, `targets` period (from 1), seconds, bytes, periods and at_first (see each_period) of points
    whose target is on each period, `among` what (a quantity), at and value (see served.among). `waits`, `held_out` and
    `computing` have a row a point, under the points' index: waiting.mean_wait, held_out.held_out_scores and
    compute_time.compute_seconds. `times` has a row a condition and direction: transfers (count), median, p95, largest
    (s) of all delivered messages of its replicates together, so that a quantile is one of messages.
    """

    booked: pd.DataFrame
    clients: pd.DataFrame
    curves: pd.DataFrame
    periods: pd.DataFrame
    forgetting: pd.DataFrame
    partitions: pd.DataFrame
    targets: pd.DataFrame
    among: pd.DataFrame
    waits: pd.DataFrame
    held_out: pd.DataFrame
    computing: pd.DataFrame
    times: pd.DataFrame


def digest(runs: Runs, points: pd.DataFrame, by: list[str], say: Say = silent) -> Digest:
    """Return what is kept of these points, in their order; `by` are the columns that identify a condition.

    `say` shows how many have been read.

    Raises NotARunError if a table cannot be read.
    """
    heads: list[Head] = list(points[["scored_model", "metric", "scored_split"]].itertuples(index=False, name=None))
    condition = points.groupby(by, sort=False, dropna=False).ngroup().reset_index(drop=True)
    kept: dict[str, list[pd.DataFrame]] = {}
    figures: dict[int, dict[str, Mapping[str, float | None]]] = {}
    times, took = [], pd.DataFrame(columns=["condition", "direction", "seconds"])
    for batch in _batches(runs, list(points["point"]), condition):
        say(f"reading the tables of {len(figures) + len(batch):,} of {len(points):,} points")
        figures |= {place: _figures(tables, heads[place][1]) for place, tables in batch.items()}
        whole = {table: _together({place: tables[table] for place, tables in batch.items()}) for table in TABLES}
        of_batch = _rows(batch, whole, heads)
        last = of_batch.pop("last")
        for name, rows in of_batch.items():
            kept.setdefault(name, []).append(rows)
        for place, tables in batch.items():
            kept.setdefault("targets", []).append(_targets(tables, points.iloc[place]).assign(place=place))
            kept.setdefault("among", []).append(
                among(tables, last["value"][last["place"] == place]).assign(place=place)
            )
        lasted = durations(whole["transfers"])
        lasted["condition"] = whole["transfers"]["place"].map(condition)
        took = pd.concat([took, lasted]) if len(took) else lasted
        # messages of a condition's replicates are pooled, and some may be in the next batch
        through = took["condition"] < condition[max(batch, key=condition.__getitem__)]
        times.append(duration_summary(took[through], ["condition"]))
        took = took[~through]
    times.append(duration_summary(took, ["condition"]))
    of_all = {name: _keyed(pd.concat(rows, ignore_index=True), points, by) for name, rows in kept.items()}
    for name in ("waits", "held_out", "computing"):
        values = [figures[place][name] for place in range(len(points))]
        of_all[name] = pd.DataFrame(values, index=points.index).astype("float64")
    return Digest(**of_all, times=_placed(pd.concat(times, ignore_index=True), points, by, condition))


def _batches(runs: Runs, names: list[str], condition: pd.Series) -> Iterator[dict[int, Tables]]:
    """Yield the tables of some points at a time, by their places; one condition's points after another's."""
    stored = {table: runs.split(table) for table in TABLES}
    batch: dict[int, Tables] = {}
    count = 0
    for place in condition.sort_values(kind="stable").index:
        tables = {table: stored[table][names[place]] for table in TABLES}
        size = sum(map(len, tables.values()))
        if batch and count + size > MOST_ROWS:
            yield batch
            batch, count = {}, 0
        batch[place], count = tables, count + size
    yield batch


def _together(frames: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several points below one another, with a column `place`."""
    filled = {place: rows for place, rows in frames.items() if len(rows)} or dict([*frames.items()][:1])
    return pd.concat([rows.assign(place=place) for place, rows in filled.items()], ignore_index=True)


def _rows(batch: Mapping[int, Tables], whole: Tables, heads: list[Head]) -> dict[str, pd.DataFrame]:
    """Return what is kept of a batch, each frame with a column `place`."""
    of_head = {
        head: whole["scores"][whole["scores"]["place"].isin([place for place in batch if heads[place] == head])]
        for head in dict.fromkeys(heads[place] for place in batch)
    }
    scores = pd.concat([headline(rows, *head) for head, rows in of_head.items()])
    known = met(scores)
    tested = [over_all_periods(rows, *head[:2], PLACE) for head, rows in of_head.items() if head[2] == ASKED]
    points = scored(known, pd.concat(tested) if tested else None, PLACE)
    curves = [with_bytes(rows, batch[rows["place"].iloc[0]]["transfers"]) for _, rows in points.groupby("place")]
    had = _together({place: updates_had(tables["arrivals"], tables["updates"]) for place, tables in batch.items()})
    given = had.groupby(["place", "period"], as_index=False)[["updates"]].mean()
    given = given.merge(foreseen(scores, PLACE), on=["place", "period"], how="left")
    cells = learned(known, PLACE)
    return {
        "booked": booked(whole["transfers"], PLACE),
        "clients": by_client(whole["transfers"], PLACE),
        "curves": pd.concat(curves) if curves else with_bytes(points, whole["transfers"]),
        "periods": given.rename(columns={"value": "prequential"}).assign(period=given["period"] + 1),
        "forgetting": pd.DataFrame({
            "place": cells["place"], "learned": cells["seen"], "tested": cells["period"] + 1, "value": cells["value"],
        }),
        "partitions": whole["partitions"],
        "last": last_scores(known, PLACE),
    }  # fmt: skip


def _targets(tables: Tables, point: "pd.Series[Any]") -> pd.DataFrame:
    """Return the cost of the target on each period (from 1); no rows unless the target is on each period."""
    if point["target_on"] != "each_period" or math.isnan(point["target"]):
        return pd.DataFrame(columns=["period", "seconds", "bytes", "periods", "at_first"], dtype="float64")
    head = point["scored_model"], point["metric"], point["scored_split"]
    found = each_period(tables["scores"], tables["arrivals"], tables["transfers"], point["target"], *head)
    return found.assign(period=found["period"] + 1)


def _figures(tables: Tables, metric: str) -> dict[str, Mapping[str, float | None]]:
    return {
        "waits": waiting.mean_wait(tables["transfers"], tables["updates"]),
        "held_out": held_out.held_out_scores(tables["scores"], metric),
        "computing": compute_time.compute_seconds(tables["spans"], tables["updates"]),
    }


def _keyed(rows: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows in the order of the points, `place` replaced by columns that say whose each is."""
    ordered = rows.sort_values("place", kind="stable").reset_index(drop=True)
    place = ordered.pop("place")
    for number, name in enumerate([*by, *replicates(points.columns), "point"]):
        ordered.insert(number, name, points[name].astype("str").to_numpy()[place.to_numpy(int)])
    return ordered


def _placed(rows: pd.DataFrame, points: pd.DataFrame, by: list[str], condition: pd.Series) -> pd.DataFrame:
    """Return rows of conditions, in order, with the columns that identify them in place of their numbers."""
    first = condition.drop_duplicates().index.to_numpy()
    number = rows.pop("condition").to_numpy(int)
    for place, name in enumerate(by):
        rows.insert(place, name, points[name].to_numpy()[first][number])
    return rows

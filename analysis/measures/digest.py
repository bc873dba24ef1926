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

import numpy as np
import pandas as pd

from analysis.axes import replicates
from analysis.measures import compute_time, held_out, waiting
from analysis.measures.arrivals import foreseen, updates_had
from analysis.measures.communication import booked, by_client, duration_summary, durations
from analysis.measures.each_period import each_period
from analysis.measures.forgetting import headline, learned, met
from analysis.measures.frontier import ALL_PERIODS, ASKED, over_periods, scored, with_bytes
from analysis.measures.served import among, last_scores
from analysis.read.load import Runs
from analysis.read.stored import TABLES, Tables, read
from analysis.terminal import Say, silent
from fedsim.core.arrays import Floats

MOST_ROWS = 200_000  # of a batch, unless a single point has more
PLACE = ["place"]  # of a point among the points
STRINGS = ("model", "split", "metric")
SCORED = ["time", "version", "client", "period", "seen", "value", "weight"]
NO_TARGETS = pd.DataFrame(columns=["period", "seconds", "bytes", "periods", "at_first"], dtype="float64")
NO_DISTRIBUTIONS = pd.DataFrame({"what": pd.Series(dtype="str"), "at": np.empty(0), "value": np.empty(0)})

Head = tuple[str, str, str]  # a headline's model, metric and split


@dataclass(frozen=True)
class Digest:
    """What is kept. The first eight frames begin with the condition, the replicates and `run`.

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


class PointTables:
    """What is read of one point: its tables without the scores in `rows`, and of these in `scored` the columns SCORED.

    `scored` has the rows of the headline (`scores`) and of the test of all periods (`tested`), `figures` the point's
    rows of waits, held_out and computing (see Digest), `targets` the cost of the target on each period.
    """

    def __init__(self, tables: Tables, point: "pd.Series[Any]", head: Head) -> None:
        scores, (model, metric, split) = tables["scores"], head
        splits = {"scores": split, "tested": ALL_PERIODS if split == ASKED else ""}
        self.scored = {name: headline(scores, model, metric, one)[SCORED] for name, one in splits.items()}
        self.rows = {name: rows for name, rows in tables.items() if name != "scores"}
        self.targets = _targets(tables, point)
        self.figures: dict[str, Mapping[str, float | None]] = {
            "waits": waiting.mean_wait(tables["transfers"], tables["updates"]),
            "held_out": held_out.held_out_scores(scores, metric),
            "computing": compute_time.compute_seconds(tables["spans"], tables["updates"]),
        }


def digest(runs: Runs, points: pd.DataFrame, by: list[str], say: Say = silent) -> Digest:
    """Return what is kept of these points, in their order; `by` are the columns that identify a condition.

    `say` shows how many have been read.

    Raises NotARunError if a table cannot be read.
    """
    heads: list[Head] = list(points[["scored_model", "metric", "scored_split"]].itertuples(index=False, name=None))
    condition = points.groupby(by, sort=False, dropna=False).ngroup().reset_index(drop=True)
    kept: dict[str, list[pd.DataFrame]] = {}
    figures: dict[str, dict[int, Mapping[str, float | None]]] = {"waits": {}, "held_out": {}, "computing": {}}
    times, took, count = [], pd.DataFrame(columns=["condition", "direction", "seconds"]), 0
    for batch in _batches(runs, points, heads, condition):
        count += len(batch)
        say(f"reading the tables of {count:,} of {len(points):,} runs")
        for name, known in figures.items():
            known |= {place: tables.figures[name] for place, tables in batch.items()}
        transfers = _together({place: tables.rows["transfers"] for place, tables in batch.items()})
        for name, rows in _rows(batch, transfers).items():
            kept.setdefault(name, []).append(rows)
        lasted = durations(transfers)
        lasted["condition"] = transfers["place"].map(condition)
        took = pd.concat([took, lasted]) if len(took) else lasted
        # messages of a condition's replicates are pooled, and some may be in the next batch
        through = took["condition"] < condition[max(batch, key=condition.__getitem__)]
        times.append(duration_summary(took[through], ["condition"]))
        took = took[~through]
    times.append(duration_summary(took, ["condition"]))
    of_all = {name: _keyed(pd.concat(rows, ignore_index=True), points, by) for name, rows in kept.items()}
    for name, known in figures.items():
        values = [known[place] for place in range(len(points))]
        of_all[name] = pd.DataFrame(values, index=points.index).astype("float64")
    return Digest(**of_all, times=_placed(pd.concat(times, ignore_index=True), points, by, condition))


def _batches(
    runs: Runs, points: pd.DataFrame, heads: list[Head], condition: pd.Series
) -> Iterator[dict[int, PointTables]]:
    """Yield the tables of some points at a time, by their places, ascending; one condition's points after another's."""
    names = list(points["run"])
    batch: dict[int, PointTables] = {}
    count = 0
    for place in condition.sort_values(kind="stable").index:
        folder = runs.folders[names[place]]
        tables = {table: read(folder, table, (), STRINGS if table == "scores" else ()) for table in TABLES}
        found = PointTables(tables, points.iloc[place], heads[place])
        size = sum(map(len, tables.values()))
        if batch and count + size > MOST_ROWS:
            yield dict(sorted(batch.items()))
            batch, count = {}, 0
        batch[place], count = found, count + size
    yield dict(sorted(batch.items()))


def _together(frames: Mapping[int, pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several points below one another, with a column `place`."""
    filled = [rows for rows in frames.values() if len(rows)] or list(frames.values())[:1]
    places = np.repeat([*frames], [len(rows) for rows in frames.values()])
    return pd.concat(filled, ignore_index=True).assign(place=places)


def _rows(batch: Mapping[int, PointTables], transfers: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return what is kept of a batch, each frame with a column `place`."""
    scores = _together({place: tables.scored["scores"] for place, tables in batch.items()})
    over_all = _together({place: tables.scored["tested"] for place, tables in batch.items()})
    known = met(scores)
    points = scored(known, over_periods(over_all, PLACE), PLACE)
    curves = [
        with_bytes(rows, tables.rows["transfers"])
        for place, tables in batch.items()
        if len(rows := points[points["place"] == place])
    ]
    had = _together({
        place: updates_had(tables.rows["arrivals"], tables.rows["updates"]) for place, tables in batch.items()
    })  # fmt: skip
    given = had.groupby(["place", "period"], as_index=False)[["updates"]].mean()
    given = given.merge(foreseen(scores, PLACE), on=["place", "period"], how="left")
    cells, last = learned(known, PLACE), last_scores(known, PLACE)
    own = {place: rows.to_numpy(float) for place, rows in last.groupby("place")["value"]}
    spread = {place: _among(among(tables.rows, own.get(place, np.empty(0)))) for place, tables in batch.items()}
    return {
        "booked": booked(transfers, PLACE),
        "clients": by_client(transfers, PLACE),
        "curves": pd.concat(curves) if curves else with_bytes(points, transfers),
        "periods": given.rename(columns={"value": "prequential"}).assign(period=given["period"] + 1),
        "forgetting": pd.DataFrame({
            "place": cells["place"], "learned": cells["seen"], "tested": cells["period"] + 1, "value": cells["value"],
        }),
        "partitions": _together({place: tables.rows["partitions"] for place, tables in batch.items()}),
        "targets": _together({place: tables.targets for place, tables in batch.items()}),
        "among": _together(spread),
    }  # fmt: skip


def _among(parts: Mapping[str, tuple[Floats, Floats]]) -> pd.DataFrame:
    """Return a point's distributions (see served.among) as columns what, at, value."""
    if not parts:
        return NO_DISTRIBUTIONS
    at, value = (np.concatenate(side) for side in zip(*parts.values(), strict=True))
    what = np.repeat([*parts], [len(places) for places, _ in parts.values()])
    return pd.DataFrame({"what": what, "at": at, "value": value})


def _targets(tables: Tables, point: "pd.Series[Any]") -> pd.DataFrame:
    """Return the cost of the target on each period (from 1); no rows unless the target is on each period."""
    if point["target_on"] != "each_period" or math.isnan(point["target"]):
        return NO_TARGETS
    head = point["scored_model"], point["metric"], point["scored_split"]
    found = each_period(tables["scores"], tables["arrivals"], tables["transfers"], point["target"], *head)
    return found.assign(period=found["period"] + 1)


def _keyed(rows: pd.DataFrame, points: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return the rows in the order of the points, `place` replaced by columns that say whose each is."""
    ordered = rows.sort_values("place", kind="stable").reset_index(drop=True)
    place = ordered.pop("place")
    for number, name in enumerate([*by, *replicates(points.columns), "run"]):
        ordered.insert(number, name, points[name].astype("str").to_numpy()[place.to_numpy(int)])
    return ordered


def _placed(rows: pd.DataFrame, points: pd.DataFrame, by: list[str], condition: pd.Series) -> pd.DataFrame:
    """Return rows of conditions, in order, with the columns that identify them in place of their numbers."""
    first = condition.drop_duplicates().index.to_numpy()
    number = rows.pop("condition").to_numpy(int)
    for place, name in enumerate(by):
        rows.insert(place, name, points[name].to_numpy()[first][number])
    return rows

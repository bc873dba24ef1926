"""The second ledger: what must hold of a point's tables, written from the documentation of their columns.

Nothing of fedsim is imported.  Each check returns sentences, one for each promise that is broken.
"""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from accounts import asks, budgets, bytes_moved, fates, sums
from links import quantity
from order import arrivals, causes, spans
from rates import loads, speeds
from tables import CLOSE, TABLES, Findings, Point, read


def check(out: Path, scenario: dict[str, Any], files: dict[str, str]) -> list[str]:
    """Return all findings about a folder of results."""
    summary = pd.read_csv(out / "summary.csv", dtype={"run": str})
    axis = scenario.get("grid", {}).get("network.latency", [None])
    found = [] if len(summary) == len(set(axis)) else [f"the summary has {len(summary)} rows for {len(axis)} points"]
    for row in summary.to_dict("records"):
        own = json.loads(json.dumps(scenario))
        if "grid" in own:
            own["network"]["latency"] = row.get("network.latency", row.get("latency", own["network"].get("latency")))
        found += findings(Point(read(out / "points" / str(row["run"])), row, own, files))
    return found


def findings(point: Point) -> list[str]:
    """Return all findings about a point, each with the name of the check that has made it."""
    checks = (
        shapes, times, bytes_moved, sums, asks, fates, budgets, causes, spans, speeds, loads, arrivals, scores,
    )  # fmt: skip
    return [f"{check.__name__}: {finding}" for check in checks for finding in _few(check(point))]


def _few(findings: Findings) -> list[str]:
    every = list(findings)
    return every[:2] + ([f"and {len(every) - 2} more"] if len(every) > 2 else [])


def shapes(point: Point) -> Findings:
    """Tables have the documented columns, in that order."""
    for name, columns in TABLES.items():
        if list(point.tables[name].columns) != columns.split():
            yield f"{name} has the columns {list(point.tables[name].columns)}"


def times(point: Point) -> Findings:
    """Times are finite, not negative, not after the end, and do not go back."""
    end, until = point.row["sim_seconds"], point.scenario.get("measure", {}).get("until")
    limit = until.get("time") if isinstance(until, dict) else until
    if limit is not None and end > quantity(limit) * (1 + CLOSE):
        yield f"it ends at {end}, after {limit}"
    for name, columns in {
        "transfers": ["sent", "arrived"], "updates": ["time"], "spans": ["start", "end"], "arrivals": ["time"],
        "scores": ["time"], "partitions": ["time"],
    }.items():  # fmt: skip
        table = point.tables[name]
        values = table[columns].to_numpy(dtype=float)
        if not np.isfinite(values).all() or (values < 0).any():
            yield f"{name} holds times that are negative or not finite"
        if len(values) and not values.max() <= end * (1 + CLOSE):
            yield f"{name} goes on until {values.max()}, after the end at {end}"
        if (np.diff(values[:, -1]) < 0).any():
            yield f"{name} is not in the order of its times"
        if len(columns) == 2 and (values[:, 0] > values[:, 1]).any():
            yield f"{name} holds rows that end before they begin"


def scores(point: Point) -> Findings:
    """Scores are finite, of versions there were, and the summary's is their mean: over nodes, then over periods."""
    table = point.tables["scores"]
    if table.empty:
        return
    shares = table[~table["metric"].str.startswith("exchanged")]
    if not shares["value"].between(0, 1).all() or (table["weight"] < 0).any():
        yield "values outside 0 and 1, or negative weights"
    known = point.tables["updates"]["version"].max() if len(point.tables["updates"]) else 0
    if table["version"].max() > known:
        yield f"version {table['version'].max()} is scored, of {known}"
    if isinstance(point.row["score"], float) and not math.isnan(point.row["score"]):
        measure = point.scenario.get("measure", {})
        model = measure.get("models", ["global"])[0]
        those = shares[(shares["metric"] == point.row["metric"]) & (shares["model"] == model)]
        those = those[(those["split"] == measure.get("splits", ["test"])[0]) & (those["period"] < those["seen"])]
        those = those[those["time"] == those["time"].max()]
        those = those[those["version"] == those["version"].max()]
        together = those[those["client"] == -1]  # where the metric is no mean over nodes
        means = _means(together if len(together) else those)
        if means and abs(np.mean(means) - point.row["score"]) > 1e-6:
            yield f"the score is {point.row['score']} in the summary and {np.mean(means)} in the table"


def _means(table: pd.DataFrame) -> list[float]:
    kept = [group for _, group in table.groupby("period") if group["weight"].sum()]
    return [float(np.average(group["value"], weights=group["weight"])) for group in kept]

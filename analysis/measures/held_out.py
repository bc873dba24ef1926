"""The report's section on a global test: clients' own nodes beside unowned ones, and the bytes moved.

Every score is the one that a period had when it had just been learned (of each client the last row with `seen` one
more than `period`): the mean over clients, then over periods, with every client counting the same whatever its
size.  Not modelled: what is forgotten later; see `forgetting`.
"""

import math

import pandas as pd

from analysis.measures.forgetting import of_clients, usable
from analysis.quantity import BYTES, PERCENT
from analysis.report.cells import figure, whole
from analysis.report.sheet import figures_table, part
from analysis.statistics.spread import over_replicates

SPLIT = "held_out"
SCORES = {  # column: heading, model, split
    "own": ("own test, local models", "local", "test"),
    "held": ("held out, local models", "local", SPLIT),
    "held_global": ("held out, global model", "global", SPLIT),
}
COST = {"bytes_up": "payload up", "bytes_down": "payload down", "bytes_peer": "payload between peers"}


def when_learned(scores: pd.DataFrame, model: str, metric: str, split: str) -> float:
    """Return the mean score of periods just learned, NaN where there is none; `scores` are the rows of one point."""
    rows = of_clients(usable(scores, model, metric, split))
    rows = rows[rows["seen"] == rows["period"] + 1]
    last = rows.sort_values(["time", "version"], kind="stable").groupby(["client", "period"]).tail(1)
    return float(last.groupby("period")["value"].mean().mean())


def held_out_scores(scores: pd.DataFrame, metric: str) -> dict[str, float]:
    """Return the columns of SCORES of one point, and whether it scored anything held out, as `has_held_out`."""
    there = bool((scores["split"] == SPLIT).any())
    found = {name: when_learned(scores, model, metric, split) for name, (_, model, split) in SCORES.items() if there}
    return {"has_held_out": float(there), **dict.fromkeys(SCORES, math.nan), **found}


def held_out(points: pd.DataFrame, found: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `by`, n, and mean and `_sd` of the columns of SCORES and COST; no rows where nothing was held out.

    `found` has each point's `held_out_scores`, under the points' index.
    """
    rows = points.join(found[list(SCORES)])[found["has_held_out"] > 0]
    return pd.DataFrame(columns=[*by, "n"]) if rows.empty else over_replicates(rows, by, [*SCORES, *COST])


def held_out_section(frame: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return the part of the page (see `held_out`)."""
    columns = [("n", whole("n")), *((heading, figure(name, PERCENT)) for name, (heading, _, _) in SCORES.items())]
    columns += [(heading, figure(name, BYTES)) for name, heading in COST.items()]
    rows = figures_table(frame, [*axes, "algorithm"], columns, "held_out", score=score)
    return part("held_out", "Own and held-out nodes", rows)

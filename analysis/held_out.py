"""The report's section on a global test: clients' own vertices beside unowned ones, and the bytes moved.

Every score is the one that a period had when it had just been learned (of each client the last row with `seen` one
more than `period`): the mean over clients, then over periods, with every client counting the same whatever its
size.  Not modelled: what is forgotten later; see `forgetting`.
"""

import math

import pandas as pd

from analysis.axes import short
from analysis.cells import figure, placed, spread_in_words
from analysis.forgetting import of_clients, usable
from analysis.page import Cell
from analysis.quantity import BYTES, PERCENT
from analysis.sheet import part, sheet
from analysis.spread import over_replicates

SPLIT = "held_out"
SCORES = {  # column: heading, model, split
    "own": ("own test, local models", "local", "test"),
    "held": ("held out, local models", "local", SPLIT),
    "held_global": ("held out, global model", "global", SPLIT),
}
COST = {"bytes_up": "up", "bytes_down": "down", "bytes_peer": "between peers"}


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
    if rows.empty:
        return pd.DataFrame(columns=[*by, "n"])
    return over_replicates(rows, by, [*SCORES, *COST])


def held_out_section(frame: pd.DataFrame, axes: list[str], score: str) -> str:
    """Return the part of the page (see `held_out`)."""
    heads = [*map(short, axes), "algorithm", "n", *(heading for heading, _, _ in SCORES.values()), *COST.values()]
    rows = [
        [*placed(row, [*axes, "algorithm"]), Cell(str(row["n"]), row["n"])]
        + [figure(row, column, PERCENT) for column in SCORES]
        + [figure(row, column, BYTES) for column in COST]
        for _, row in frame.iterrows()
    ]
    note = (
        f"The {score} on a period when it had just been learned: mean over clients, each counting the same, then over "
        f"periods, then over replicates{spread_in_words(frame)}. Held out are the vertices that no client owns."
    )
    return part("held_out", "Own and held-out vertices", sheet(heads, rows, "held_out", len(axes) + 2, note))

"""The score of every run at each of the six budgets and within both whole ones, and what it costs to reach
a target.

A score is that of the last scoring at or before the budget, and a run's last score holds after its end,
since the model stays. The final one is the last before either whole budget is used up; the run may go on
for the other. Scores of the untrained model do not count: those at 0 s, and those of a run that ended
before its first update.

A run that came to a standstill counts like one that is done: its model stays as it is. Runs that failed
have no rows.

A run reaches the target at its first scoring at or above it, even if a later one is lower.

Not modelled: anything between two scorings, or after a run's end; a run that ends below the target may only
have lacked the budget.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.measures.frontier import on_grid
from fedsim.core.errors import UserError
from fedsim.reference.cell import COMMAND, COSTS, SHARES, Budget, Budgets, Contender, SettingKey
from fedsim.reference.results import Results

COURSES, PLAN = "docs/reference/courses.parquet", "scenarios/reference/plan.yaml"
FINISHED = ("done", "stalled")
FINAL = "final"
PLACE = [*SettingKey._fields, "method", "protocol", "links", "seed"]


def trained(results: Results) -> pd.DataFrame:
    """Return the courses without scorings of the untrained model."""
    updated = results.cells.loc[results.cells["updates"] > 0, "cell"]
    courses = results.courses
    return courses[courses["cell"].isin(updated) & (courses["seconds"] > 0)]


def scores(results: Results, budgets: Budgets) -> pd.DataFrame:
    """Return a row for each finished run, in the order of its place: PLACE, cell, a column for each of SHARES
    (named by its text), and `final`, within both budgets. Scores are fractions, NaN where nobody has trained yet.
    """
    cells = results.cells[results.cells["status"].isin(FINISHED)].sort_values(PLACE, kind="stable")
    scored = {*results.courses["cell"]}
    courses = {str(cell): rows for cell, rows in trained(results).groupby("cell", sort=False)}
    nothing = results.courses.iloc[:0]
    rows = []
    for run in cells.to_dict("records"):
        setting = SettingKey(*(str(run[name]) for name in SettingKey._fields))
        if run["score"] == run["score"] and run["cell"] not in scored:
            raise UserError(f"{COURSES} has no rows of the cell {run['cell']}: run it again ({COMMAND} {run['cell']})")
        if setting not in budgets:
            raise UserError(f"{PLAN} has no setting {setting}: add it, or remove its rows from the tables")
        course = courses.get(str(run["cell"]), nothing)
        rows.append(
            {**{name: run[name] for name in PLACE}, "cell": run["cell"], **at_budgets(course, budgets[setting])}
        )
    return pd.DataFrame(rows, columns=[*PLACE, "cell", *map(str, SHARES), FINAL])


def at_budgets(course: pd.DataFrame, budget: Budget) -> dict[str, float]:
    """Return one run's score at each budget, and within both whole ones; `course` is its part of `trained`."""
    within = course[(course["bytes"] <= budget.bytes) & (course["seconds"] <= budget.seconds)]["score"]
    scores = {FINAL: float(within.iloc[-1]) if len(within) else math.nan}
    for cost in COSTS:
        shares = [share for share in SHARES if share.cost == cost]
        held = on_grid(course, cost, np.array([share.of(budget) for share in shares])) if len(course) else None
        for place, share in enumerate(shares):
            scores[str(share)] = math.nan if held is None else float(held[place])
    return scores


@dataclass(frozen=True)
class Cost:
    """What the target costs a contender: means over the `reached` runs that get there, NaN if none do.

    `seeds` is the number of the setting's seeds.
    """

    contender: Contender
    bytes: float
    seconds: float
    reached: int
    seeds: int


def costs(cells: pd.DataFrame, courses: pd.DataFrame, target: float, seeds: int) -> Iterator[Cost]:
    """Yield each contender's cost: `cells` are of one setting and kind of links, `courses` those of `trained`."""
    at = courses[courses["score"] >= target].drop_duplicates("cell").set_index("cell")[["bytes", "seconds"]]
    runs = cells.join(at.add_suffix("_to_target"), on="cell")
    for key, rows in runs.groupby(["method", "protocol"]):
        reached = rows.dropna(subset="seconds_to_target")
        means = [float(reached[f"{cost}_to_target"].mean()) if len(reached) else math.nan for cost in COSTS]
        yield Cost(Contender(*map(str, key)), means[0], means[1], len(reached), seeds)

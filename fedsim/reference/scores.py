"""The score of every run at each of the six budgets, and at its end.

A score is that of the last scoring at or before the budget, and a run's last score holds after its end, since the model
stays. Scores of the untrained model do not count: those at 0 s, and those of a run that ended before its first update.

A run that came to a standstill counts like one that is done: its model stays as it is. Runs that failed have no rows.

Not modelled: anything between two scorings.
"""

import math

import numpy as np
import pandas as pd

from analysis.frontier import on_grid
from fedsim.core.errors import UserError
from fedsim.reference.plan import Budget
from fedsim.reference.results import Results
from fedsim.reference.terms import COMMAND, COSTS, SHARES, Allowed, Setting

COURSES, PLAN = "docs/reference/courses.parquet", "scenarios/reference/plan.yaml"
FINISHED = ("done", "stalled")
FINAL = "final"
PLACE = [*Setting._fields, "method", "protocol", "links", "seed"]


def trained(results: Results) -> pd.DataFrame:
    """Return the courses without scorings of the untrained model."""
    updated = results.cells.loc[results.cells["updates"] > 0, "cell"]
    courses = results.courses
    return courses[courses["cell"].isin(updated) & (courses["seconds"] > 0)]


def scores(results: Results, budgets: Allowed) -> pd.DataFrame:
    """Return a row for each finished run, in the order of its place: PLACE, cell, a column for each of SHARES
    (named by its text), and `final`, the run's last score. Scores are fractions, NaN where nobody has trained yet.
    """
    cells = results.cells[results.cells["status"].isin(FINISHED)].sort_values(PLACE, kind="stable")
    scored = {*results.courses["cell"]}
    courses = {str(cell): rows for cell, rows in trained(results).groupby("cell", sort=False)}
    nothing = results.courses.iloc[:0]
    rows = []
    for run in cells.to_dict("records"):
        setting = Setting(*(str(run[name]) for name in Setting._fields))
        if run["score"] == run["score"] and run["cell"] not in scored:
            raise UserError(f"{COURSES} has no rows of the cell {run['cell']}: run it again ({COMMAND} {run['cell']})")
        if setting not in budgets:
            raise UserError(f"{PLAN} has no setting {setting}: add it, or remove its rows from the tables")
        course = courses.get(str(run["cell"]), nothing)
        found = {**at_budgets(course, budgets[setting]), FINAL: run["score"] if len(course) else math.nan}
        rows.append({**{name: run[name] for name in PLACE}, "cell": run["cell"], **found})
    return pd.DataFrame(rows, columns=[*PLACE, "cell", *map(str, SHARES), FINAL])


def at_budgets(course: pd.DataFrame, whole: Budget) -> dict[str, float]:
    """Return one run's score at each budget; `course` is its part of `trained`."""
    found: dict[str, float] = {}
    for cost in COSTS:
        own = [budget for budget in SHARES if budget.cost == cost]
        held = on_grid(course, cost, np.array([budget.of(whole) for budget in own])) if len(course) else None
        for place, budget in enumerate(own):
            found[str(budget)] = math.nan if held is None else float(held.iloc[place])
    return found

"""The method with the best score for a budget of bytes or of simulated seconds, and where another takes over.

A method is an algorithm with its values of the axes that the user chooses (protocol, algorithm, training, model,
codec); all other axes are conditions, in each of which the methods are compared. A method's score at a budget is that
of the current model when the budget has been spent, averaged over its runs; a method has no score until each of its
runs has one. It is not the best score so far, which could not be picked without looking at the test.

All are compared on one test: where every run of a condition was scored over all periods, met or not (the split
all_periods), by that; else by the score over the periods met, once all have arrived, so that a method that meets its
periods late has no score until then.

Not modelled: whether a lead is significant; the ranking shows the spread.
"""

import math

import numpy as np
import pandas as pd

from analysis.axes import short
from analysis.frontier import on_grid

CHOSEN = ("protocol", "algorithm", "training", "model", "network.codec")
COLUMNS = ["cost", "from", "to", "method", "algorithm", "score", "n", "next", "next_score", "test", "same_test"]


def is_chosen(axis: str) -> bool:
    """Return whether an axis is the user's choice, not a condition."""
    return any(axis == part or axis.startswith(f"{part}.") for part in CHOSEN)


def leads(curves: pd.DataFrame, axes: list[str], cost: str) -> pd.DataFrame:
    """Return one row per condition and range of budgets with one leader: the axes that are conditions, then COLUMNS.

    `curves` are those of tables.curves. `cost` is "time" (s) or "moved" (bytes), `from` and `to` are budgets of it (the
    last stretch has no end: inf). `score` (fraction) is the leader's when it takes the lead, n its runs, `next` the
    best of the others at that budget ("" if no other has a score yet) and `next_score` its score. Of equals the
    one that leads stays. Conditions with one method only are left out.
    `test` says what is compared: "all_periods", or "complete" for the periods met once all have arrived; `same_test` is
    False where the runs of the condition have met different numbers of periods at their ends, so that their complete
    tests differ too.
    """
    conditions = [axis for axis in axes if not is_chosen(axis)]
    marked = curves.assign(method=_methods(curves, [axis for axis in axes if is_chosen(axis)]))
    groups = marked.groupby(conditions, sort=False, dropna=False) if conditions else [((), marked)]
    rows = []
    for key, group in groups:
        if group["method"].nunique() > 1:
            place = dict(zip(conditions, key, strict=True))
            of = dict(zip(group["method"], group["algorithm"], strict=True))
            tested, test = _on_one_test(group)
            stretches = _stretches(_scores(tested, cost))
            rows += [{**place, "cost": cost, "algorithm": of[str(row["method"])], **row, **test} for row in stretches]
    return pd.DataFrame(rows, columns=[*conditions, *COLUMNS])


def _on_one_test(group: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, object]]:
    """Return the rows of a condition that are scores on one test, and which: the columns test and same_test."""
    if group["fixed"].all():
        return group, {"test": "all_periods", "same_test": True}
    group = group.assign(score=group["met"])
    done = group[group["complete"].astype(bool)]
    ends = done.sort_values("time", kind="stable").groupby("point")["periods"].last()
    return done, {"test": "complete", "same_test": bool(ends.max() - ends.min() < 1e-9)}


def _methods(curves: pd.DataFrame, chosen: list[str]) -> pd.Series:
    """Return each row's method as text: the algorithm, and the other choices that differ."""
    labels = curves["algorithm"].astype(str)
    for axis in chosen:
        if axis != "algorithm" and curves[axis].nunique() > 1:
            names = curves[axis].astype(str)
            labels = labels + ", " + (names if axis in CHOSEN else short(axis) + " " + names)
    return labels


def _scores(group: pd.DataFrame, cost: str) -> pd.DataFrame:
    """Return the mean score (B, M) of each method at each budget at which any run's score changes, NaN before it has
    one, with the number of runs under attrs."""
    budgets = np.unique(group[cost].to_numpy(float))
    columns, counts = {}, {}
    for method, runs in group.groupby("method", sort=False):
        held = [on_grid(run.sort_values(cost, kind="stable"), cost, budgets) for _, run in runs.groupby("point")]
        columns[str(method)] = np.mean([one.to_numpy(float) for one in held], axis=0)
        counts[str(method)] = len(held)
    frame = pd.DataFrame(columns, index=budgets)
    frame.attrs["runs"] = counts
    return frame


def _stretches(scores: pd.DataFrame) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    values = np.where(scores.isna(), -math.inf, scores)
    best, leader = values.max(axis=1), -1
    for budget, at, most in zip(scores.index, values, best, strict=True):
        if most == -math.inf or (leader >= 0 and at[leader] >= most):
            continue
        if rows:
            rows[-1]["to"] = budget
        leader = int(at.argmax())
        others = np.where(np.arange(len(at)) == leader, -math.inf, at)
        after = int(others.argmax())
        known = others[after] > -math.inf
        rows.append(
            {
                "from": budget, "to": math.inf, "method": scores.columns[leader], "score": float(most),
                "n": scores.attrs["runs"][scores.columns[leader]], "next": scores.columns[after] if known else "",
                "next_score": float(others[after]) if known else math.nan,
            }
        )  # fmt: skip
    return rows

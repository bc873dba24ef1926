"""The method with the best score for a budget of bytes or of simulated seconds, and where another takes over.

A method is an algorithm with its values of the axes that the user chooses (protocol, algorithm, training, model,
codec); all other axes are conditions, in each of which the methods are compared. A method's score at a budget is that
of the current model when the budget has been spent, averaged over its runs; a method has no score until each of its
runs has one. It is not the best score so far, which could not be picked without looking at the test.

Methods that are not significantly behind the best are tied with it (paired differences, as in `contest`; with fewer
than five runs those within a point), and leaders stay until they are behind; scores that guessing reaches (`chance`)
lead nowhere.  All are compared on one test: where every run of a condition was scored on
the fixed test (see frontier), by that; else by the score over the periods met, once all have arrived, so that a method
that meets its periods late has no score until then.

Not modelled: correction for the many budgets compared.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtrit

from analysis.axes import replicates, short
from analysis.frontier import on_grid
from analysis.intervals import CONFIDENCE, FEWEST

CHOSEN = ("protocol", "algorithm", "training", "model", "network.codec")
TIED = 0.01  # a lead of less is none, with runs too few for a test
COLUMNS = ["cost", "from", "to", "method", "algorithm", "score", "n", "next", "next_score", "test", "same_test"]


def is_chosen(axis: str) -> bool:
    """Return whether an axis is the user's choice, not a condition."""
    return any(axis == part or axis.startswith(f"{part}.") for part in CHOSEN)


def leads(curves: pd.DataFrame, axes: list[str], cost: str) -> pd.DataFrame:
    """Return one row per condition and range of budgets with the same leaders: the axes that are conditions, then
    COLUMNS.

    `curves` are those of a digest, with a column `chance` (NaN where it is not known). `cost` is "time" (s) or "moved"
    (bytes), `from` and `to` are budgets of it (the last stretch has no end: inf). `method` is the leader, or those that
    are tied, joined by " / ", the best first; `algorithm` is that of the best. `score` (fraction) is its score when the
    range begins, n its runs, `next` the best of the others at that budget ("" if no other has a score yet) and
    `next_score` its score. Conditions with one method only are left out.
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
            stretches = _stretches(*_scores(tested, cost), float(group["chance"].max()))
            rows += [{**place, "cost": cost, "algorithm": of[row["best"]], **row, **test} for row in stretches]
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


def _scores(group: pd.DataFrame, cost: str) -> tuple[npt.NDArray[np.float64], dict[str, pd.DataFrame]]:
    """Return the budgets at which any run's score changes, and each method's scores there, a column a replicate."""
    budgets, keys = np.unique(group[cost].to_numpy(float)), replicates(group.columns)
    held = {}
    for method, runs in group.groupby("method", sort=False):
        each = {
            tuple(map(str, run[keys].iloc[0])): on_grid(run.sort_values(cost, kind="stable"), cost, budgets)
            for _, run in runs.groupby("point")
        }
        held[str(method)] = pd.DataFrame(each)
    return budgets, held


def _behind(other: pd.DataFrame, first: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return at which budgets a method is behind another: significantly, or with few runs by more than a point."""
    shared = [key for key in first.columns if key in other.columns]
    if not shared:
        return np.asarray(first.mean(axis=1) - other.mean(axis=1) > TIED)
    if not first.columns.equals(other.columns):  # picking columns takes most of the time
        first, other = first[shared], other[shared]
    apart = first.to_numpy(float) - other.to_numpy(float)
    orders = [key[:-1] for key in shared]  # what the seeds are nested in
    if len({*orders}) > 1:
        apart = np.stack(
            [apart[:, [one == order for one in orders]].mean(axis=1) for order in dict.fromkeys(orders)], 1
        )
    mean, count = apart.mean(axis=1), apart.shape[1]
    if count < FEWEST:
        return np.asarray(mean > TIED)
    half = stdtrit(count - 1, (1 + CONFIDENCE) / 2) * apart.std(axis=1, ddof=1) / math.sqrt(count)
    return np.asarray(mean - half > 0)


def _stretches(budgets: npt.NDArray[np.float64], held: dict[str, pd.DataFrame], chance: float) -> list[dict[str, Any]]:
    """Return the ranges of budgets with the same leaders, the first once a score is above chance."""
    names, rows = [*held], list[dict[str, Any]]()
    means = np.stack([held[name].to_numpy(float).mean(axis=1) for name in names])
    means = np.where(np.isnan(means), -math.inf, means)
    behind = np.stack([[_behind(held[name], held[first]) for name in names] for first in names])
    leaders: frozenset[int] = frozenset()
    floor = -math.inf if math.isnan(chance) else chance
    for place, budget in enumerate(budgets):
        at = means[:, place]
        best = int(at.argmax())
        if at[best] == -math.inf or at[best] <= floor:
            continue
        near = frozenset(np.flatnonzero((at > -math.inf) & ~behind[best, :, place]).tolist())
        if leaders and leaders <= near:
            continue
        if rows:
            rows[-1]["to"] = budget
        leaders = leaders & near if best in leaders else near
        first, *others = sorted(leaders, key=lambda one: -at[one])
        rest = np.where(np.isin(np.arange(len(at)), [*leaders]), -math.inf, at)
        after = int(rest.argmax())
        known = rest[after] > -math.inf
        rows.append(
            {
                "from": budget, "to": math.inf, "method": " / ".join(names[one] for one in (first, *others)),
                "best": names[first], "score": float(at[first]), "n": held[names[first]].shape[1],
                "next": names[after] if known else "", "next_score": float(rest[after]) if known else math.nan,
            }
        )  # fmt: skip
    return rows

"""The method with the best score for a budget of bytes or of simulated seconds, and where another takes over.

A method is an algorithm with its values of the axes that the user chooses (protocol, algorithm, training, model,
codec); all other axes are conditions, in each of which the methods are compared. A method's score at a budget is that
of the current model when the budget has been spent, averaged over its runs; a method has no score until each of its
runs has one. It is not the best score so far, which could not be picked without looking at the test.

Methods that are not significantly below the best are tied with it (paired differences, see `significance`; with fewer
than five runs those within a point), and leaders stay until they are below; scores that guessing reaches (`chance`)
lead nowhere.  All are compared on one test: where every run of a condition was scored on
the fixed test (see frontier), by that; else by the score over the periods met, once all have arrived, so that a method
that meets its periods late has no score until then.

Not modelled: correction for the many budgets compared.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.axes import replicates, short
from analysis.measures.frontier import in_force
from analysis.statistics.significance import significantly_below
from fedsim.core.arrays import Bools, Floats

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
            tested, test = on_one_test(group)
            stretches = _stretches(*_scores(tested, cost), float(group["chance"].max()))
            rows += [{**place, "cost": cost, "algorithm": of[row["best"]], **row, **test} for row in stretches]
    return pd.DataFrame(rows, columns=[*conditions, *COLUMNS])


def on_one_test(group: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, object]]:
    """Return the rows of a condition that are scores on one test, and which: the columns test and same_test."""
    if group["fixed"].all():
        return group, {"test": "all_periods", "same_test": True}
    group = group.assign(score=group["met"])
    done = group[group["complete"].astype(bool)]
    ends = done.sort_values("time", kind="stable").groupby("run")["periods"].last()
    return done, {"test": "complete", "same_test": bool(ends.max() - ends.min() < 1e-9)}


def _methods(curves: pd.DataFrame, chosen: list[str]) -> pd.Series:
    """Return each row's method as text: the algorithm, and the other choices that differ."""
    labels = curves["algorithm"].astype(str)
    for axis in chosen:
        if axis != "algorithm" and curves[axis].nunique() > 1:
            names = curves[axis].astype(str)
            labels = labels + ", " + (names if axis in CHOSEN else short(axis) + " " + names)
    return labels


@dataclass(frozen=True)
class Scores:
    """A method's scores: which replicate each of its runs is, and their scores at every budget (budgets, runs)."""

    replicates: tuple[tuple[str, ...], ...]
    values: Floats


def _scores(group: pd.DataFrame, cost: str) -> tuple[Floats, dict[str, Scores]]:
    """Return the budgets at which any run's score changes, and each method's scores there."""
    budgets, keys = np.unique(group[cost].to_numpy(float)), replicates(group.columns)
    point = pd.factorize(group["run"], sort=True)[0]
    order = np.lexsort((group[cost].to_numpy(float), point))
    begins = np.flatnonzero(np.diff(point[order], prepend=-1))
    runs = group.iloc[order[begins]]
    along, score = (group[name].to_numpy(float)[order] for name in (cost, "score"))
    ends = [slice(*ends) for ends in zip(begins, [*begins[1:], len(group)], strict=True)]
    each = np.array([in_force(along[run], score[run], budgets) for run in ends])
    names, texts = runs["method"].to_numpy(str), [*zip(*(runs[key].astype(str) for key in keys), strict=True)]
    held = {}
    for method in map(str, group["method"].unique()):
        places = np.flatnonzero(names == method)
        held[method] = Scores(tuple(texts[place] for place in places), each[places].T)
    return budgets, held


def _below(other: Scores, first: Scores) -> Bools:
    """Return at which budgets a method is below another: significantly, or with few runs by more than a point."""
    shared = [key for key in first.replicates if key in other.replicates]
    if not shared:
        return np.asarray(first.values.mean(axis=1) - other.values.mean(axis=1) > TIED)
    if first.replicates == other.replicates:
        apart = first.values - other.values
    else:
        chosen = [[each.replicates.index(key) for key in shared] for each in (first, other)]
        apart = (first.values.T[chosen[0]] - other.values.T[chosen[1]]).T
    return significantly_below(apart, [key[:-1] for key in shared], TIED)


def _stretches(budgets: Floats, held: dict[str, Scores], chance: float) -> list[dict[str, Any]]:
    """Return the ranges of budgets with the same leaders, the first once a score is above chance."""
    names, rows = [*held], list[dict[str, Any]]()
    means = np.stack([held[name].values.mean(axis=1) for name in names])
    means = np.where(np.isnan(means), -math.inf, means)
    below = np.stack([[_below(held[name], held[first]) for name in names] for first in names])
    leaders: frozenset[int] = frozenset()
    floor = -math.inf if math.isnan(chance) else chance
    for place, budget in enumerate(budgets):
        at = means[:, place]
        best = int(at.argmax())
        if at[best] == -math.inf or at[best] <= floor:
            continue
        near = frozenset(np.flatnonzero((at > -math.inf) & ~below[best, :, place]).tolist())
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
                "best": names[first], "score": float(at[first]), "n": len(held[names[first]].replicates),
                "next": names[after] if known else "", "next_score": float(rest[after]) if known else math.nan,
            }
        )  # fmt: skip
    return rows

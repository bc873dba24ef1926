"""Which algorithm is first, in words that are computed from the means over replicates.

Not modelled: significance. "First" compares means; whether two of them differ by more than their spread is left to the
reader, who sees it beside them.
"""

from collections import Counter
from dataclasses import dataclass

import pandas as pd

from analysis.axes import best_end, short
from analysis.quantity import BYTES, PERCENT, SECONDS, show


@dataclass(frozen=True)
class Answer:
    """One condition of the sweep and what can be said of it.

    `first` and `cheapest` are None where nobody reached the target with every run, `best` (who has the best final
    score) where nothing was scored or compared; `goal` is the target in words, "" without one.
    """

    condition: str
    sentence: str
    first: str | None
    cheapest: str | None
    best: str | None
    goal: str


def answers(means: pd.DataFrame, axes: list[str]) -> list[Answer]:
    """Return an answer for each condition, in the order of the frame (see tables.means)."""
    varied = [axis for axis in axes if means[axis].nunique() > 1]
    if not varied:
        return [_answer("all conditions", means)]
    groups = means.groupby(varied, sort=False)
    return [_answer(condition_of(dict(zip(varied, map(str, key), strict=True))), rows) for key, rows in groups]


def condition_of(values: dict[str, str]) -> str:
    """Return "latency 10 ms, participation 0.3"."""
    return ", ".join(f"{short(axis)} {value}" for axis, value in values.items())


def easiest(rows: pd.DataFrame, axes: list[str]) -> tuple[pd.DataFrame, str]:
    """Return the rows under the easiest value of every axis in turn (see axes.best_end), and "At ... . " or ""."""
    where: dict[str, str] = {}
    for axis in axes:
        if rows[axis].nunique() > 1:
            where[axis] = best_end(axis, list(rows[axis]))
            rows = rows[rows[axis] == where[axis]]
    return rows, f"At {condition_of(where)}. " if where else ""


def overall(found: list[Answer]) -> str:
    """Return how often each algorithm is first and cheapest, in one or two sentences; "" for a single condition.

    Where that is nobody anywhere, how often each has the best final score.
    """
    if len(found) < 2:
        return ""
    if not any(answer.first for answer in found):
        goals = "/".join(dict.fromkeys(answer.goal for answer in found if answer.goal))
        none = f"No algorithm reaches {goals} with every run in any condition." if goals else "No target was set."
        wins = Counter(answer.best for answer in found if answer.best is not None)
        told = ", ".join(f"{name} in {count}" for name, count in wins.most_common())
        return f"{none} Of {len(found)} conditions, best final score: {told}." if told else none
    parts = []
    for what, names in (("first", [a.first for a in found]), ("cheapest in bytes", [a.cheapest for a in found])):
        wins = Counter(name for name in names if name is not None)
        if wins:
            told = ", ".join(f"{name} in {count}" for name, count in wins.most_common())
            parts.append(f"Of {len(found)} conditions, {what} to the target: {told}.")
    open_ones = sum(a.first is None for a in found)
    if open_ones and parts:
        parts.append(f"In {open_ones} of them no algorithm reached it with every run.")
    return " ".join(parts)


def _answer(condition: str, rows: pd.DataFrame) -> Answer:
    leading = rows[rows["score"] == rows["score"].max()]["algorithm"].tolist()
    best = _listed(leading) if leading and len(rows) > 1 else None
    if rows["target"].isna().all():
        return Answer(condition, f"No target was set. {_scores(rows)}", None, None, best, "")
    goal = "/".join(show(target, PERCENT) for target in rows["target"].dropna().unique())
    if rows["score"].isna().all():
        return Answer(condition, f"Nothing was scored, so {goal} was not reached.", None, None, best, goal)
    sure = rows[rows["reached"] == rows["n"]].sort_values("seconds_to_target", kind="stable")
    some = rows[(rows["reached"] > 0) & (rows["reached"] < rows["n"])]
    never = rows[rows["reached"] == 0]
    parts = []
    ahead = sure[sure["seconds_to_target"] == sure["seconds_to_target"].min()]
    if len(sure):
        told = [f"{row['algorithm']} after {_cost(row)}" for _, row in sure.iterrows()]
        place = "" if len(rows) == 1 else " first" if len(ahead) == 1 else " first, together"
        verb = "reaches" if len(ahead) == 1 else "reach"
        parts.append(f"{_listed(ahead['algorithm'].tolist())} {verb} {goal}{place}: {', then '.join(told)}.")
    parts += [
        f"{row['algorithm']} reaches it with {row['reached']} of {row['n']} runs only, then after {_cost(row)}."
        for _, row in some.iterrows()
    ]
    if len(never) == len(rows):
        parts = [f"No algorithm reaches {goal}. {_scores(rows)}"]
    elif len(never):
        parts.append(f"{_listed(never['algorithm'].tolist())} never {'reaches' if len(never) == 1 else 'reach'} it.")
    least = sure[sure["bytes_to_target"] == sure["bytes_to_target"].min()]
    cheapest = _listed(least["algorithm"].tolist()) if len(sure) else None
    first = _listed(ahead["algorithm"].tolist()) if len(sure) else None
    if cheapest != first:
        parts.append(f"Cheapest in bytes: {cheapest}.")
    return Answer(condition, " ".join(parts), first, cheapest, best, goal)


def _cost(row: "pd.Series[float]") -> str:
    time = show(row["seconds_to_target"], SECONDS, row["seconds_to_target_sd"])
    return f"{time} and {show(row['bytes_to_target'], BYTES, row['bytes_to_target_sd'])}"


def _scores(rows: pd.DataFrame) -> str:
    known = rows.dropna(subset="score").sort_values("score", ascending=False, kind="stable")
    if known.empty:
        return "Nothing was scored."
    told = [f"{row['algorithm']} {show(row['score'], PERCENT, row['score_sd'])}" for _, row in known.iterrows()]
    return f"Final scores, best first: {', '.join(told)}."


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""The leader in each condition of a sweep, and whether the lead is significant.

The leader has the best mean over its replicates. Where each rival shares five replicates with it or more, paired
differences are tested (see intervals), and those who are not significantly behind are level with it. With fewer, a lead
cannot be tested; it is only reported whether the leader was ahead in each of them.

Not modelled: correction for many comparisons, and for the leader having been chosen by the data it is compared on.
"""

import math
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.axes import replicates
from analysis.intervals import interval

Kind = Literal["lead", "level", "alone", "some", "none"]


@dataclass(frozen=True)
class Outcome:
    """The result of one condition.

    lead: one name is ahead; level: the names are not significantly apart, the best mean first; alone: there is nothing
    to compare with; some: no name has the value in every run, these have it in `share` of them; none: no name has it.

    `value` is the best mean, `rival` and `behind` the next one and its mean. `only` says that no other has the value
    in every run, `always` that the leader was ahead in every replicate, `tested` whether all differences were tested.
    """

    place: dict[str, str]
    kind: Kind
    names: tuple[str, ...] = ()
    value: float = math.nan
    rival: str = ""
    behind: float = math.nan
    only: bool = False
    always: bool = True
    tested: bool = False
    margin: tuple[float, float, float] | None = None  # of the leader over the next: mean, and the interval's ends
    share: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # names that lack the value in some run
    compared: int = 1  # number of names


def contest(points: pd.DataFrame, axes: list[str], who: str, value: str, *, least: bool) -> list[Outcome]:
    """Return each condition's outcome, in order: of a column of `points`, the `least` or else the most being best.

    A name that lacks the value in some run cannot lead.
    """
    used = points[[*axes, who, *replicates(points.columns), value]]
    groups = used.groupby(axes, sort=False) if axes else [((), used)]
    return [_outcome(dict(zip(axes, map(str, key), strict=True)), runs, who, value, least) for key, runs in groups]


def _outcome(place: dict[str, str], runs: pd.DataFrame, who: str, value: str, least: bool) -> Outcome:
    methods = {str(name): rows for name, rows in runs.groupby(who, sort=False)}
    known = {name: int(rows[value].notna().sum()) for name, rows in methods.items()}
    whole = {name: interval(rows, value).mean for name, rows in methods.items() if known[name] == len(rows)}
    missing = tuple(name for name in methods if name not in whole)
    if not whole:
        some = sorted((name for name in methods if known[name]), key=lambda name: -known[name] / len(methods[name]))
        share = tuple(f"{known[name]} of {len(methods[name])}" for name in some)
        return Outcome(
            place, "some" if some else "none", tuple(some), share=share, missing=missing, compared=len(methods)
        )
    count = len(methods)
    sign = 1 if least else -1
    first, *rest = sorted(whole, key=lambda name: sign * whole[name])
    if count == 1:
        return Outcome(place, "alone", (first,), whole[first])
    if not rest:
        return Outcome(place, "lead", (first,), whole[first], only=True, missing=missing, compared=count)
    apart = {name: _differences(methods[name], methods[first], value) for name in rest}
    found = {name: interval(pairs, "difference").excludes_zero for name, pairs in apart.items()}
    sure = interval(apart[rest[0]], "difference")
    ends = sorted((-sure.low, -sure.high))
    level = [name for name in rest if found[name] is False or whole[name] == whole[first]]
    return Outcome(
        place, "level" if level else "lead", (first, *level), whole[first], rest[0], whole[rest[0]],
        always=all(bool((sign * pairs["difference"] > 0).all()) for pairs in apart.values()),
        tested=None not in found.values(), missing=missing, compared=count,
        margin=None if sure.excludes_zero is None else (-sure.mean, ends[0], ends[1]),
    )  # fmt: skip


def _differences(runs: pd.DataFrame, first: pd.DataFrame, value: str) -> pd.DataFrame:
    """Return one row per shared replicate: its columns and the `difference`, runs minus first."""
    by = replicates(runs.columns)
    both = runs[[*by, value]].merge(first[[*by, value]], on=by, suffixes=("", "_first"))
    return both[by].assign(difference=both[value] - both[f"{value}_first"])

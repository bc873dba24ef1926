"""Compare the contenders of a setting by paired differences: seed by seed, since a seed gives all the same data.

The leader at a budget has the best mean over all seeds of the setting.  Another contender is significantly below it if
the 95 % interval (Student's t) of their paired differences excludes zero, else tied with it.  A contender that lacks a
score in some seed cannot lead, and with fewer than five common seeds it is not tested.

All pairs of contenders are also compared by their last scores.  Of the pairs that do not differ, about one in twenty
seems to differ by chance, so each is also tested with Holm's correction over all pairs of the setting (S. Holm,
Scandinavian Journal of Statistics 6, 1979).

Not modelled: correction for many comparisons with leaders, and for a leader having been chosen by the scores that it is
compared on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import pandas as pd
from scipy.stats import ttest_1samp

from analysis.statistics.intervals import CONFIDENCE, FEWEST, Interval, interval
from analysis.statistics.significance import differences
from fedsim.reference.cell import Contender

NOTHING = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Standing:
    """A contender at a budget: the mean of its seeds' scores, and its difference from the leader (fractions).

    `untested`: it shares too few seeds with the leader, or nobody leads.  `unscored`: it has no score.
    """

    contender: Contender
    status: Literal["leader", "tied", "below", "untested", "unscored"]
    score: Interval
    difference: Interval = NOTHING

    @property
    def seeds(self) -> int:
        """How many seeds have a score."""
        return len(self.score.units)


@dataclass(frozen=True)
class Standings:
    """All contenders of a setting at one budget, the best mean first, and the number of the setting's seeds."""

    rows: tuple[Standing, ...]
    seeds: int

    @property
    def leader(self) -> Contender | None:
        """The leader, if any contender has a score in all seeds."""
        return next((row.contender for row in self.rows if row.status == "leader"), None)

    @property
    def best(self) -> float:
        """The leader's mean score; NaN without a leader."""
        return next((row.score.mean for row in self.rows if row.status == "leader"), math.nan)

    @property
    def tied(self) -> list[Contender]:
        """Those who are tied with the leader, without it."""
        return [row.contender for row in self.rows if row.status == "tied"]

    @property
    def scored(self) -> list[Standing]:
        """Those who have a score."""
        return [row for row in self.rows if row.status != "unscored"]

    def of(self, contender: Contender) -> Standing | None:
        """Return a contender's standing, None if it was not run here."""
        return next((row for row in self.rows if row.contender == contender), None)


def standings(runs: pd.DataFrame, column: str, names: Sequence[Contender] = ()) -> Standings:
    """Return the standings of one setting with one kind of links; `runs` are its rows of scores.scores.

    `names` are all contenders that were started, also those without a run that is done.
    """
    seeds = runs["seed"].nunique()
    known = scored(runs, column)
    values = {name: known.get(name, runs.iloc[:0]) for name in sorted({*names, *known})}
    means = {name: interval(rows, column) for name, rows in values.items()}
    order = sorted(values, key=lambda name: -means[name].mean if len(values[name]) else math.inf)
    leader = next((name for name in order if seeds and len(values[name]) == seeds), None)
    rows = []
    for name in order:
        gap = NOTHING
        if leader and name != leader and len(values[name]):
            _, gap = differences(values[name], values[leader], column)
        rows.append(Standing(name, _status(name, leader, means[name], gap), means[name], gap))
    return Standings(tuple(rows), seeds)


def scored(runs: pd.DataFrame, column: str) -> dict[Contender, pd.DataFrame]:
    """Return the runs of each contender that have a score."""
    groups = runs.groupby(["method", "protocol"])
    return {Contender(*map(str, key)): rows[rows[column].notna()] for key, rows in groups}


def _status(
    name: Contender, leader: Contender | None, score: Interval, gap: Interval
) -> Literal["leader", "tied", "below", "untested", "unscored"]:
    if not score.units:
        return "unscored"
    if name == leader:
        return "leader"
    if gap.excludes_zero is None:
        return "untested"
    return "below" if gap.excludes_zero else "tied"


@dataclass(frozen=True)
class Pair:
    """Two contenders, the first's difference from the second, and its p-value (two-sided; NaN if not tested).

    `holm` says whether it is significant with Holm's correction over all pairs of the setting.
    """

    first: Contender
    second: Contender
    difference: Interval
    p: float
    holm: bool = False

    @property
    def tested(self) -> bool:
        """Whether there were enough common seeds."""
        return self.difference.excludes_zero is not None

    @property
    def significant(self) -> bool:
        """Whether the difference is significant without the correction."""
        return bool(self.difference.excludes_zero)


def pairs(runs: pd.DataFrame, column: str, order: Sequence[Contender]) -> tuple[Pair, ...]:
    """Return all pairs of `order`; `runs` are the rows of one setting with one kind of links (see scores.scores)."""
    known = scored(runs, column)
    gaps = {
        (first, second): differences(known[first], known[second], column)[1] for first, second in combinations(order, 2)
    }
    compared = [Pair(*names, gap, p_value(gap)) for names, gap in gaps.items()]
    rejected = holm([pair.p for pair in compared])
    return tuple(replace(pair, holm=significant) for pair, significant in zip(compared, rejected, strict=True))


def p_value(gap: Interval) -> float:
    """Return the two-sided p-value of Student's t for a mean of zero; NaN for too few units."""
    if len(gap.units) < FEWEST or len({*gap.units}) == 1:
        return float(gap.mean == 0) if len(gap.units) >= FEWEST else math.nan
    return float(ttest_1samp(gap.units, 0).pvalue)


def holm(values: Sequence[float]) -> list[bool]:
    """Return which hypotheses are rejected at 5 % in all together, by Holm's steps down; NaN is no hypothesis."""
    known = sorted((value, place) for place, value in enumerate(values) if not math.isnan(value))
    rejected = [False] * len(values)
    for step, (value, place) in enumerate(known):
        if value > (1 - CONFIDENCE) / (len(known) - step):
            break
        rejected[place] = True
    return rejected

"""Who leads a setting at a budget, and who is level with the leader.

The leader has the best mean over all seeds of the setting. Every other contender is compared with it by the paired
differences of their common seeds: level if the 95 % interval (Student's t) of these includes zero, else behind. A
contender that lacks a score in some seed cannot lead, and with fewer than five common seeds it is not compared.

Not modelled: correction for many comparisons, and for the leader having been chosen by the scores that it is compared
on.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from analysis.intervals import Interval, t_interval
from fedsim.reference.paired import BySeed, by_seed, difference
from fedsim.reference.terms import Contender

Kind = Literal["leader", "level", "behind", "untested", "none"]
NOTHING = Interval(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Standing:
    """One contender at a budget: the mean of its `seeds` scores, and its difference from the leader (fractions).

    `none` has no score, `untested` shares too few seeds with the leader, or there is no leader.
    """

    contender: Contender
    kind: Kind
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
        return next((row.contender for row in self.rows if row.kind == "leader"), None)

    @property
    def best(self) -> float:
        """The leader's mean score; NaN without a leader."""
        return next((row.score.mean for row in self.rows if row.kind == "leader"), math.nan)

    @property
    def level(self) -> list[Contender]:
        """Those who are level with the leader, without it."""
        return [row.contender for row in self.rows if row.kind == "level"]

    def of(self, contender: Contender) -> Standing | None:
        """Return a contender's place, None if it was not run here."""
        return next((row for row in self.rows if row.contender == contender), None)


def standings(runs: pd.DataFrame, column: str, names: Sequence[Contender] = ()) -> Standings:
    """Return the standings of one setting with one kind of links; `runs` are its rows of scores.scores.

    `names` are all contenders that were started, also those without a run that is done.
    """
    seeds = runs["seed"].nunique()
    known = by_seed(runs, column)
    every = {*names, *map(Contender._make, zip(runs["method"], runs["protocol"], strict=True))}
    values = {name: known.get(name, {}) for name in sorted(every)}
    means = {name: t_interval(own[seed] for seed in sorted(own)) for name, own in values.items()}
    order = sorted(values, key=lambda name: -means[name].mean if values[name] else math.inf)
    first = next((name for name in order if seeds and len(values[name]) == seeds), None)
    lead = values[first] if first else None
    return Standings(tuple(_standing(name, values[name], means[name], lead) for name in order), seeds)


def _standing(name: Contender, own: BySeed, mean: Interval, lead: BySeed | None) -> Standing:
    if not own:
        return Standing(name, "none", mean)
    if own is lead:
        return Standing(name, "leader", mean)
    apart = NOTHING if lead is None else difference(own, lead)
    if apart.excludes_zero is None:
        return Standing(name, "untested", mean, apart)
    return Standing(name, "behind" if apart.excludes_zero else "level", mean, apart)

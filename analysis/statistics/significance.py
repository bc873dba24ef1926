"""Compare the methods of each condition: ranked by their means, and the leader tested against each of the others.

With five shared replicates or more, paired differences are tested (see intervals), and who is not significantly behind
the leader is tied with it. With fewer, no lead can be tested, and who is ahead in some of them is tied.

Not modelled: correction for many comparisons, and for the leader having been chosen by the data it is compared on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.axes import replicates
from analysis.statistics.intervals import FEWEST, Interval, half_width, interval, nested
from fedsim.core.arrays import Bools, Floats

AT_FIRST = {f"{cost}_to_target": "target_at_first" for cost in ("seconds", "bytes")}  # see frontier.Reached


@dataclass(frozen=True)
class Lead:
    """The leader's paired differences from one rival, replicate by replicate."""

    rival: str
    difference: Interval  # leader minus rival
    ahead_in_every_run: bool

    @property
    def significant(self) -> bool | None:
        """Whether the 95 % interval excludes zero; None with too few runs to tell."""
        return self.difference.excludes_zero

    @property
    def ahead(self) -> bool:
        """Whether the rival is behind: significantly, or with too few runs to tell in every one."""
        return self.ahead_in_every_run if self.significant is None else self.significant


@dataclass(frozen=True)
class Comparison:
    """The methods of one condition: ranked by their means, and those that are not ranked."""

    condition: Mapping[str, str]
    ranking: tuple[str, ...]
    means: Mapping[str, float]
    leads: tuple[Lead, ...]  # in the order of the ranking
    incomplete: Mapping[str, tuple[int, int]]  # of methods that lack the value in some run: runs that have it, and all
    known: int = 0  # runs that have the value
    at_first: int = 0  # runs that had it at the first scoring that counted: it says when counting began

    @property
    def tied(self) -> list[str]:
        """The rivals that are not behind the leader."""
        best = self.means[self.ranking[0]] if self.ranking else None
        return [lead.rival for lead in self.leads if not lead.ahead or self.means[lead.rival] == best]

    @property
    def at_once(self) -> bool:
        """Whether most runs had the value at the first scoring that counted, so that methods cannot be ranked by it."""
        return 2 * self.at_first > self.known

    @property
    def leaders(self) -> tuple[str, ...]:
        """The leader and who is tied with it; none where no method is ranked."""
        return (self.ranking[0], *self.tied) if self.ranking and not self.at_once else ()

    @property
    def next(self) -> str:
        """The best method that is behind the leaders, "" if there is none."""
        return next((name for name in self.ranking if self.leaders and name not in self.leaders), "")

    @property
    def tested(self) -> bool:
        """Whether there were enough runs to test every lead."""
        return all(lead.significant is not None for lead in self.leads)


def comparisons(
    points: pd.DataFrame, axes: list[str], by: str, value: str, *, lower_is_better: bool
) -> list[Comparison]:
    """Return the comparison of each condition, in order, by a column of `points`; see `compare`."""
    groups = points.groupby(axes, sort=False) if axes else [((), points)]
    return [
        compare(dict(zip(axes, map(str, key), strict=True)), runs, by, value, lower_is_better=lower_is_better)
        for key, runs in groups
    ]


def compare(
    condition: Mapping[str, str], runs: pd.DataFrame, by: str, value: str, *, lower_is_better: bool
) -> Comparison:
    """Rank the methods of one condition, and test the leader against each of the others.

    A method that lacks the value in some run is not ranked.
    """
    methods = {str(name): rows for name, rows in runs.groupby(by, sort=False)}
    known = {name: int(rows[value].notna().sum()) for name, rows in methods.items()}
    complete = {name: rows for name, rows in methods.items() if known[name] == len(rows)}
    means = {name: interval(rows, value).mean for name, rows in complete.items()}
    ranking = sorted(means, key=lambda name: means[name], reverse=not lower_is_better)
    leads = []
    for rival in ranking[1:]:
        apart, found = differences(complete[ranking[0]], complete[rival], value)
        leads.append(Lead(rival, found, bool((apart < 0).all() if lower_is_better else (apart > 0).all())))
    incomplete = {name: (known[name], len(rows)) for name, rows in methods.items() if name not in complete}
    first = AT_FIRST.get(value, "")
    at_first = int((runs.loc[runs[value].notna(), first] > 0.5).sum()) if first in runs else 0
    return Comparison(condition, tuple(ranking), means, tuple(leads), incomplete, sum(known.values()), at_first)


def differences(runs: pd.DataFrame, others: pd.DataFrame, value: str) -> tuple[Floats, Interval]:
    """Return a method's paired differences from another, over the replicates that both have the value in, and their
    interval, nesting respected (see intervals).
    """
    by = replicates(runs.columns)
    pairs = dict(zip(zip(*(others[name] for name in by), strict=True), others[value].to_numpy(float), strict=True))
    keys = [*zip(*(runs[name] for name in by), strict=True)]
    apart = runs[value].to_numpy(float) - np.array([pairs.get(key, math.nan) for key in keys], float)
    known = ~np.isnan(apart)
    outer = [np.array([key[place] for key in keys])[known] for place in range(len(by) - 1)]
    return apart[known], nested(apart[known], outer)


def significantly_below(apart: Floats, orders: Sequence[object], fewest: float) -> Bools:
    """Return where the differences of a leader from another, columns of paired runs, show that the other is below it.

    `apart` is of shape (places, pairs), `orders` says of each pair what its seed is nested in. With fewer than five
    units it is below where the mean difference is more than `fewest`.
    """
    if len({*orders}) > 1:
        each = [[order == one for one in orders] for order in dict.fromkeys(orders)]
        apart = np.stack([apart[:, chosen].mean(axis=1) for chosen in each], 1)
    mean, count = apart.mean(axis=1), apart.shape[1]
    if count < FEWEST:
        return np.asarray(mean > fewest)
    return np.asarray(mean - half_width(apart.std(axis=1, ddof=1), count) > 0)

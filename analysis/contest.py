"""Compare the methods of each condition: ranked by their means, and the leader tested against each of the others.

With five shared replicates or more, paired differences are tested (see intervals), and who is not significantly behind
the leader is tied with it. With fewer, no lead can be tested, and who is ahead in some of them is tied.

Not modelled: correction for many comparisons, and for the leader having been chosen by the data it is compared on.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis.axes import replicates
from analysis.intervals import Interval, interval

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
    complete = {name: rows for name, rows in methods.items() if rows[value].notna().all()}
    means = {name: interval(rows, value).mean for name, rows in complete.items()}
    ranking = sorted(means, key=lambda name: means[name], reverse=not lower_is_better)
    leads = [
        paired_lead(complete[ranking[0]], complete[rival], rival, value, lower_is_better=lower_is_better)
        for rival in ranking[1:]
    ]
    incomplete = {
        name: (int(rows[value].notna().sum()), len(rows)) for name, rows in methods.items() if name not in complete
    }
    known = runs[runs[value].notna()]
    first = AT_FIRST.get(value, "")
    at_first = int((known[first] > 0.5).sum()) if first in known else 0
    return Comparison(condition, tuple(ranking), means, tuple(leads), incomplete, len(known), at_first)


def paired_lead(leader: pd.DataFrame, runs: pd.DataFrame, rival: str, value: str, *, lower_is_better: bool) -> Lead:
    """Return the leader's lead over a rival, over their shared replicates."""
    by = replicates(leader.columns)
    both = leader[[*by, value]].merge(runs[[*by, value]], on=by, suffixes=("", "_rival"))
    pairs = both[by].assign(difference=both[value] - both[f"{value}_rival"])
    ahead = pairs["difference"] < 0 if lower_is_better else pairs["difference"] > 0
    return Lead(rival, interval(pairs, "difference"), bool(ahead.all()))

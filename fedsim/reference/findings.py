"""All that the page shows, computed once from the tables and the budgets.

A setting that was also run with half of all clients' rates is compared at the same six budgets, among the contenders
that were run with both.  The leader changes if another contender leads; significantly, if the one that led is then
significantly below it.  Where nobody has a score in all seeds with one of the two, nothing is compared.

Not modelled: other changes of the links, such as their latencies.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from fedsim.reference.cell import GIVEN, HALVED, SHARES, Budget, Budgets, BudgetShare, Contender, SettingKey
from fedsim.reference.comparisons import Pair, Standings, pairs, standings
from fedsim.reference.results import Results
from fedsim.reference.scores import FINAL, Cost, costs, scores, trained

CONTENDER = [*Contender._fields]
BEST = 0.9  # of the best mean final score: the target of costs


@dataclass(frozen=True)
class Outcome:
    """One setting, with its links as given: the standings at the six budgets and within both, costs and pairs.

    `target` is 90 % of the best mean final score.
    """

    setting: SettingKey
    budget: Budget
    at: Mapping[BudgetShare, Standings]
    final: Standings
    target: float
    costs: Mapping[Contender, Cost]
    pairs: tuple[Pair, ...]
    runs: pd.DataFrame  # the setting's rows of scores.scores

    @property
    def tested(self) -> list[Pair]:
        """The pairs with enough common seeds."""
        return [pair for pair in self.pairs if pair.tested]


@dataclass(frozen=True)
class LinkComparison:
    """The leaders of a setting at a budget, with the links as given and with halved ones.

    `significant` says whether the one that led is then significantly below the other.
    """

    setting: SettingKey
    budget: BudgetShare
    given: Contender
    halved: Contender
    significant: bool

    @property
    def changes(self) -> bool:
        """Whether another contender leads."""
        return self.given != self.halved


@dataclass(frozen=True)
class Findings:
    """The settings in order, and the comparisons with halved links."""

    outcomes: tuple[Outcome, ...]
    halved: tuple[LinkComparison, ...]
    courses: pd.DataFrame  # of all runs, see scores.trained

    @property
    def level(self) -> float:
        """The share of all tested pairs without a significant difference with Holm's correction within a setting."""
        tested = [pair for outcome in self.outcomes for pair in outcome.tested]
        return sum(not pair.holm for pair in tested) / max(1, len(tested))

    @property
    def changes(self) -> list[LinkComparison]:
        """The comparisons in which another contender leads with halved links."""
        return [comparison for comparison in self.halved if comparison.changes]


def findings(results: Results, budgets: Budgets) -> Findings:
    """Return what the tables say. Raises UserError for a setting without budgets, and for a run without a course."""
    runs, courses = scores(results, budgets), trained(results)
    outcomes = tuple(_outcomes(results.cells, courses, runs, budgets))
    return Findings(outcomes, tuple(link_comparisons(runs)), courses)


def _outcomes(cells: pd.DataFrame, courses: pd.DataFrame, runs: pd.DataFrame, budgets: Budgets) -> Iterator[Outcome]:
    runs = runs[runs["links"] == GIVEN]
    for key, started in cells[cells["links"] == GIVEN].groupby([*SettingKey._fields]):
        setting = SettingKey(*map(str, key))
        of_setting = runs[(runs[[*SettingKey._fields]] == list(setting)).all(axis=1)]
        names = [Contender(*map(str, name)) for name, _ in started.groupby(CONTENDER)]
        final = standings(of_setting, FINAL, names)
        target = BEST * final.best
        yield Outcome(
            setting,
            budgets[setting],
            {share: standings(of_setting, str(share), names) for share in SHARES},
            final,
            target,
            {cost.contender: cost for cost in costs(started, courses, target, final.seeds)},
            pairs(of_setting, FINAL, [row.contender for row in final.scored]),
            of_setting,
        )


def link_comparisons(runs: pd.DataFrame) -> Iterator[LinkComparison]:
    """Yield what can be compared, setting by setting; `runs` are those of scores.scores."""
    for key, of_setting in runs.groupby([*SettingKey._fields]):
        given, halved = (of_setting[of_setting["links"] == links] for links in (GIVEN, HALVED))
        pairs_of_links = ((given, halved), (halved, given))
        both = [one.merge(other[CONTENDER].drop_duplicates()) for one, other in pairs_of_links]
        for share in SHARES if len(both[0]) else ():
            before, after = (standings(part, str(share)) for part in both)
            if before.leader and after.leader:
                then = after.of(before.leader)
                below = then is not None and then.status == "below"
                yield LinkComparison(SettingKey(*map(str, key)), share, before.leader, after.leader, below)

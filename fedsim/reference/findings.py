"""All that the page says, computed once from the tables and the budgets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd

from fedsim.reference.cell import GIVEN
from fedsim.reference.pairs import Pair, pairs
from fedsim.reference.plan import Budget
from fedsim.reference.results import Results
from fedsim.reference.scores import FINAL, FINISHED, scores, trained
from fedsim.reference.sensitivity import Compared, sensitivity
from fedsim.reference.standings import Standings, standings
from fedsim.reference.terms import SHARES, Allowed, Contender, Setting, Share
from fedsim.reference.to_target import Cost, costs, target


@dataclass(frozen=True)
class Outcome:
    """One setting, with its links as given: the standings at the six budgets and at the end, costs and pairs."""

    setting: Setting
    budget: Budget
    at: Mapping[Share, Standings]
    final: Standings
    target: float
    costs: Mapping[Contender, Cost]
    pairs: tuple[Pair, ...]
    runs: pd.DataFrame  # the setting's rows of scores.scores
    spent: Mapping[Contender, float]  # mean bytes at the end of the finished runs

    @property
    def level_pairs(self) -> list[Pair]:
        """The pairs that were tested and cannot be told apart."""
        return [pair for pair in self.pairs if pair.tested and not pair.apart]


@dataclass(frozen=True)
class Findings:
    """The settings in order, and the comparisons with halved links."""

    outcomes: tuple[Outcome, ...]
    halved: tuple[Compared, ...]
    courses: pd.DataFrame  # of all runs, see scores.trained

    @property
    def flips(self) -> list[Compared]:
        """The comparisons in which another contender leads with halved links."""
        return [one for one in self.halved if one.flips]

    def leaders(self, budget: Share) -> list[Contender]:
        """Return the leaders at a budget, one a setting that has one."""
        return [leader for one in self.outcomes if (leader := one.at[budget].leader)]


def findings(results: Results, budgets: Allowed) -> Findings:
    """Return what the tables say. Raises UserError for a setting without budgets, and for a run without a course."""
    found, courses = scores(results, budgets), trained(results)
    return Findings(tuple(_outcomes(results.cells, courses, found, budgets)), sensitivity(found), courses)


def _outcomes(cells: pd.DataFrame, courses: pd.DataFrame, found: pd.DataFrame, budgets: Allowed) -> Iterator[Outcome]:
    cells = cells[cells["links"] == GIVEN]
    given = found[found["links"] == GIVEN]
    for key, own in cells.groupby([*Setting._fields]):
        setting = Setting(*map(str, key))
        runs = given[(given[[*Setting._fields]] == list(setting)).all(axis=1)]
        names = [Contender(*map(str, name)) for name, _ in own.groupby(["method", "protocol"])]
        at = {budget: standings(runs, str(budget), names) for budget in SHARES}
        final = standings(runs, FINAL, names)
        goal = target(final)
        spent = own[own["status"].isin(FINISHED)].groupby(["method", "protocol"])["bytes"].mean()
        yield Outcome(
            setting, budgets[setting], at, final, goal,
            {cost.contender: cost for cost in costs(own, courses, goal, final.seeds)},
            pairs(runs, [row.contender for row in final.rows if row.kind != "none"]), runs,
            {Contender(*name): float(spent[name]) for name in spent.index},
        )  # fmt: skip

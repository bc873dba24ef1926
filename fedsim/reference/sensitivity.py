"""Whether halved links change who leads.

Each setting that was also run with half of all clients' rates is compared at the same six budgets, among the
contenders that were run with both. A conclusion flips if another contender leads, and significantly so if the one that
led is then behind it (see standings). Where nobody has a score in all seeds with one of the two, nothing is compared.

Not modelled: other changes of the links, such as their latencies.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from fedsim.reference.cell import GIVEN, HALVED
from fedsim.reference.scores import PLACE
from fedsim.reference.standings import standings
from fedsim.reference.terms import SHARES, Contender, Setting, Share


@dataclass(frozen=True)
class Compared:
    """The leaders of a setting at a budget, with the links as given and with halved ones.

    `significant` says whether the one that led is then significantly behind the other.
    """

    setting: Setting
    budget: Share
    given: Contender
    halved: Contender
    significant: bool

    @property
    def flips(self) -> bool:
        """Whether another contender leads."""
        return self.given != self.halved


def sensitivity(scores: pd.DataFrame) -> tuple[Compared, ...]:
    """Return what could be compared, setting by setting; `scores` are those of scores.scores."""
    return tuple(
        found
        for key, runs in scores.groupby([*Setting._fields])
        for found in _compared(Setting(*map(str, key)), runs)
    )  # fmt: skip


def _compared(setting: Setting, runs: pd.DataFrame) -> Iterator[Compared]:
    given, halved = (runs[runs["links"] == links] for links in (GIVEN, HALVED))
    given, halved = _also_in(given, halved), _also_in(halved, given)
    if given.empty:
        return
    for budget in SHARES:
        before, after = (standings(part, str(budget)) for part in (given, halved))
        if before.leader and after.leader:
            then = after.of(before.leader)
            behind = then is not None and then.kind == "behind"
            yield Compared(setting, budget, before.leader, after.leader, behind)


def _also_in(runs: pd.DataFrame, others: pd.DataFrame) -> pd.DataFrame:
    by = [name for name in PLACE if name in ("method", "protocol")]
    known = set(map(tuple, others[by].to_numpy()))
    return runs[[tuple(row) in known for row in runs[by].to_numpy()]]

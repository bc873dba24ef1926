"""Paired differences of two contenders: seed by seed, because a seed gives all of them the same data and clients."""

from collections.abc import Mapping

import pandas as pd

from analysis.intervals import Interval, t_interval
from fedsim.reference.terms import Contender

BySeed = Mapping[int, float]  # scores of one contender, without missing ones


def by_seed(runs: pd.DataFrame, column: str) -> dict[Contender, dict[int, float]]:
    """Return each contender's scores; `runs` are of one setting with one kind of links (see scores.scores).

    A contender without any score is not among them.
    """
    found: dict[Contender, dict[int, float]] = {}
    rows = zip(runs["method"], runs["protocol"], runs["seed"], runs[column], strict=True)
    for method, protocol, seed, score in rows:
        if score == score:
            found.setdefault(Contender(method, protocol), {})[int(seed)] = float(score)
    return found


def difference(one: BySeed, other: BySeed) -> Interval:
    """Return mean and interval of `one` less `other` over their common seeds; no interval for fewer than five."""
    return t_interval(one[seed] - other[seed] for seed in sorted({*one} & {*other}))

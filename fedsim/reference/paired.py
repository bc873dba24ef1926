"""Paired differences of two contenders: seed by seed, because a seed gives all of them the same data and clients."""

import pandas as pd

from analysis.intervals import Interval, t_interval
from fedsim.reference.terms import Contender


def of(runs: pd.DataFrame, contender: Contender, column: str) -> pd.Series:
    """Return a contender's scores by seed, without missing ones; `runs` are of one setting (see scores.scores)."""
    own = runs[(runs["method"] == contender.method) & (runs["protocol"] == contender.protocol)]
    return own.dropna(subset=column).set_index("seed")[column].sort_index()


def difference(one: pd.Series, other: pd.Series) -> Interval:
    """Return mean and interval of `one` less `other` over their common seeds; no interval for fewer than five."""
    return t_interval((one - other).dropna().sort_index())

"""Which pairs of contenders cannot be told apart by the last scores of their runs.

A pair differs significantly if the 95 % interval of its paired differences (Student's t) excludes zero. Of the pairs
that do not differ, about one in twenty does so by chance, so each pair is also tested with Holm's correction over all
pairs of the setting (S. Holm, Scandinavian Journal of Statistics 6, 1979).

Not modelled: pairs with fewer than five common seeds, which are not tested.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import stdev

import pandas as pd
from scipy.special import stdtr

from analysis.intervals import CONFIDENCE, FEWEST, Interval
from fedsim.reference.paired import BySeed, by_seed, difference
from fedsim.reference.scores import FINAL
from fedsim.reference.terms import Contender


@dataclass(frozen=True)
class Pair:
    """Two contenders, the difference of the first from the second, its p-value, and what Holm's correction says."""

    one: Contender
    other: Contender
    difference: Interval
    p: float  # two-sided; NaN if the pair is not tested
    holm: bool = False  # significant after the correction

    @property
    def tested(self) -> bool:
        """Whether there were enough common seeds."""
        return self.difference.excludes_zero is not None

    @property
    def apart(self) -> bool:
        """Whether the difference is significant without the correction."""
        return bool(self.difference.excludes_zero)


def pairs(runs: pd.DataFrame, order: Sequence[Contender]) -> tuple[Pair, ...]:
    """Return all pairs of `order`; `runs` are the rows of one setting with one kind of links (see scores.scores)."""
    own = by_seed(runs, FINAL)
    found = [_pair(one, other, own.get(one, {}), own.get(other, {})) for one, other in combinations(order, 2)]
    kept = holm([pair.p for pair in found])
    return tuple(
        Pair(pair.one, pair.other, pair.difference, pair.p, apart) for pair, apart in zip(found, kept, strict=True)
    )


def p_value(apart: Interval) -> float:
    """Return the two-sided p-value of Student's t for a mean of zero; NaN for too few units."""
    count = len(apart.units)
    if count < FEWEST:
        return math.nan
    error = stdev(apart.units) / math.sqrt(count)
    if error == 0:
        return 1.0 if apart.mean == 0 else 0.0
    return 2 * float(stdtr(count - 1, -abs(apart.mean) / error))


def holm(values: Sequence[float]) -> list[bool]:
    """Return which hypotheses are rejected at 5 % in all together, by Holm's steps down; NaN is no hypothesis."""
    known = sorted((value, place) for place, value in enumerate(values) if not math.isnan(value))
    rejected = [False] * len(values)
    for step, (value, place) in enumerate(known):
        if value > (1 - CONFIDENCE) / (len(known) - step):
            break
        rejected[place] = True
    return rejected


def _pair(one: Contender, other: Contender, first: BySeed, second: BySeed) -> Pair:
    apart = difference(first, second)
    return Pair(one, other, apart, p_value(apart))

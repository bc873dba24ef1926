"""Clients with a high loss that reply fast are asked, and some new ones (Oort: Lai et al., OSDI 2021).

A client's utility is its number of training vertices times the loss that it has last reported: full-batch training has
one batch, for which the paper's root of the mean squared loss is the loss itself.  Utilities are clipped at a quantile
and scaled to [0, 1]; a bonus grows with the rounds since the client was last heard from; and replies that took longer
than the preferred duration are penalised.  A share epsilon of the cohort, which falls from round to round, is drawn by
training vertices from clients that were never heard from.  The pacer sets the preferred duration: a percentile of the
times observed, which rises while the utility gathered stays the same, and falls when it grows fivefold.

A client whose replies have all come too late counts with the mean utility, as in the authors' code.  A round here is
a cohort that the protocol draws; a fraction of a client explored is drawn as a chance.  Not modelled: the blacklist of
often chosen clients, over-commitment (the protocol `deadline` has it), and speeds known before the first reply.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from fedsim.clock.reports import Reports
from fedsim.clock.sampler import Numbers, Rows, Sampler, draw
from fedsim.core.units import Count, Fraction

Floats = npt.NDArray[np.float64]
DECAY, LEAST = 0.95, 0.2  # of epsilon: its factor from round to round, and its lower end
CLIP, CUT, BONUS = 0.98, 0.7, 0.1  # quantile of utilities; share of the score at the cohort's end; weight of age
FIRST, STEP = 10, 5  # percent: the pacer's first percentile and its steps
STEADY, GROWN = 0.1, 5.0  # relative changes of utility at which the pacer steps up, and down
NARROW = 1e-4  # the least range that utilities are scaled by


@dataclass(frozen=True)
class Oort(Sampler):
    """Scores every free client that was heard from; the constants are those of the authors' code."""

    observes = reports = True

    epsilon: Fraction = 0.9  # share of the first cohort that is explored
    penalty: float = 2.0  # exponent of slow clients' penalty; 0: none
    window: Count = 20  # rounds after which the pacer looks at the utility gathered

    def __post_init__(self) -> None:
        """Check the exponent's range."""
        if not 0 <= self.penalty < math.inf:
            raise ValueError("penalty: must be finite and not negative (2 in the paper, 0 for none)")

    def choose(self, free: Numbers, count: int, rows: Rows, rng: np.random.Generator) -> Numbers:
        """Return the cohort."""
        if len(free) <= count:
            return free
        heard = np.isfinite(rows.reports.seconds)
        known, unseen = free[heard[free]], free[~heard[free]]
        wanted = count * self.exploring(rows.cohorts)
        fresh = math.floor(wanted) + (rng.random() < wanted - math.floor(wanted))
        fresh = min(max(fresh, count - len(known)), len(unseen))
        explored = draw(unseen, fresh, rows.training_vertices[unseen].astype(np.float64), rng)
        scores = self.scores(known, rows)
        pool = pool_of(scores, count - fresh)
        return np.sort(np.append(explored, draw(known[pool], count - fresh, scores[pool], rng)))

    def exploring(self, cohorts: int) -> float:
        """Return epsilon after that many rounds."""
        return max(min(LEAST, self.epsilon), self.epsilon * DECAY**cohorts)

    def scores(self, known: Numbers, rows: Rows) -> Floats:
        """Return the score of each of these clients, which have all replied before."""
        if not len(known):
            return np.zeros(0)
        seen = rows.reports
        utility = rows.training_vertices[known] * seen.losses[known]
        silent = np.isnan(utility)
        utility = np.where(silent, 0.0 if silent.all() else utility[~silent].mean(), utility)
        clipped = np.minimum(utility, np.quantile(utility, CLIP))
        scaled = (clipped - clipped.min()) / max(float(np.ptp(clipped)), NARROW)
        age = np.sqrt(BONUS * math.log(max(1, rows.cohorts)) / np.maximum(1, seen.cohorts[known]))
        preferred = self.preferred(seen, rows.cohorts)
        slow = np.maximum(1.0, seen.seconds[known] / preferred)
        result: Floats = (scaled + age) * slow**-self.penalty
        return result

    def preferred(self, seen: Reports, cohorts: int) -> float:
        """Return the preferred duration: a percentile of all times observed."""
        return float(np.nanpercentile(seen.seconds, self.percentile(seen.gains, cohorts)))

    def percentile(self, gains: list[float], cohorts: int) -> int:
        """Return the pacer's percentile after that many rounds and their gains; full windows count."""
        windows = [math.fsum(gains[at : at + self.window]) for at in range(1, cohorts - self.window + 2, self.window)]
        percent = FIRST
        for before, after in pairwise(windows):
            if abs(after - before) <= STEADY * before:
                percent += STEP
            elif abs(after - before) >= GROWN * before:
                percent -= STEP
            percent = min(100, max(STEP, percent))
        return percent


def pool_of(scores: Floats, count: int) -> npt.NDArray[np.bool_]:
    """Return which scores reach the cut: a share of the score at the last rank of the exploited."""
    if count >= len(scores):
        return np.ones(len(scores), dtype=bool)
    if count <= 0:
        return np.zeros(len(scores), dtype=bool)
    kept: npt.NDArray[np.bool_] = scores >= CUT * np.partition(scores, -count)[-count]
    return kept

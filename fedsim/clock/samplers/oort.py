"""Clients with a high loss that reply fast are asked, and some new ones (Oort: Lai et al., OSDI 2021).

A client's utility is its number of training nodes times the loss that it has last reported: full-batch training has
one batch, for which the paper's root of the mean squared loss is the loss itself.  Utilities are clipped at a quantile
and scaled to [0, 1]; a bonus grows with the rounds since the client was last heard from; and replies that took longer
than the preferred duration are penalised.  A share epsilon of the cohort, which falls from round to round, is drawn by
training nodes from clients that were never heard from.  The pacer sets the preferred duration: a percentile of the
times observed, which rises while the utility gathered stays the same, and falls when it grows fivefold.

A client whose replies have all come too late counts with the mean utility, as in the authors' code.  A round here is
a cohort that the protocol draws; a fraction of a client explored is drawn as a chance.  Not modelled: the blacklist of
often chosen clients, over-commitment (the protocol `deadline` has it), and speeds known before the first reply.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fedsim.clock.client_statistics import ClientStatistics
from fedsim.clock.clients import Clients
from fedsim.clock.sampler import Sampler, draw
from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.core.units import Count, Fraction, NonNegative

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
    penalty: NonNegative = 2.0  # exponent of slow clients' penalty; 0: none
    window: Count = 20  # rounds after which the pacer looks at the utility gathered

    def choose(self, free: Ints, count: int, columns: Clients, rng: np.random.Generator) -> Ints:
        """Return the cohort."""
        if len(free) <= count:
            return free
        heard = np.isfinite(columns.statistics.seconds)
        known, unseen = free[heard[free]], free[~heard[free]]
        wanted = count * self.exploring(columns.cohorts)
        fresh = math.floor(wanted) + (rng.random() < wanted - math.floor(wanted))
        fresh = min(max(fresh, count - len(known)), len(unseen))
        explored = draw(unseen, fresh, columns.training_nodes[unseen].astype(np.float64), rng)
        scores = self.scores(known, columns)
        pool = pool_of(scores, count - fresh)
        return np.sort(np.append(explored, draw(known[pool], count - fresh, scores[pool], rng)))

    def exploring(self, cohorts: int) -> float:
        """Return epsilon after that many rounds."""
        return max(min(LEAST, self.epsilon), self.epsilon * DECAY**cohorts)

    def scores(self, known: Ints, columns: Clients) -> Floats:
        """Return the score of each of these clients, which have all replied before."""
        if not len(known):
            return np.zeros(0)
        seen = columns.statistics
        utility = columns.training_nodes[known] * seen.losses[known]
        silent = np.isnan(utility)
        utility = np.where(silent, 0.0 if silent.all() else utility[~silent].mean(), utility)
        clipped = np.minimum(utility, np.quantile(utility, CLIP))
        scaled = (clipped - clipped.min()) / max(float(np.ptp(clipped)), NARROW)
        age = np.sqrt(BONUS * math.log(max(1, columns.cohorts)) / np.maximum(1, seen.cohorts[known]))
        slow = np.maximum(1.0, seen.seconds[known] / self.preferred(seen, columns.cohorts))
        result: Floats = (scaled + age) * slow**-self.penalty
        return result

    def preferred(self, seen: ClientStatistics, cohorts: int) -> float:
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


def pool_of(scores: Floats, count: int) -> Bools:
    """Return which scores reach the cut: a share of the score at the last rank of the exploited."""
    if count >= len(scores):
        return np.ones(len(scores), dtype=bool)
    if count <= 0:
        return np.zeros(len(scores), dtype=bool)
    kept: Bools = scores >= CUT * np.partition(scores, -count)[-count]
    return kept

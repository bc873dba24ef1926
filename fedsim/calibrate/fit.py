"""Fit the round trip and the two rates of one client's link to the seconds of its messages.

What is made small is the logarithm of predicted over measured seconds, robustly: a soft L1 loss, which is
quadratic within one percent and linear beyond, so that a few messages that were held up count little (close
to a median).  Messages of one size and direction count as the square root of their number, since a few of
another size tell as much as many alike.

A value is *identifiable* if neither its double nor its half explains the messages as well, whatever the
others are then: the mean error is so much larger that, by the number of messages, it is no chance.  Messages
of one size do not tell a long round trip from a low rate, and short ones say nothing of a rate.

Where a carrier of unknown speed brings the messages (Flower's processes), each direction has a constant
beside the link, which is fitted along with every link that is tried.  Without messages of several sizes, no
rate is then identifiable.

Not modelled: links that change; messages of one client that are under way at the same time.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from fedsim.calibrate.forward import Forward, LossShares, PredictSeconds
from fedsim.calibrate.measured import Moved
from fedsim.core.arrays import Bools, Floats

RTT, UP, DOWN = range(3)  # places of the three values: seconds, bit/s, bit/s
SLOWEST = 1e2  # bit/s
LOW, HIGH = np.log([1e-6, SLOWEST, SLOWEST]), np.log([1e3, 1e12, 1e12])
STARTS = (0.02, 0.15, 0.4)  # round trips, of the shortest message's seconds, from which the search begins
SOFT = (0.03, 0.002)  # of the logarithm: beyond it errors count linearly; first coarsely, which goes farther
EVIDENCE = 3.0  # logarithm of how many times more likely one explanation is, from which on another is not as good
SLACK, SHARE = 0.0005, 0.01  # by how much, and by which share, an error may grow where a value is replaced
FLOOR = 0.001  # mean errors that differ by less are equal in any case
FINEST = 0.01  # of a way, or of a logarithm, to which bounds are sought


@dataclass(frozen=True, eq=False)
class FittedLink:
    """A client's round trip (s), uplink and downlink (bit/s), and which of them are identifiable; the mean error."""

    values: Floats  # (3,), NaN where no message says anything
    identifiable: Bools  # (3,)
    error: float
    marks: tuple[str, ...] = ("", "", "")


@dataclass(frozen=True, eq=False)
class FitProblem:
    """The messages of one client that are fitted, and the weight of each.

    `predict` tells the seconds of all its messages, of which `used` are fitted.  `carried`: whether a carrier
    takes some constant seconds of its own.
    """

    predict: PredictSeconds
    used: Bools
    messages: Moved
    weight: Floats
    carried: bool = False

    def residuals(self, logs: Floats) -> Floats:
        """Return the weighted logarithms of predicted over measured seconds; `logs` are those of the values (3,)."""
        seconds = self.predict(*np.exp(logs).tolist())[self.used]
        if self.carried:
            seconds = seconds + constants(self.messages.upload, seconds, self.messages.seconds)
        return self.weight * np.log(np.maximum(seconds, 1e-12) / self.messages.seconds)

    @property
    def many(self) -> float:
        """How many messages of equal weight tell as much (Kish)."""
        return float(self.weight.sum() ** 2 / (self.weight**2).sum())

    def error(self, logs: Floats) -> float:
        """Return the weighted mean of the absolute logarithm."""
        return float(np.abs(self.residuals(logs)).sum() / self.weight.sum())


def constants(upload: Bools, predicted: Floats, seconds: Floats) -> Floats:
    """Return the seconds (n,) that messages take beside what is predicted: the median of each direction, 0 at least."""
    beside = np.zeros(len(seconds))
    for rows in (upload, ~upload):
        if rows.any():
            beside[rows] = max(0.0, float(np.median((seconds - predicted)[rows])))
    return beside


def problem(
    forward: Forward, moved: Moved, congested: Bools, losses: LossShares = (0.0, 0.0), carried: bool = False
) -> FitProblem | None:
    """Return the fit of one client's messages but the `congested` ones (n,); None if there is nothing to fit."""
    used = moved.whole & ~congested & (moved.seconds > 0)
    if not used.any():
        return None
    messages = moved.take(used)
    kinds = np.stack([messages.upload.astype(np.int64), messages.nbytes])
    _, of, many = np.unique(kinds, axis=1, return_inverse=True, return_counts=True)
    return FitProblem(forward.of(moved, losses), used, messages, 1 / np.sqrt(many)[of.ravel()], carried)


def solve(given: FitProblem, fixed: Floats) -> FittedLink:
    """Return the link that fits best with some values `fixed` (3,), NaN where they are free.

    Whether its values are identifiable is not examined here.
    A direction without messages stays NaN unless it is fixed.
    """
    free = np.isnan(fixed) & informative(given)
    begun = [_start(given, share) for share in (STARTS if free[RTT] else STARTS[:1])]
    held = np.log(np.maximum(fixed, np.exp(LOW)))
    tries = [_search(given, np.where(np.isnan(fixed), start, held), free) for start in begun]
    best = min(tries, key=given.error)
    known = free | ~np.isnan(fixed)
    return FittedLink(np.where(known, np.exp(best), math.nan), ~np.isnan(fixed), given.error(best))


def is_identifiable(given: FitProblem, link: FittedLink, fixed: Floats, which: int) -> bool:
    """Return whether neither the double nor the half of one value explains the messages as well as the link does."""
    others = [np.where(np.arange(3) == which, link.values[which] * factor, fixed) for factor in (2.0, 0.5)]
    return all(solve(given, other).error > _as_well(given, link) for other in others)


def longest_rtt(given: FitProblem) -> float:
    """Return the longest round trip that half of the messages of either direction allow, at unlimited rates."""
    longest, rate, seconds = math.inf, math.exp(HIGH[UP]), given.messages.seconds
    for upload in (True, False):
        rows = given.messages.upload == upload
        if rows.any():
            low, high = LOW[RTT], HIGH[RTT]
            while high - low > FINEST:
                middle = (low + high) / 2
                ratio = given.predict(math.exp(middle), rate, rate)[given.used][rows] / seconds[rows]
                low, high = (low, middle) if np.median(ratio) > 1 else (middle, high)
            longest = min(longest, math.exp(low))
    return longest


def nearest(given: FitProblem, link: FittedLink, fixed: Floats, which: int, wanted: float) -> FittedLink:
    """Return the link whose value comes as near to `wanted` as the messages allow, the others refitted.

    They allow what costs next to nothing: what is not identifiable may still be likelier than other values;
    but where a carrier hides the link, whatever explains them as well.  The error stays that of the link.
    """
    most = _as_well(given, link) if given.carried else link.error * (1 + SHARE) + SLACK
    begin = math.log(link.values[which])
    near, far, best = 0.0, 1.0, link
    step = far
    while True:
        value = math.exp(begin + step * (math.log(max(wanted, math.exp(LOW[which]))) - begin))
        solved = solve(given, np.where(np.arange(3) == which, value, fixed))
        near, far, best = (step, far, solved) if solved.error <= most else (near, step, best)
        if far - near < FINEST:
            return replace(link, values=best.values)
        step = (near + far) / 2


def _as_well(given: FitProblem, link: FittedLink) -> float:
    """Return the mean error up to which others explain the messages as well, were errors drawn from a Laplace law."""
    return link.error * math.exp(EVIDENCE / given.many) + FLOOR


def informative(given: FitProblem) -> Bools:
    """Return which of the three values the messages say anything about (3,)."""
    upload = given.messages.upload
    return np.array([True, bool(upload.any()), bool((~upload).any())])


def _start(given: FitProblem, share: float) -> Floats:
    """Return logarithms to begin at: a part of the shortest message is a round trip, rates take the rest."""
    upload, nbytes, seconds = given.messages.upload, given.messages.nbytes, given.messages.seconds
    rtt = share * float(seconds.min())
    values = [rtt]
    for rows in (upload, ~upload):
        rest = np.maximum(seconds[rows] - 2 * rtt, 0.1 * seconds[rows])
        values.append(float(np.median(8 * (nbytes[rows] + 52) / rest)) if rows.any() else 1e9)
    return np.clip(np.log(values), LOW + 0.1, HIGH - 0.1)


def _search(given: FitProblem, start: Floats, free: Bools) -> Floats:
    if not free.any():
        return start

    def residuals(logs: Floats) -> Floats:
        values = start.copy()
        values[free] = logs
        return given.residuals(values)

    logs = np.clip(start[free], LOW[free] + 1e-6, HIGH[free] - 1e-6)
    for soft in SOFT:
        done = least_squares(
            residuals, logs, bounds=(LOW[free], HIGH[free]), loss="soft_l1", f_scale=soft * given.weight.min(),
            x_scale=1.0, diff_step=1e-6, xtol=1e-9, ftol=1e-10, gtol=1e-12, max_nfev=60,
        )  # fmt: skip
        logs = np.clip(done.x, LOW[free] + 1e-6, HIGH[free] - 1e-6)
    best = start.copy()
    best[free] = logs
    return best

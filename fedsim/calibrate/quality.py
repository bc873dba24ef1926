"""Compare predicted seconds with measured ones, of messages, of jobs and of rounds.

An error is |predicted - measured| / measured.  A round of `sync` is put together from its clients' pieces:
each message and job takes its predicted seconds, what lies between them (a server that waits for a core, a
program that starts) what was measured, and the slowest client that answered ends the round.

Not predicted: rounds of other protocols, in which the times of some clients decide what others are asked.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedsim.calibrate.measured import Measurements
from fedsim.core.arrays import Bools, Floats

TINY = 1e-12  # of the clock: a message that is sent at the very update belongs to the next round


@dataclass(frozen=True)
class Errors:
    """How many values were predicted, and the median and 90th percentile of their errors (NaN of none)."""

    count: int
    median: float
    most: float


def errors(predicted: Floats, measured: Floats) -> Errors:
    """Return the errors of the values that could be predicted."""
    some = np.isfinite(predicted) & (measured > 0)
    if not some.any():
        return Errors(0, float("nan"), float("nan"))
    off = np.abs(predicted[some] - measured[some]) / measured[some]
    return Errors(int(some.sum()), float(np.median(off)), float(np.quantile(off, 0.9)))


def rounds(
    measured: Measurements, moved: Floats, worked: Floats, after: float = 0.0, until: float = math.inf
) -> tuple[Floats, Floats]:
    """Return predicted and measured seconds (n,) of the rounds between two seconds of the run; none but under `sync`.

    `moved` and `worked` are the predicted seconds of messages and jobs.
    """
    updates = measured.updates if measured.scenario and measured.scenario.protocol.name == "sync" else np.array([])
    starts = np.concatenate([[0.0], updates[:-1]])[: len(updates)]
    within = (starts >= after) & (updates <= until)
    starts, seconds = starts[within], (updates - starts)[within]
    late = np.array([_late(measured, moved, worked, *row) for row in zip(starts, updates[within], strict=True)], float)
    known = ~np.isnan(late)
    return (seconds + late)[known], seconds[known]


def _late(measured: Measurements, moved: Floats, worked: Floats, start: float, end: float) -> float:
    """Return by how many seconds a round is predicted to end later than it did; NaN if a piece is not predicted."""
    rows, jobs = measured.moved, measured.worked
    mine = rows.whole & (rows.sent >= start - TINY * end) & (rows.arrived <= end + TINY * end)
    done = (jobs.start >= start) & (jobs.end <= end)
    if np.isnan(moved[mine]).any() or np.isnan(worked[done]).any():
        return math.nan
    more = np.bincount(rows.client[mine], (moved - rows.seconds)[mine], minlength=measured.clients)
    more += np.bincount(jobs.client[done], (worked - jobs.seconds)[done], minlength=measured.clients)
    answers = mine & rows.upload
    if not answers.any():
        return math.nan
    last = np.full(measured.clients, -np.inf)
    np.maximum.at(last, rows.client[answers], rows.arrived[answers])
    return float((last + more).max() - last.max())


def within(measured: Measurements, until: float) -> tuple[Bools, Bools]:
    """Return which messages and which jobs had ended by a second of the run."""
    return measured.moved.arrived <= until, measured.worked.end <= until

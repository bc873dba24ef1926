"""The search: trial after trial, one of every entry at a time, by Optuna's tree-structured Parzen estimator.

The first trial of an entry is the entry as written.  All its others are proposed by a study of its own; the studies
share one seed, so that entries that tune the same options are proposed the same values until the estimator has
something to go by (Optuna's first ten trials are drawn at random).  A study is told each value before it is asked for
the next, in order, so that neither the number of workers nor their speed has a say, and a search that is begun again
meets the points that it has run already.  An entry with nothing to tune has its first trial only: the others would be
the same points.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsim import seeds
from fedsim.errors import UserError
from fedsim.scenario import Part, Point
from fedsim.span import Span
from fedsim.tune.entries import Entry, Options

Row = dict[str, Any]
Run = Callable[[Sequence[Point]], Mapping[str, Row]]


@dataclass(frozen=True)
class Trial:
    """One trial of an entry: its number from 1, the options tried, how many points, how many failed, and the value.

    The value is the mean over the points of AM on validation data; None if a point has none.
    AM is over the periods that clients had met at the end: `periods`, their mean over the points, tells trials apart
    that were scored on different tests (by `measure.until` or clients' own clocks, a slow trial meets fewer).
    """

    entry: Entry
    number: int
    part: Part
    options: Options
    points: int
    failed: int
    value: float | None
    periods: float | None = None


def search(entries: Sequence[Entry], trials: int, seed: int, run: Run, report: Callable[[list[Trial]], None]) -> None:
    """Try every entry this often, telling each round of trials as it ends; `run` returns the rows of points by id."""
    proposals = {entry.label: Proposals(entry, seed) for entry in entries}
    for number in range(1, trials + 1):
        tried = [entry for entry in entries if entry.spans or number == 1]
        chosen = [proposals[entry.label].ask(number) for entry in tried]
        points = [entry.trial(*choice) for entry, choice in zip(tried, chosen, strict=True)]
        rows = run([point for own in points for point in own])
        ended = [
            judged(entry, number, *choice, [rows[point.id] for point in own])
            for entry, choice, own in zip(tried, chosen, points, strict=True)
        ]
        for trial in ended:
            proposals[trial.entry.label].tell(trial)
        report(ended)


def judged(entry: Entry, number: int, part: Part, options: Options, rows: Sequence[Row]) -> Trial:
    """Return the trial that these rows make."""
    values = [row.get("am") for row in rows]
    given = [value for value in values if value is not None]
    failed = len(values) - len(given)
    met = [row["periods"] for row in rows if row.get("periods") is not None]
    value, periods = (None if failed else statistics.fmean(given)), (statistics.fmean(met) if met else None)
    return Trial(entry, number, part, options, len(rows), failed, value, periods)


class Proposals:
    """An entry's study: what to try next, given what came of what was tried."""

    def __init__(self, entry: Entry, seed: int) -> None:
        """Begin a study in memory; it is rebuilt from the finished points when a search is continued."""
        optuna = loaded()
        sampler = optuna.samplers.TPESampler(seed=seeds.integer(seed, "tune") % 2**32)
        self._entry, self._optuna = entry, optuna
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._spans = {name: _distribution(optuna, span) for name, span in entry.spans.items()}
        self._asked: Any = None

    def ask(self, number: int) -> tuple[Part, Options]:
        """Return the entry to try and its tuned options: as written at first, then as proposed."""
        if number == 1:
            return self._entry.part, self._entry.written
        self._asked = self._study.ask(self._spans)
        spans, proposed = self._entry.spans, self._asked.params
        options = {name: span.kept(proposed[name]) for name, span in spans.items()}
        return self._entry.with_options(options), options

    def tell(self, trial: Trial) -> None:
        """Take note of what came of what was asked for last."""
        states = self._optuna.trial.TrialState
        if trial.number > 1:
            self._study.tell(self._asked, trial.value, state=states.FAIL if trial.value is None else states.COMPLETE)
        elif trial.value is not None and trial.entry.holds(trial.options):
            known = self._optuna.trial.create_trial
            self._study.add_trial(known(params={**trial.options}, distributions=self._spans, value=trial.value))


def loaded() -> Any:
    """Return Optuna, quiet.  Raises UserError if it is not installed."""
    try:
        import optuna
    except ImportError:
        remedy = 'pip install "fedsim[tune]", or pip install -e ".[tune]" in a checkout'
        raise UserError(f"--tune needs Optuna, which is not installed: {remedy}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, span: Span) -> Any:
    if span.choices:
        return optuna.distributions.CategoricalDistribution(span.choices)
    return optuna.distributions.FloatDistribution(span.low, span.high, log=span.log, step=span.step)

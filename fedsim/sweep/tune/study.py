"""The search: trial after trial, one of every entry at a time, by Optuna's tree-structured Parzen estimator.

The first trial of an entry is the entry as written.  All its others are proposed by a study of its own; the studies
share one seed, so that entries that tune the same options get the same proposals until the estimator has enough
data (Optuna's first ten trials are random).  A study receives each value before it proposes the next, in order, so that
the number and speed of workers have no influence, and a restarted search finds the points that it has run already.  An
entry with nothing to tune has its first trial only: further ones would be the same points.  Nor has one more trials
whose first SAME gave the same results bit for bit, as replay does where no period has ended.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from fedsim.core import seeds
from fedsim.core.errors import required
from fedsim.core.span import Span
from fedsim.point.attempt import SummaryRow
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point
from fedsim.sweep.tune.entries import Entry, Options

SAME = 3  # trials with the same results, after which an entry's options are taken to change nothing
HOST = ("run", "options", "real_seconds", "followed")  # columns of a row that say nothing of what was learned


@dataclass(frozen=True)
class TuningTrial:
    """One trial of an entry: its number from 1, the options tried, how many points, how many failed, and the value.

    The value is AM on validation data, averaged over the points; None if a point has none.
    AM is over the periods that clients had met at the end; `periods`, their mean over the points, shows whether trials
    were scored on the same test (with `measure.until` or clients' own clocks, a slow trial meets fewer).
    """

    entry: Entry
    number: int
    part: Part
    options: Options
    points: int
    failed: int
    value: float | None
    periods: float | None = None
    results: tuple[str, ...] = ()  # of each point


def search(
    entries: Sequence[Entry], trials: int, seed: int, run: Callable[[Sequence[Point]], Mapping[str, SummaryRow]],
    report: Callable[[list[TuningTrial]], None], ends: Callable[[Entry], None],
) -> None:  # fmt: skip
    """Try every entry `trials` times, reporting each round as it ends; `run` returns the rows of points by id.

    `ends` is called with an entry whose options change nothing, which gets no further trials.
    """
    proposals = {entry.label: Proposals(entry, seed) for entry in entries}
    results: dict[str, list[tuple[str, ...]]] = {entry.label: [] for entry in entries}
    searched = [entry for entry in entries if entry.spans]
    for number in range(1, trials + 1):
        tried = entries if number == 1 else searched
        if not tried:
            return
        chosen = [proposals[entry.label].ask(number) for entry in tried]
        points = [entry.trial(*choice) for entry, choice in zip(tried, chosen, strict=True)]
        rows = run([*chain.from_iterable(points)])
        ended = [
            judged(entry, number, *choice, [rows[point.id] for point in of_trial])
            for entry, choice, of_trial in zip(tried, chosen, points, strict=True)
        ]
        for trial in ended:
            proposals[trial.entry.label].tell(trial)
            results[trial.entry.label].append(trial.results)
        report(ended)
        for entry in [*searched] if number == SAME < trials else ():
            if len({*results[entry.label]}) == 1 and () not in results[entry.label]:
                searched.remove(entry)
                ends(entry)


def judged(entry: Entry, number: int, part: Part, options: Options, rows: Sequence[SummaryRow]) -> TuningTrial:
    """Return the trial with these rows."""
    values = [row.get("am") for row in rows]
    given = [value for value in values if value is not None]
    failed = len(values) - len(given)
    met = [row["periods"] for row in rows if row.get("periods") is not None]
    value, periods = (None if failed else statistics.fmean(given)), (statistics.fmean(met) if met else None)
    # What was learned and sent, bit for bit.
    learned = [repr([(name, value) for name, value in row.items() if name not in HOST]) for row in rows]
    results = () if failed else tuple(learned)
    return TuningTrial(entry, number, part, options, len(rows), failed, value, periods, results)


class Proposals:
    """An entry's study, which proposes options given the values of earlier trials."""

    def __init__(self, entry: Entry, seed: int) -> None:
        """Start a study in memory; it is rebuilt from the finished points when a search is continued."""
        optuna = loaded()
        sampler = optuna.samplers.TPESampler(seed=seeds.integer(seed, "tune") % 2**32)
        self._entry, self._optuna = entry, optuna
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._spans = {name: _distribution(optuna, span) for name, span in entry.spans.items()}
        self._asked: Any = None

    def ask(self, number: int) -> tuple[Part, Options]:
        """Return the entry to try and its tuned options: first as written, then as proposed."""
        if number == 1:
            return self._entry.part, self._entry.written
        self._asked = self._study.ask(self._spans)
        spans, proposed = self._entry.spans, self._asked.params
        options = {name: span.kept(proposed[name]) for name, span in spans.items()}
        return self._entry.with_options(options), options

    def tell(self, trial: TuningTrial) -> None:
        """Record the value of the trial proposed last."""
        states = self._optuna.trial.TrialState
        if trial.number > 1:
            self._study.tell(self._asked, trial.value, state=states.FAIL if trial.value is None else states.COMPLETE)
        elif trial.value is not None and trial.entry.holds(trial.options):
            known = self._optuna.trial.create_trial
            self._study.add_trial(known(params={**trial.options}, distributions=self._spans, value=trial.value))


def loaded() -> Any:
    """Return Optuna, quiet.  Raises UserError if it is not installed."""
    optuna = required("optuna", "--tune needs Optuna", "tune")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _distribution(optuna: Any, span: Span) -> Any:
    if span.choices:
        return optuna.distributions.CategoricalDistribution(span.choices)
    return optuna.distributions.FloatDistribution(span.low, span.high, log=span.log, step=span.step)

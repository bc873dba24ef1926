"""`--tune N`: from a checked scenario to a tuned one."""

from collections.abc import Sequence

from rich.console import Console

from fedsim.core.amounts import number
from fedsim.core.errors import UserError
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.text.yaml_file import Document
from fedsim.sweep.tune import outcome, study
from fedsim.sweep.tune.bench import TrialRunner
from fedsim.sweep.tune.entries import Entry, entries
from fedsim.sweep.tune.study import TuningTrial


def tune(
    scenario: Scenario, document: Document, points: Sequence[Point], trials: int, bench: TrialRunner,
    console: Console, rate: bool = False,
) -> int:  # fmt: skip
    """Tune, with `rate` the clients' learning rate too, and return the exit code: 1 if a trial failed.

    Raises UserError if Optuna is missing, or if there is nothing to tune, or the result could not be written.
    """
    study.loaded()
    path = bench.out / f"{scenario.name}_tuned.yaml"
    searched = entries(points, rate)
    refuse_too_few(searched, trials)
    outcome.refuse_what_cannot_be_written(document, searched, points)
    if bench.fresh:
        for name in ("trials.csv", path.name):
            (bench.out / name).unlink(missing_ok=True)
    with bench.display:
        ended = search(searched, trials, scenario.seed, bench)
    console.print(outcome.table(ended, searched))
    chosen = [trial for entry in searched if (trial := outcome.best(ended, entry))]
    if len(chosen) < len(searched):
        path.unlink(missing_ok=True)  # left by an earlier search
        console.print("no tuned scenario: for one algorithm no trial succeeded", soft_wrap=True)
        return 1
    outcome.write_tuned(path, document, chosen, trials)
    console.print(f"tuned scenario: {path}", soft_wrap=True)
    return 1 if any(trial.failed for trial in ended) else 0


def search(entries: Sequence[Entry], trials: int, seed: int, bench: TrialRunner) -> list[TuningTrial]:
    """Run the trials, showing their progress and updating their table, and return them."""
    ended: list[TuningTrial] = []
    display = bench.display

    def report(latest: list[TuningTrial]) -> None:
        ended.extend(latest)
        outcome.write_trials(bench.out / "trials.csv", ended)
        display.note(f"trial {latest[0].number} of {trials}: {', '.join(_short(trial, ended) for trial in latest)}")

    def ends(entry: Entry) -> None:
        left = trials - study.SAME
        display.done += left * len(entry.points)
        same = f"{study.SAME} trials gave the same results bit for bit, so nothing that is tuned changes anything here"
        display.note(f"{entry.label}: {same}; the other {left} are left out")

    for entry in entries:
        display.note(_plan(entry))
    display.begin(sum(len(entry.points) * (trials if entry.spans else 1) for entry in entries), 0)
    study.search(entries, trials, seed, bench.run, report, ends)
    return ended


def refuse_too_few(entries: Sequence[Entry], trials: int) -> None:
    """Raise UserError if the only trial of an entry could not be chosen."""
    outside = [entry.label for entry in entries if not entry.holds(entry.written)]
    if trials == 1 and outside:
        message = f"tries {outside[0]} only as written, which lies outside the tuned ranges; give 2 trials or more"
        raise UserError(f"--tune 1 {message}")


def _plan(entry: Entry) -> str:
    if not entry.spans:
        return f"{entry.label}: nothing to tune, one trial as written"
    spans = ", ".join(f"{name} {span}" for name, span in entry.spans.items())
    outside = "" if entry.holds(entry.written) else "; as written it lies outside the ranges"
    return f"{entry.label}: {spans}{outside and f'{outside}; it is shown but cannot be chosen'}"


def _short(trial: TuningTrial, ended: Sequence[TuningTrial]) -> str:
    if trial.value is None:
        return f"{trial.entry.label} failed ({trial.failed} of {trial.points} runs)"
    best = outcome.best(ended, trial.entry)
    better = "" if best is None or best is trial else f" (best {number(best.value)})"
    return f"{trial.entry.label} {number(trial.value)}{better}"

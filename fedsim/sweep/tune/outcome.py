"""The results of tuning: the trials as CSV, the tuned scenario as YAML, and a table for the console."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from fedsim.core.amounts import NONE, number
from fedsim.core.errors import Problem, ScenarioError
from fedsim.core.version import __version__
from fedsim.core.whole_files import replace, write_table
from fedsim.scenario import yaml_text
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.yaml_file import Document
from fedsim.sweep.tune.entries import RATE, Entry, Options, key, rate_of
from fedsim.sweep.tune.study import Trial

COLUMNS = ["algorithm", "trial", "options", "val_am", "points", "failed", "periods"]


def best(trials: Sequence[Trial], entry: Entry) -> Trial | None:
    """Return an entry's best trial, the first of several; None if none has a value.

    The entry as written may lie outside its spans.  Then it cannot be chosen, since other entries could not reach it.
    """
    own = [t for t in trials if t.entry is entry and t.value is not None and entry.holds(t.options)]
    return max(own, key=lambda trial: trial.value or 0.0, default=None)


def write_trials(path: Path, trials: Sequence[Trial]) -> None:
    """Write the trials so far, one row each; a failed one has no val_am."""
    rows = [
        {
            "algorithm": trial.entry.label, "trial": trial.number, "options": json.dumps(dict(trial.options)),
            "val_am": trial.value, "points": trial.points, "failed": trial.failed,
            "periods": trial.periods,
        }
        for trial in trials
    ]  # fmt: skip
    write_table(path, COLUMNS, rows)


def table(trials: Sequence[Trial], entries: Sequence[Entry]) -> Table:
    """Return one row per entry: the number of trials, validation AM as written and at best, and the choice."""
    made = Table(box=None, header_style="bold", pad_edge=False)
    for title, right in (("algorithm", 0), ("trials", 1), ("failed", 1), ("as written", 1), ("best", 1), ("chosen", 0)):
        # texts are folded if there is no room, numbers never
        made.add_column(title, justify="right" if right else "left", no_wrap=bool(right), overflow="fold")
    for entry in entries:
        own = [trial for trial in trials if trial.entry is entry]
        found = best(trials, entry)
        failed = sum(trial.value is None for trial in own)
        values = [number(own[0].value), number(found.value) if found else NONE]
        made.add_row(entry.label, str(len(own)), str(failed), *values, _chosen(found))
    return made


def _chosen(found: Trial | None) -> str:
    if found is None:
        return "none: no trial within the ranges succeeded"
    if not found.entry.spans:
        return "nothing to tune"
    text = ", ".join(f"{name} {'none' if value is None else value}" for name, value in found.options.items())
    return f"{text} (as written)" if found.number == 1 else text


def write_tuned(path: Path, document: Document, chosen: Sequence[Trial], budget: int) -> None:
    """Write the scenario with the options of each entry's best trial, and a comment on how they were found."""
    data = tuned(
        document.data, {key(t.entry.part): t.part for t in chosen}, rates_of((t.entry, t.options) for t in chosen)
    )
    measure = chosen[0].entry.points[0].scenario.measure
    lines = [
        f"tuned from {document.path.name} by fedsim {__version__}, --tune {budget}: as many trials for each algorithm",
        f"objective: AM of {measure.metrics[0]} on validation data, {measure.models[0]} model, mean over the points;",
        "test data were not scored",
        *(f"with {flag}" for flag in document.flags.values()),
        *(_line(trial) for trial in chosen),
    ]
    comment = "".join(f"# {line}\n" for text in lines for line in text.splitlines())
    replace(path, comment + yaml_text.text_of(data))


def _line(trial: Trial) -> str:
    return f"{trial.entry.label}: {number(trial.value)} in trial {trial.number}, {_chosen(trial)}"


def rates_of(chosen: Iterable[tuple[Entry, Options]]) -> dict[str, float]:
    """Return the tuned learning rate of each algorithm, by its name; nothing where none was tuned."""
    return {entry.part.name: options[RATE] for entry, options in chosen if RATE in options}


def tuned(data: Mapping[str, Any], parts: Mapping[str, Part], rates: Mapping[str, float]) -> dict[str, Any]:
    """Return a scenario's plain data with each part in place of the entry of that key, under the name NAME_tuned.

    `rates` are the learning rates by the algorithm's name: of one algorithm the scenario's, of several each its own.
    """
    made = copy.deepcopy({**data, "name": f"{data['name']}_tuned"})

    def changed(raw: Any) -> Any:
        part = parts.get(key(Part.model_validate(raw)))
        return raw if part is None else part.model_dump()

    if made.get("algorithm") is not None:
        made["algorithm"] = changed(made["algorithm"])
    for axes in _axes(made):
        if isinstance(axes.get("algorithm"), list):
            axes["algorithm"] = [changed(raw) for raw in axes["algorithm"]]
    if len(parts) == 1 and rates:
        made["training"] = {**made["training"], "lr": next(iter(rates.values()))}
    elif rates:
        when = made.setdefault("when", {})
        own = when.setdefault("algorithm", {})
        for name, rate in rates.items():
            own[name] = {**own.get(name, {}), RATE: rate}
    return made


def _listed(data: Mapping[str, Any]) -> set[str]:
    """Return the keys under which a scenario lists algorithms."""
    raws = [data.get("algorithm"), *(raw for axes in _axes(data) for raw in axes.get("algorithm") or [])]
    return {key(Part.model_validate(raw)) for raw in raws if raw is not None}


def _axes(data: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for section in ("grid", "vary"):
        several = data.get(section)
        yield from [axes for axes in (several if isinstance(several, list) else [several]) if isinstance(axes, dict)]


def refuse_what_cannot_be_written(document: Document, entries: Sequence[Entry], points: Sequence[Point]) -> None:
    """Raise ScenarioError if the scenario sets an algorithm's options elsewhere than in its entries.

    The scenario is written with every option at its lowest, and must then have the same points with these options.
    """
    lowest = {key(entry.part): entry.with_options(entry.lowest()) for entry in entries}
    rates = rates_of((entry, entry.lowest()) for entry in entries)
    if rates and len(rates) < len(entries):
        message = (
            "several of one name would need a learning rate each, which a scenario gives by name; tune one at a time"
        )
        raise ScenarioError([Problem("algorithm", f"{message}, or leave --tune-lr out")])
    data = tuned(document.data, lowest, rates)
    try:
        made = [point.id for point in Scenario.model_validate(data).points()]
    except ScenarioError:
        made = []
    except ValueError as error:
        raise ScenarioError([Problem("name", f"{data['name']!r} cannot be written: {error}")]) from None
    parts = [lowest[key(point.scenario.algorithm)] for point in points if point.scenario.algorithm]
    due = [_with(p.scenario, part, rates.get(part.name)).id() for p, part in zip(points, parts, strict=True)]
    if made != due or not lowest.keys() <= _listed(document.data):
        message = "its options are set by another axis, or under 'when'; to tune them, list each variant in full"
        raise ScenarioError([Problem("algorithm", f"{message}, as in [fedavg, {{name: power, preset: paper}}]")])


def _with(scenario: Scenario, part: Part, rate: float | None) -> Scenario:
    return scenario.model_copy(update={"algorithm": part, **({} if rate is None else rate_of(scenario, rate))})

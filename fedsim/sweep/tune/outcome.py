"""The results of tuning: the trials as CSV, the tuned scenario as YAML, and a table for the console."""

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.table import Table

from fedsim.core.amounts import NONE, number
from fedsim.core.errors import ScenarioError
from fedsim.core.version import __version__
from fedsim.core.whole_files import replace, write_table
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.text import yaml_text
from fedsim.scenario.text.yaml_file import Document
from fedsim.sweep.tune.entries import RATE, Entry, Options, key, rate_of
from fedsim.sweep.tune.study import TuningTrial

COLUMNS = ["algorithm", "trial", "options", "val_am", "runs", "failed", "periods"]


def best(trials: Sequence[TuningTrial], entry: Entry) -> TuningTrial | None:
    """Return an entry's best trial, the first of several; None if none has a value.

    The entry as written may lie outside its spans.  Then it cannot be chosen, since other entries could not reach it.
    """
    valued = [t for t in trials if t.entry is entry and t.value is not None and entry.holds(t.options)]
    return max(valued, key=lambda trial: trial.value or 0.0, default=None)


def write_trials(path: Path, trials: Sequence[TuningTrial]) -> None:
    """Write the trials so far, one row each; a failed one has no val_am."""
    rows = [
        {
            "algorithm": trial.entry.label, "trial": trial.number, "options": json.dumps(dict(trial.options)),
            "val_am": trial.value, "runs": trial.points, "failed": trial.failed,
            "periods": trial.periods,
        }
        for trial in trials
    ]  # fmt: skip
    write_table(path, COLUMNS, rows)


def table(trials: Sequence[TuningTrial], entries: Sequence[Entry]) -> Table:
    """Return one row per entry: the number of trials, validation AM as written and at best, and the choice."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for title in ("algorithm", "trials", "failed", "as written", "best", "chosen"):
        text = title in ("algorithm", "chosen")  # texts are folded if there is no room, numbers never
        table.add_column(title, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for entry in entries:
        tried = [trial for trial in trials if trial.entry is entry]
        choice = best(trials, entry)
        failed = sum(trial.value is None for trial in tried)
        values = [number(tried[0].value), number(choice.value) if choice else NONE]
        table.add_row(entry.label, str(len(tried)), str(failed), *values, _chosen(choice))
    return table


def _chosen(trial: TuningTrial | None) -> str:
    if trial is None:
        return "none: no trial within the ranges succeeded"
    if not trial.entry.spans:
        return "nothing to tune"
    text = ", ".join(f"{name} {'none' if value is None else value}" for name, value in trial.options.items())
    return f"{text} (as written)" if trial.number == 1 else text


def write_tuned(path: Path, document: Document, chosen: Sequence[TuningTrial], budget: int) -> None:
    """Write the scenario with the options of each entry's best trial, and a comment on how they were found."""
    data = tuned(
        document.data, {key(t.entry.part): t.part for t in chosen}, rates_of((t.entry, t.options) for t in chosen)
    )
    measure = chosen[0].entry.points[0].scenario.measure
    lines = [
        f"tuned from {document.path.name} by fedsim {__version__}, --tune {budget}: as many trials for each algorithm",
        f"objective: AM of {measure.metrics[0]} on validation data, {measure.models[0]} model, mean over the runs;",
        "test data were not scored",
        *(f"with {flag}" for flag in document.flags.values()),
        *(f"{t.entry.label}: {number(t.value)} in trial {t.number}, {_chosen(t)}" for t in chosen),
    ]
    comment = "".join(f"# {line}\n" for text in lines for line in text.splitlines())
    replace(path, comment + yaml_text.text_of(data))


def rates_of(chosen: Iterable[tuple[Entry, Options]]) -> dict[str, float]:
    """Return the tuned learning rate of each algorithm, by its name; nothing where none was tuned."""
    return {entry.part.name: options[RATE] for entry, options in chosen if RATE in options}


def tuned(data: Mapping[str, Any], parts: Mapping[str, Part], rates: Mapping[str, float]) -> dict[str, Any]:
    """Return a scenario's plain data with each part in place of the entry of that key, under the name NAME_tuned.

    `rates` are the learning rates by the algorithm's name: of one algorithm the scenario's, of several each its own.
    """
    scenario = copy.deepcopy({**data, "name": f"{data['name']}_tuned"})
    for holder, several in _listed(scenario):
        raws = holder["algorithm"] if several else [holder["algorithm"]]
        new = [raw if (part := parts.get(key(Part.model_validate(raw)))) is None else part.model_dump() for raw in raws]
        holder["algorithm"] = new if several else new[0]
    if len(parts) == 1 and rates:
        scenario["training"] = {**scenario["training"], "lr": next(iter(rates.values()))}
        return scenario
    for name, rate in rates.items():
        values = scenario.setdefault("when", {}).setdefault("algorithm", {})
        values[name] = {**values.get(name, {}), RATE: rate}
    return scenario


def _listed(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yield the mappings of a scenario that name algorithms, and whether as a list."""
    if data.get("algorithm") is not None:
        yield data, False
    for section in ("grid", "vary"):
        value = data.get(section)
        for axes in value if isinstance(value, list) else [value]:
            if isinstance(axes, dict) and isinstance(axes.get("algorithm"), list):
                yield axes, True


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
        raise ScenarioError.at("algorithm", f"{message}, or leave --tune-lr out")
    data = tuned(document.data, lowest, rates)
    try:
        written = [point.id for point in Scenario.model_validate(data).points()]
    except ScenarioError:
        written = []
    except ValueError as error:
        raise ScenarioError.at("name", f"{data['name']!r} cannot be written: {error}") from None
    parts = [lowest[key(point.scenario.algorithm)] for point in points if point.scenario.algorithm]
    due = []
    for point, part in zip(points, parts, strict=True):
        rate = {} if (lr := rates.get(part.name)) is None else rate_of(point.scenario, lr)
        due.append(point.scenario.model_copy(update={"algorithm": part, **rate}).id())
    named = {
        key(Part.model_validate(raw))
        for holder, several in _listed(dict(document.data))
        for raw in (holder["algorithm"] if several else [holder["algorithm"]])
    }
    if written != due or not lowest.keys() <= named:
        message = "its options are set by another axis, or under 'when'; to tune them, list each variant in full"
        raise ScenarioError.at("algorithm", f"{message}, as in [fedavg, {{name: power, preset: paper}}]")

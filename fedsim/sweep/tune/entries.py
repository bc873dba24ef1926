"""The entries of a search: a scenario's algorithms as written, their tuned options, and their points.

An entry is an algorithm with the options that the scenario gives it.  Those that its class names in `tunes` are tuned,
whatever their values, unless another option switches them off (`Algorithm.tunable`); the others stay, so that two
presets of one algorithm are two entries.  The clients' learning rate, a key of the scenario, can be tuned beside them.
A trial of an entry is all its points (seeds, orders, networks ...) with the options tried, scored on validation data
only.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedsim.core.errors import ScenarioError
from fedsim.core.span import Span
from fedsim.scenario import grid
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, options
from fedsim.scenario.schema import Point, Scenario

Options = Mapping[str, Any]
RATE = "training.lr"
AROUND = 10.0  # how many times smaller or larger than the scenario's it is tried


@dataclass(frozen=True)
class Entry:
    """An algorithm of the scenario: as written, its name in tables, the spans to tune, the values written, its points.

    `written` holds the values of the tuned options in the scenario, including defaults.
    """

    part: Part
    label: str
    spans: Mapping[str, Span]
    written: Options
    points: tuple[Point, ...]

    def with_options(self, options: Options) -> Part:
        """Return the entry with these options in place of those written."""
        changed = {name: value for name, value in options.items() if name != RATE}
        return Part(name=self.part.name, options={**self.part.options, **changed})

    def lowest(self) -> Options:
        """Return the start of every tuned option's span."""
        return {name: span.choices[0] if span.choices else span.low for name, span in self.spans.items()}

    def holds(self, options: Options) -> bool:
        """Return whether these values of the tuned options all lie within their spans."""
        return all(span.holds(options[name]) for name, span in self.spans.items())

    def trial(self, part: Part, options: Options) -> list[Point]:
        """Return the entry's points with this part in its place, scored by the headline on validation data only."""
        text = ", ".join(f"{name}={value}" for name, value in options.items())
        axes = {"algorithm": self.label, "options": text or "as written"}
        return [_trial_point(point, part, axes, options.get(RATE)) for point in self.points]


def entries(points: Sequence[Point], rate: bool = False) -> list[Entry]:
    """Return the entries of these points, in order of their first appearance; `rate`: tune the learning rate too.

    Raises ScenarioError if there is nothing to tune, or nothing to score trials on.
    """
    _refuse_what_cannot_be_scored(points)
    groups: dict[str, list[Point]] = {}
    for point in points:
        groups.setdefault(key(_part(point)), []).append(point)
    parts = [_part(group[0]) for group in groups.values()]
    labels = grid.labels([part.model_dump() for part in parts])
    labelled = zip(parts, labels, groups.values(), strict=True)
    entries = [_entry(part, str(label), group, rate) for part, label, group in labelled]
    if not any(entry.spans for entry in entries):
        message = f"none of {', '.join(labels)} has an option to tune (its class names them in `tunes`)"
        raise ScenarioError.at("algorithm", f"{message}; --tune-lr tunes the clients' learning rate")
    _refuse_twins(entries)
    return entries


def key(part: Part) -> str:
    """Return a text that two algorithms share if they are equal, whichever defaults are written out."""
    return json.dumps([part.name, options.bare("algorithm", part).options], sort_keys=True, default=str)


def _entry(part: Part, label: str, points: Sequence[Point], rate: bool) -> Entry:
    algorithm = find.build("algorithm", part)
    if not algorithm.learns:
        message = f"{part.name!r} learns nothing, so there is nothing to score; leave it out"
        raise ScenarioError.at("algorithm", message)
    spans: dict[str, Span] = {**algorithm.tunable()}
    written = {name: getattr(algorithm, name) for name in spans}
    if rate:
        written[RATE] = rate_now = _rate(label, points)
        low, high = (float(f"{value:.3g}") for value in (rate_now / AROUND, rate_now * AROUND))
        spans[RATE] = Span(low, high, log=True)
    return Entry(part, label, spans, written, tuple(points))


def _rate(label: str, points: Sequence[Point]) -> float:
    """Return the learning rate of these points.  Raises ScenarioError if they have several."""
    rates = {point.scenario.training.lr for point in points if point.scenario.training is not None}
    if len(rates) != 1:
        message = f"{label} has {len(rates)} learning rates in this scenario, and --tune-lr looks for one; give it one"
        raise ScenarioError.at(RATE, message)
    return rates.pop()


def _part(point: Point) -> Part:
    part = point.scenario.algorithm
    assert part is not None
    return options.bare("algorithm", part)


def _refuse_what_cannot_be_scored(points: Sequence[Point]) -> None:
    for point in points:
        scenario = point.scenario
        if scenario.algorithm is None or scenario.data is None:
            lacks = "algorithm" if scenario.algorithm is None else "data"
            raise ScenarioError.at(lacks, "is missing: nothing is learned, so there is nothing to tune")
        if scenario.data.split.val == 0:
            message = "is 0, and options are chosen on validation data only; give it a share, as in 0.2"
            raise ScenarioError.at("data.split.val", message)


def rate_of(scenario: Scenario, rate: float) -> dict[str, Any]:
    """Return the section of a scenario in which this learning rate changes."""
    assert scenario.training is not None
    return {"training": scenario.training.model_copy(update={"lr": rate})}


def _refuse_twins(entries: Sequence[Entry]) -> None:
    seen: dict[str, Entry] = {}
    for entry in entries:
        first = seen.setdefault(key(entry.with_options(entry.lowest())), entry)
        if first is not entry:
            message = f"{first.label} and {entry.label} differ only in tuned options; keep one of them"
            raise ScenarioError.at("algorithm", message)


def _trial_point(point: Point, part: Part, axes: Mapping[str, Any], rate: float | None) -> Point:
    measure = point.scenario.measure
    only = {"splits": ["val"], "models": measure.models[:1], "metrics": measure.metrics[:1]}
    changed: dict[str, Any] = {"algorithm": part, "measure": measure.model_copy(update=only)}
    if rate is not None:
        changed |= rate_of(point.scenario, rate)
    given = point.scenario.model_copy(update=changed)
    scenario = given.spelled_out()
    return Point(scenario.digest(), scenario, {**point.axes, **axes}, written=given.digest())

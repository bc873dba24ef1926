"""From a scenario to its points: which values are combined, and which settings accompany a value.

    grid:  {KEY: [VALUES]}             every combination of the axes
    vary:  {KEY: [VALUES]}             one axis at a time, the others at the scenario's own value, for each combination
    when:  {KEY: {VALUE: {KEY: ...}}}  what else is set in the points in which KEY has that value

An axis takes precedence over `when`, so both may name the same key.  It works on plain mappings, as a file
holds them.  Not modelled: conditions on two keys at once, and axes under `when`.
"""

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel

from fedsim.core import units
from fedsim.core.errors import Problem, ScenarioError
from fedsim.scenario import grid

S = TypeVar("S", bound=BaseModel)
Axes = Mapping[str, Sequence[Any]]
Companions = Mapping[str, Mapping[str, Mapping[str, Any]]]
AXES = ("grid", "vary")  # the keys that hold axes
UNROLLED = (*AXES, "when")  # all keys that define points; a point has none of them


@dataclass(frozen=True)
class Combination(Generic[S]):
    """A scenario without axes, the label of each axis's value, and the file's keys that set its keys."""

    scenario: S
    axes: dict[str, Any]
    places: dict[str, str]


def resolve(plain: Mapping[str, Any], model: type[S]) -> list[Combination[S]]:
    """Return every combination; what is varied changes fastest, then the grid's last axis.

    Raises ScenarioError with all problems, each tied to the value that causes it.
    """
    base = {key: value for key, value in plain.items() if key not in UNROLLED}
    listed = {kind: plain.get(kind, {}) for kind in UNROLLED}
    varied = {key: _with_own(values, grid.at(base, key)) for key, values in listed["vary"].items()}
    axes = {**listed["grid"], **varied}
    labels = {axis: grid.labels(values) for axis, values in axes.items()}
    last_place = {axis: len(values) - 1 for axis, values in varied.items()}
    faults: dict[Problem, None] = {}
    resolved = []
    for chosen in _chosen(listed["grid"], varied):
        places = {axis: _place(listed, axis, axes[axis][number]) for axis, number in chosen.items()}
        try:
            raw = _laid(base, {axis: axes[axis][number] for axis, number in chosen.items()}, model)
            _accompany(raw, listed["when"], [*chosen], places, model)
            shown = {axis: labels[axis][(last_place | chosen)[axis]] for axis in axes}
            resolved.append(Combination(model.model_validate(raw), shown, places))
        except ValueError as error:
            for problem in grid.plain_problems(error, model):
                faults.setdefault(Problem(blame(problem.key, places), problem.message))
    if faults:
        raise ScenarioError([*faults])
    return resolved


def problems(scenario: BaseModel, plain: Mapping[str, Any], refused: frozenset[str]) -> list[Problem]:
    """Return the problems of `grid`, `vary` and `when` themselves, whatever their values.

    No axis may start with one of `refused`, nor be one of these three keys.
    """
    refused = refused | {*UNROLLED}
    listed = {kind: plain.get(kind, {}) for kind in UNROLLED}
    faults = [problem for kind in AXES for problem in grid.problems(scenario, listed[kind], refused, where=kind)]
    for key in listed["vary"]:
        if key in listed["grid"]:
            faults.append(Problem(f"vary.{key}", "is an axis of 'grid' too; keep one of them"))
        elif not grid.lost(scenario, key) and grid.at(plain, key) is grid.MISSING:
            message = "has no value of its own while the other axes are varied; set one outside 'vary'"
            faults.append(Problem(f"vary.{key}", f"{key!r} {message}"))
    for key, companions in listed["when"].items():
        if wrong := grid.lost(scenario, key):
            faults.append(Problem(f"when.{key}", wrong))
        for value, settings in companions.items():
            for setting in settings:
                where = f"when.{key}.{value}.{setting}"
                if setting.split(".")[0] in refused or setting == key:
                    faults.append(Problem(where, f"{setting!r} cannot be set under 'when'; set the key itself"))
                elif wrong := grid.lost(scenario, setting):
                    faults.append(Problem(where, wrong))
    return faults


def blame(key: str, places: Mapping[str, str]) -> str:
    """Return the key of the file's entry that set this key, or the key itself."""
    for axis in sorted(places, key=len, reverse=True):
        if key == axis or key.startswith(f"{axis}."):
            return f"{places[axis]}{key[len(axis) :]}"
    return key


def _place(listed: Mapping[str, Axes], axis: str, value: Any) -> str:
    kind = "vary" if axis in listed["vary"] else "grid"
    return f"{kind}.{axis}.{listed[kind][axis].index(value)}"


def _with_own(values: Sequence[Any], current: Any) -> list[Any]:
    """Return the values with the scenario's own last, written as in the list if it is there."""
    text = units.canonical(current)
    same = [value for value in values if units.canonical(value) == text]
    return [*(value for value in values if value not in same), *(same or [current])]


def _chosen(axes: Axes, varied: Axes) -> Iterator[dict[str, int]]:
    """Yield the indices of the chosen values: of the whole grid, and of at most one varied axis."""
    for numbers in itertools.product(*(range(len(values)) for values in axes.values())):
        point = dict(zip(axes, numbers, strict=True))
        yield point
        for axis, values in varied.items():
            yield from ({**point, axis: number} for number in range(len(values) - 1))


def _laid(base: dict[str, Any], chosen: Mapping[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    raw = copy.deepcopy(base)
    for key in sorted(chosen, key=lambda key: key.count(".")):  # a part before its options
        grid.put(raw, key, copy.deepcopy(chosen[key]), model)
    return raw


def _accompany(
    raw: dict[str, Any], when: Companions, axes: Sequence[str], places: dict[str, str], model: type[BaseModel]
) -> None:
    """Apply `when` in place, except to axes; record in `places` which entry set each key."""
    for key, companions in when.items():
        value = grid.at(raw, key)
        for chosen, settings in companions.items():
            if chosen != _name(value):
                continue
            for setting, given in settings.items():
                if not any(setting == axis or setting.startswith(f"{axis}.") for axis in axes):
                    grid.put(raw, setting, copy.deepcopy(given), model)
                    places[setting] = f"when.{key}.{chosen}.{setting}"


def _name(value: Any) -> str:
    return str(value["name"] if isinstance(value, dict) and "name" in value else value)

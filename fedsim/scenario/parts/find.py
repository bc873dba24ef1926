"""From a name in a scenario to a file, to the one class in it, to that class built with its options.

A name is the name of a file, or of a folder with an `__init__.py`: `algorithm: power` is
`algorithms/power.py`, of the user's own folder `algorithms` before fedsim's (`lookup`); `model: gcn` is the
user's `models/gcn.py` before that of `fedsim.learn.models`.  A dotted name (`mylab.power2`) is a module, the
user's or fedsim's.  Where plain classes or functions will do, so will a file beside the scenario:
`model: net` is `net.py`.  Installed packages offer parts by entry points (`installed`).

Folders of research often have a `models/gcn.py` that has nothing to do with fedsim.  Unlike an algorithm of
the user's, such a file does not hide fedsim's part, and a note says so.
"""

import dataclasses
import importlib
import inspect
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedsim.core.asking import once
from fedsim.core.errors import Problem, ScenarioError, UserError, not_installed
from fedsim.core.units import did_you_mean
from fedsim.scenario.part import Part
from fedsim.scenario.parts import defaults, installed, lookup, source
from fedsim.scenario.text import messages as wording


@dataclass(frozen=True)
class Kind:
    """Where the files of a kind lie, which class they implement, and the scenario's key for it."""

    package: str
    contract: tuple[str, str]
    key: str
    adopts: str = ""  # a module whose `parts_of` finds what else may stand for such a class


KINDS = {
    "algorithm": Kind("algorithms", ("fedsim.learn.algorithm", "Algorithm"), "algorithm"),
    "aggregation": Kind("fedsim.learn.aggregations", ("fedsim.learn.aggregation", "Aggregation"), "aggregation"),
    "protocol": Kind("fedsim.clock.protocols", ("fedsim.clock.protocol", "Protocol"), "protocol"),
    "topology": Kind("fedsim.net.topologies", ("fedsim.net.topology", "Topology"), "network.topology"),
    "transport": Kind("fedsim.net.transports", ("fedsim.net.transport", "Transport"), "network.transport"),
    "effect": Kind("fedsim.net.effects", ("fedsim.net.effect", "Effect"), "network.effects"),
    "codec": Kind("fedsim.net.codecs", ("fedsim.net.codec", "Codec"), "network.codec"),
    "sampler": Kind("fedsim.clock.samplers", ("fedsim.clock.sampler", "Sampler"), "clients.sampler"),
    "dataset": Kind(
        "fedsim.data.datasets", ("fedsim.data.dataset", "Dataset"), "data.dataset", "fedsim.data.files.own_code"
    ),
    "partition": Kind("fedsim.data.partitions", ("fedsim.data.partition", "Partition"), "data.partition"),
    "stream": Kind("fedsim.data.streams", ("fedsim.data.stream", "Stream"), "data.stream"),
    "task": Kind("fedsim.learn.tasks", ("fedsim.learn.task", "Task"), "task"),
    "model": Kind("fedsim.learn.models", ("fedsim.learn.model", "Model"), "model", "fedsim.learn.modules.module_model"),
    "metric": Kind("fedsim.learn.metrics", ("fedsim.learn.metric", "Metric"), "measure.metrics"),
    "split": Kind("fedsim.learner.scoring.splits", ("fedsim.learner.scoring.split", "Split"), "measure.splits"),
}

RENAMED = {  # options by another name or in another place than they had
    "vertices": "is called nodes",
    "aggregation": "stands beside algorithm now: write aggregation: median, or {name: trimmed_mean}",
    "trim": "belongs to aggregation now: write aggregation: {name: trimmed_mean, trim: 10 %}",
}


def names(kind: str) -> list[str]:
    """Return the names of a kind that come with the project, of installed packages, and of the user's folder."""
    package = KINDS[kind].package
    ours = {name for folder in lookup.folders_of(package) for name in _files(folder)} | {*installed.offered(package)}
    theirs = {name for folder in lookup.own_folders(package) for name in _files(folder)} - ours
    return sorted(ours | {name for name in theirs if (module := module_of(kind, name)) and _is_one(kind, module)})


def note(kind: str, name: str) -> str:
    """Return a line that says whose file is used where the user and fedsim have one of a name; else ""."""
    package = KINDS[kind].package
    module, ours, users = module_of(kind, name), f"{package}.{name}", f"{package}.{lookup.OWN}.{name}"
    if module is None or "." in name or not lookup.has_own(package, name) or lookup.file_of(ours) is None:
        return ""
    path = lookup.file_of(users)
    if module == ours:
        return f"{kind} {name} is fedsim's own; {path} defines no {KINDS[kind].contract[1]}"
    return f"{kind} {name} is {path}; fedsim's own is {ours}"


def check(kind: str, part: Part, where: str | None = None) -> list[Problem]:
    """Return the problems with a part's name and the names of its options; its file is imported."""
    where = where or KINDS[kind].key
    try:
        return _option_problems(find(kind, part, where), part, where)
    except ScenarioError as error:
        return [*error.problems]


def build(kind: str, part: Part, where: str | None = None) -> Any:
    """Import the part's file and return its class built with the part's options.

    Raises ScenarioError if the name, an option or a value is wrong, or if the class itself refuses its
    values.
    """
    where = where or KINDS[kind].key
    cls = find(kind, part, where)
    if wrong := _option_problems(cls, part, where):
        raise ScenarioError(wrong)
    path, fields = path_of(cls), source.option_fields(cls)
    try:
        return _adapter(cls).validate_python(_but_defaults(cls, part.options)) if fields else cls()  # type: ignore[arg-type]
    except ValidationError as error:
        usual = {
            f"{where}.{key}": f"; by default {json.dumps(value)}"
            for key, value in defaults.of(cls).items()
            if value is not None
        }
        problems = [
            _of_option(problem, where, {field.name for field in fields})
            for problem in wording.problems(error.errors(include_url=False), (where,))
        ]
        raise ScenarioError(
            [Problem(each.key, f"{each.message} ({path}{usual.get(each.key, '')})") for each in problems]
        ) from None
    except ScenarioError:
        raise
    except UserError as error:  # the message names the file that the part reads, and the place in it
        raise ScenarioError.at(where, f"{error} ({path})") from None
    except Exception as error:
        if not (place := source.place_of(error)):
            raise
        raise ScenarioError.at(where, f"{part.name!r} cannot be built: {source.in_a_line(error)} ({place})") from error


def find(kind: str, part: Part, where: str) -> type[Any]:
    """Import the part's file and return the one class of its kind.  Raises ScenarioError if there is none."""
    return _found(kind, part.name, where)


@once
def _found(kind: str, part: str, where: str) -> type[Any]:
    module = module_of(kind, part)
    path = lookup.file_of(module) if module else None
    if module is None or path is None:
        raise ScenarioError.at(where, _unknown(kind, part))
    file = source.shown(path)
    try:
        imported = lookup.load(module)
        contract = getattr(importlib.import_module(KINDS[kind].contract[0]), KINDS[kind].contract[1])
    except UserError as error:  # its class is refused
        raise ScenarioError.at(where, f"{file}: {error}") from None
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and (lacks := not_installed(error)):
            raise UserError(lacks) from None  # once, and not for each part that learns
        if "non-frozen dataclass" in str(error):
            message = f"{file}: write @dataclass(frozen=True): {error}"
        elif isinstance(error, ImportError | SyntaxError | OSError):
            message = f"{file} cannot be imported: {error}{_hidden(error)}"
        elif place := source.place_of(error):
            message = f"{file} cannot be imported: {source.in_a_line(error)} ({place})"
        else:
            raise
        raise ScenarioError.at(where, message) from error
    classes: dict[str, Any] = {
        name: cls
        for name, cls in vars(imported).items()
        if inspect.isclass(cls) and issubclass(cls, contract) and cls.__module__ == module and not name.startswith("_")
    }
    if not classes and KINDS[kind].adopts:
        try:
            classes = importlib.import_module(KINDS[kind].adopts).parts_of(vars(imported), module, part)
        except UserError as error:
            raise ScenarioError.at(where, f"{file}: {error}") from None
    name = pick([*classes], part)
    if name is None:
        raise ScenarioError.at(where, _not_one(kind, part, file, [*classes]))
    declared = getattr(classes[name], "__dataclass_params__", None)
    options = [hint for hint in inspect.get_annotations(classes[name]).values() if "ClassVar" not in str(hint)]
    if (declared and not declared.frozen) or (options and "__dataclass_params__" not in vars(classes[name])):
        raise ScenarioError.at(where, f"{file}: write @dataclass(frozen=True) before {name}")
    if inspect.isabstract(classes[name]):
        missing = ", ".join(sorted(classes[name].__abstractmethods__))
        raise ScenarioError.at(where, f"{name} in {file} lacks {missing}")
    return classes[name]  # type: ignore[no-any-return]


@once
def module_of(kind: str, name: str) -> str | None:
    """Return the dotted module of a name, or None if it cannot be one."""
    if not all(step.isidentifier() and not step.startswith("_") for step in name.split(".")):
        return None
    if "." in name:
        above = name.rpartition(".")[0]
        return above if KINDS[kind].adopts and lookup.spec(name) is None and lookup.spec(above) else name
    package = KINDS[kind].package
    ours, users = f"{package}.{name}", f"{package}.{lookup.OWN}.{name}"
    if not lookup.has_own(package, name):
        beside = lookup.file_of(name) if KINDS[kind].adopts and lookup.file_of(ours) is None else None
        offered = None if lookup.file_of(ours) else installed.module_of(package, name)
        return name if beside and lookup.is_own(beside) else offered or ours
    hides = kind == "algorithm" or lookup.file_of(ours) is None or _is_one(kind, users, unreadable=True)
    return users if hides else ours


def pick(classes: list[str], name: str) -> str | None:
    """Return the only class, or of several the one that is called like the file."""
    alike = [cls for cls in classes if cls.lower() == name.split(".")[-1].replace("_", "").lower()]
    return classes[0] if len(classes) == 1 else alike[0] if len(alike) == 1 else None


def _files(folder: Path) -> list[str]:
    """Return the names of the modules and packages in a folder."""
    stems = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    return [name for name in stems if not name.startswith("_")]


def _is_one(kind: str, module: str, unreadable: bool = False) -> bool:
    """Return whether a file of the user's, which may be unrelated to fedsim, defines a part of this kind."""
    try:
        return source.defines(module, KINDS[kind].contract)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return unreadable


def _but_defaults(cls: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    # A default may lie outside of its own type, such as 0 for a count, and is not validated.
    usual = {field.name: defaults.plain(defaults.default(field)) for field in source.option_fields(cls)}
    return {key: value for key, value in given.items() if not defaults.same(value, usual[key])}


def _unknown(kind: str, name: str) -> str:
    said = f"{name!r} is not {'an' if kind[0] in 'aeiou' else 'a'} {kind}"
    if "," in name:
        return f"{said}; several go under grid: {KINDS[kind].key}: [{name}]"
    if "." in name:
        beside = [f"{name.rpartition('.')[0]}.{stem}" for stem in _files(Path(*name.split(".")[:-1]))]
        file = f"; a file is {{name: file, file: {name}}}" if kind == "dataset" else ""
        return f"{said}: there is no module of that name, seen from this folder{did_you_mean(name, beside) or file}"
    folder = KINDS[kind].package.replace(".", "/")
    place, own = f"{folder}/{name}.py", f"{folder.rpartition('/')[2]}/{name}.py"
    nor = "nor one" if own == place else f"nor {own}"
    return f"{said}: there is no {place}, {nor} beside the scenario{did_you_mean(name, names(kind))}"


def _hidden(error: Exception) -> str:
    """Return the remedy where a user's file means a package of theirs that is called like one of fedsim's."""
    package = (name := getattr(error, "name", None) or "").partition(".")[0]
    missing = name == package or isinstance(error, ModuleNotFoundError)
    if package not in ("algorithms", "analysis") or f".{lookup.OWN}." in name or not missing:
        return ""
    return f"; {package!r} is a package of fedsim: rename yours, or import with a dot"


def _not_one(kind: str, name: str, path: str, classes: list[str]) -> str:
    contract = KINDS[kind].contract[1]
    if not classes:
        instead = f" ({hint})" if (hint := note(kind, name)) else ""
        above = ".".join(KINDS[kind].contract)
        return f"{path} defines no {contract}: one class in it must descend from {above}{instead}"
    return f"{path} defines {len(classes)} of the kind {contract} ({', '.join(classes)}): keep one per file"


def _option_problems(cls: type[Any], part: Part, where: str) -> list[Problem]:
    required = {field.name: defaults.default(field) is dataclasses.MISSING for field in source.option_fields(cls)}
    label, path = part.name.split(".")[-1], path_of(cls)
    problems = []
    for option in part.options:
        if option in required:
            continue
        unknown = f"{label!r} has no option {option!r}"
        if option in RENAMED:
            message = RENAMED[option]
        elif required:
            message = f"{unknown} ({path}){did_you_mean(option, required, 'Its options')}"
        else:
            message = f"{unknown}, and no other ({path})"
        problems.append(Problem(f"{where}.{option}", message))
    missing = [option for option in required if required[option] and option not in part.options]
    return problems + [Problem(where, f"{label!r} needs the option {option!r} ({path})") for option in missing]


def _of_option(problem: Problem, where: str, options: Collection[str]) -> Problem:
    """Return the problem of a class, "OPTION: message", as that of the option, which has a place of its own."""
    option, colon, message = problem.message.partition(": ")
    return Problem(f"{where}.{option}", message) if colon and option in options and problem.key == where else problem


@lru_cache(maxsize=256)
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    # A sweep builds the same few classes for every point, and their validators are slow to make.
    return TypeAdapter(cls)


@once
def path_of(cls: type) -> str:
    """Return the file of a part's class, as messages show it."""
    path = lookup.file_of(cls.__module__)
    return source.shown(path) if path else cls.__module__

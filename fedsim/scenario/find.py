"""From a name in a scenario to a file, to the one class in it, to that class built with its options.

A name is the name of a file, or of a folder with an `__init__.py`: `algorithm: power` is `algorithms/power.py`, of the
user's own folder `algorithms` before fedsim's (`shipped`).  A dotted name (`mylab.power2`) is a module, the user's or
fedsim's.  `check` looks at sources only; `build` imports.  There is no registry.
"""

import dataclasses
import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError

from fedsim.core import shipped
from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.scenario import defaults, lookup, source, wording


class Named(Protocol):
    """A part of a scenario: the name of a file and the options of its class."""

    @property
    def name(self) -> str:
        """The file's name, or a dotted module."""

    @property
    def options(self) -> Mapping[str, Any]:
        """What the class is built with."""


@dataclass(frozen=True)
class Kind:
    """Where the files of a kind lie, which class they implement, and the scenario's key for it."""

    package: str
    contract: tuple[str, str]
    key: str


KINDS = {
    "algorithm": Kind("algorithms", ("fedsim.learn.algorithm", "Algorithm"), "algorithm"),
    "protocol": Kind("fedsim.clock.protocols", ("fedsim.clock.protocol", "Protocol"), "protocol"),
    "topology": Kind("fedsim.net.topologies", ("fedsim.net.topology", "Topology"), "network.topology"),
    "transport": Kind("fedsim.net.transports", ("fedsim.net.transport", "Transport"), "network.transport"),
    "effect": Kind("fedsim.net.effects", ("fedsim.net.effect", "Effect"), "network.effects"),
    "codec": Kind("fedsim.net.codecs", ("fedsim.net.codec", "Codec"), "network.codec"),
    "sampler": Kind("fedsim.clock.samplers", ("fedsim.clock.sampler", "Sampler"), "clients.sampler"),
    "dataset": Kind("fedsim.data.datasets", ("fedsim.data.dataset", "Dataset"), "data.dataset"),
    "partition": Kind("fedsim.data.partitions", ("fedsim.data.partition", "Partition"), "data.partition"),
    "stream": Kind("fedsim.data.streams", ("fedsim.data.stream", "Stream"), "data.stream"),
    "task": Kind("fedsim.learn.tasks", ("fedsim.learn.task", "Task"), "task"),
    "model": Kind("fedsim.learn.models", ("fedsim.learn.model", "Model"), "model"),
    "metric": Kind("fedsim.learn.metrics", ("fedsim.learn.metric", "Metric"), "measure.metrics"),
}


def names(kind: str) -> list[str]:
    """Return the names of a kind that come with the project, and those of the user's folder of that kind."""
    package = KINDS[kind].package
    ours = {name for folder in lookup.folders_of(package) for name in _files(folder)}
    theirs = {name for folder in shipped.folders(package) for name in _files(folder)} - ours
    return sorted(ours | {name for name in theirs if _is_one(kind, name)})


def note(kind: str, name: str) -> str:
    """Return a line that says where a name is the user's file although fedsim has one of that name, "" elsewhere."""
    module, own = module_of(kind, name), f"{KINDS[kind].package}.{name}"
    if module is None or module in (name, own):
        return ""
    return f"{kind} {name} is {lookup.file_of(module)}; fedsim's own is {own}"


def check(kind: str, part: Named, where: str | None = None) -> list[Problem]:
    """Return the problems with a part's name and the names of its options, without importing its file."""
    where = where or KINDS[kind].key
    module = module_of(kind, part.name)
    path = lookup.file_of(module) if module else None
    if module is None or path is None:
        return [Problem(where, _unknown(kind, part.name))]
    try:
        outlines = source.outlines(module, KINDS[kind].contract)
    except SyntaxError as error:
        return [Problem(where, f"{source.shown(path)}, line {error.lineno}, is not Python: {error.msg}")]
    except (OSError, UnicodeDecodeError) as error:
        return [Problem(where, f"{source.shown(path)} cannot be read: {error}")]
    name = pick([*outlines], part.name)
    if name is None:
        return [Problem(where, _not_one(kind, part.name, source.shown(path), [*outlines]))]
    if not outlines[name].certain:
        return []  # a base class is out of reach: only building it can tell
    return _option_problems(part, outlines[name].options, source.shown(path), where)


def build(kind: str, part: Named, where: str | None = None, **context: Any) -> Any:
    """Import the part's file and return its class built with the part's options and the given context.

    Context are fields that the program fills, if the class has them.  Raises ScenarioError if the name, an option or a
    value is wrong, or if the class itself refuses its values.
    """
    where = where or KINDS[kind].key
    cls = find(kind, part, where)
    path = source.shown(_path_of(cls))
    fields = {field.name: _required(field) for field in source.option_fields(cls)}
    given = {**{key: value for key, value in context.items() if key in fields}, **part.options}
    options = {key: required and key not in given for key, required in fields.items()}
    if wrong := _option_problems(part, options, path, where):
        raise ScenarioError(wrong)
    try:
        return _adapter(cls).validate_python(_but_defaults(cls, given)) if fields else cls()  # type: ignore[arg-type]
    except ValidationError as error:
        found = wording.problems(error.errors(include_url=False), (where,))
        raise ScenarioError([Problem(problem.key, f"{problem.message} ({path})") for problem in found]) from None
    except ScenarioError:
        raise
    except UserError as error:  # the message names the file that the part reads, and the place in it
        raise ScenarioError([Problem(where, f"{error} ({path})")]) from None


def find(kind: str, part: Named, where: str) -> type[Any]:
    """Import the part's file and return the one class of its kind.  Raises ScenarioError if there is none."""
    module = module_of(kind, part.name)
    path = lookup.file_of(module) if module else None
    if module is None or path is None:
        raise ScenarioError([Problem(where, _unknown(kind, part.name))])
    try:
        imported = importlib.import_module(module)
        contract = getattr(importlib.import_module(KINDS[kind].contract[0]), KINDS[kind].contract[1])
    except (ImportError, SyntaxError) as error:
        raise ScenarioError([Problem(where, f"{source.shown(path)} cannot be imported: {error}")]) from error
    except UserError as error:  # its class is refused
        raise ScenarioError([Problem(where, f"{source.shown(path)}: {error}")]) from None
    except TypeError as error:
        if "non-frozen dataclass" not in str(error):
            raise
        message = f"{source.shown(path)}: write @dataclass(frozen=True): {error}"
        raise ScenarioError([Problem(where, message)]) from error
    classes: dict[str, Any] = {
        name: cls
        for name, cls in vars(imported).items()
        if inspect.isclass(cls) and issubclass(cls, contract) and cls.__module__ == module and not name.startswith("_")
    }
    name = pick([*classes], part.name)
    if name is None:
        raise ScenarioError([Problem(where, _not_one(kind, part.name, source.shown(path), [*classes]))])
    if inspect.isabstract(classes[name]):
        missing = ", ".join(sorted(classes[name].__abstractmethods__))
        raise ScenarioError([Problem(where, f"{name} in {source.shown(path)} lacks {missing}")])
    return classes[name]  # type: ignore[no-any-return]


def module_of(kind: str, name: str) -> str | None:
    """Return the dotted module of a name, or None if it cannot be one."""
    if not all(step.isidentifier() and not step.startswith("_") for step in name.split(".")):
        return None
    return name if "." in name else shipped.preferred(KINDS[kind].package, name)


def pick(classes: list[str], name: str) -> str | None:
    """Return the only class, or of several the one that is called like the file."""
    alike = [cls for cls in classes if cls.lower() == name.split(".")[-1].replace("_", "").lower()]
    return classes[0] if len(classes) == 1 else alike[0] if len(alike) == 1 else None


def _files(folder: Path) -> list[str]:
    """Return the names of the modules and packages in a folder."""
    found = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    return [name for name in found if not name.startswith("_")]


def _is_one(kind: str, name: str) -> bool:
    """Return whether a file of the user's, which may be unrelated to fedsim, defines a part of this kind."""
    module = module_of(kind, name)
    try:
        return module is not None and any(o.is_kind for o in source.outlines(module, KINDS[kind].contract).values())
    except (OSError, SyntaxError, UnicodeDecodeError):
        return False


def _but_defaults(cls: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    # A default may lie outside of its own type, such as 0 for a count, and is not validated.
    own = {field.name: defaults.plain(_default(field)) for field in source.option_fields(cls)}
    return {key: value for key, value in given.items() if not defaults.same(value, own[key])}


def _unknown(kind: str, name: str) -> str:
    article = "an" if kind[0] in "aeiou" else "a"
    if "," in name:
        return f"{name!r} is not {article} {kind}; several go under grid: {KINDS[kind].key}: [{name}]"
    if "." in name:
        return f"{name!r} is not {article} {kind}: there is no module of that name, seen from this folder"
    place = f"{KINDS[kind].package.replace('.', '/')}/{name}.py"
    return (
        f"{name!r} is not {article} {kind}: there is no {place}{wording.did_you_mean(name, names(kind), 'There are')}"
    )


def _not_one(kind: str, name: str, path: str, classes: list[str]) -> str:
    contract = KINDS[kind].contract[1]
    if not classes:
        instead = f" ({hint})" if (hint := note(kind, name)) else ""
        return (
            f"{path} defines no {contract}: one class in it must descend from {'.'.join(KINDS[kind].contract)}{instead}"
        )
    return f"{path} defines {len(classes)} of the kind {contract} ({', '.join(classes)}): keep one per file"


def _option_problems(part: Named, options: Mapping[str, bool], path: str, where: str) -> list[Problem]:
    label = part.name.split(".")[-1]
    found = [
        Problem(
            f"{where}.{option}",
            f"{label!r} has no option {option!r} ({path})" + wording.did_you_mean(option, [*options], "Its options")
            if options
            else f"{label!r} has no option {option!r}, and no other ({path})",
        )
        for option in part.options
        if option not in options
    ]
    missing = [option for option, required in options.items() if required and option not in part.options]
    return found + [Problem(where, f"{label!r} needs the option {option!r} ({path})") for option in missing]


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _default(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


@lru_cache(maxsize=256)
def _adapter(cls: type[Any]) -> TypeAdapter[Any]:
    # A sweep builds the same few classes for every point, and their validators are slow to make.
    return TypeAdapter(cls)


def _path_of(cls: type) -> Any:
    return lookup.file_of(cls.__module__)

"""Scenario files: read YAML with the line of every key, apply `--set`, and report problems with their place.

`yaml_text` defines the YAML that they may hold.
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedsim.core.errors import Problem, ScenarioError, UserError
from fedsim.core.table import text_of
from fedsim.scenario import grid
from fedsim.scenario.combinations import AXES
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import paths, yaml_text

MOST = 5  # problems shown at once


@dataclass
class Document:
    """A scenario file as read: plain data, the line of each dotted key, and the flags that changed keys."""

    path: Path
    text: str
    data: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)

    def place(self, key: str) -> str:
        """Return the place of a dotted key: the flag that set it, or file and nearest line with its flags."""
        flagged = [set_key for set_key in self.flags if key == set_key or key.startswith(f"{set_key}.")]
        if not flagged and key not in self.lines:
            flagged = [set_key for set_key in self.flags if set_key.startswith(f"{key}.")]
        if flagged:
            return self.flags[max(flagged, key=len)]
        below = [flag for set_key, flag in self.flags.items() if key and set_key.startswith(f"{key}.")]
        while key and key not in self.lines:
            key = key.rpartition(".")[0]
        file = f"{self.path}, line {self.lines[key]}" if key else str(self.path)
        return f"{file}, with {' and '.join(below)}" if below else file

    def message(self, problems: Sequence[Problem]) -> str:
        """Return one block of text with the first few problems, each with its place."""
        lines = [f"{self.place(problem.key)}: {problem}" for problem in problems[:MOST]]
        more = len(problems) - MOST
        return "\n".join([*lines, *([f"... and {more} more"] if more > 0 else [])])

    def error(self, problems: Iterable[Problem]) -> UserError:
        """Return the problems as an exception."""
        return UserError(self.message([*problems]))

    @contextmanager
    def located(self) -> Iterator[None]:
        """Raise the problems of a scenario that the block finds as an exception that names their places."""
        try:
            yield
        except ScenarioError as error:
            raise self.error(error.problems) from None


def load(path: Path, flags: Sequence[str] = ()) -> tuple[Scenario, Document]:
    """Read a scenario and apply the KEY=VALUE flags.  Raises UserError with all problems and their places."""
    document = read(path)
    for flag in flags:
        apply(document, flag)
    return validated(document), document


def validated(document: Document) -> Scenario:
    """Return the scenario of a document, with absolute paths of files.  Raises UserError with all problems."""
    document.data = paths.made_absolute(document.data, document.path.parent)
    try:
        return Scenario.model_validate(document.data)
    except ValidationError as error:
        raise document.error(grid.plain_problems(error, Scenario, document.data)) from None
    except ValueError as error:
        raise document.error([Problem("", str(error))]) from None


def read(path: Path) -> Document:
    """Read the YAML of a file.  Raises UserError if it cannot be read or is not a mapping."""
    try:
        text = text_of(path)
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such file{_near_file(path)}") from None
    except IsADirectoryError:
        files = ", ".join(sorted(p.name for p in path.glob("*.yaml"))) or "no .yaml file"
        raise UserError(f"{path} is a folder; name a scenario file ({files})") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    document = Document(path, text, {})
    data = yaml_text.read(text, str(path), document.lines)
    if not isinstance(data, dict):
        what = "empty" if data is None else f"a {'list' if isinstance(data, list) else 'single value'}"
        raise UserError(f"{path}: the file is {what}; a scenario is a mapping, as\n  name: my_scenario\n  seed: 0")
    document.data = data
    return document


def apply(document: Document, flag: str) -> None:
    """Apply one KEY=VALUE to the document in place; see `lay`.

    Raises UserError, naming the flag, if it is not KEY=VALUE or there is no such key.
    """
    key, equals, text = flag.partition("=")
    key, name = key.strip(), f"--set {flag}"
    steps = key.split(".")
    if not equals or not all(steps):
        raise UserError(f"{name}: write --set KEY=VALUE, as in --set clients.count=5 or --set grid.seed=[0,1]")
    if len(steps) > yaml_text.DEEPEST:
        raise UserError(f"{name}: a key of {len(steps)} parts; a scenario has {yaml_text.DEEPEST} levels at most")
    lay(document, key, yaml_text.read(text, name, {}), name)


def lay(document: Document, key: str, value: Any, name: str) -> None:
    """Set a dotted key of the document in place.

    An axis is replaced by the value, or by another axis (`grid.KEY`).  An option of a part that is an axis is
    set for each part on it.  Entries under `when` no longer set the key.  `name` is the flag or argument, for
    messages.

    Raises UserError if there is no such key.
    """
    kind, _, axis = key.partition(".")
    if kind == "when":
        raise UserError(f"{name}: entries under 'when' cannot be set from outside; set the key itself")
    if kind in AXES and axis:
        if not isinstance(value, list):
            raise UserError(f"{name}: an axis is a list, as in {name.replace('=', '=[', 1)}]")
        _forget(document, axis)
        document.data[kind] = {**_mapping(document, kind), axis: value}
    else:
        _forget(document, key)
        _apply_to_axes(document, key, value, name)
        try:
            grid.put(document.data, key, value, Scenario)
        except ValueError as error:
            raise UserError(f"{name}: {error}") from None
    document.flags[key] = name


def _mapping(document: Document, key: str) -> dict[str, Any]:
    value = document.data.get(key)
    return value if isinstance(value, dict) else {}


def _forget(document: Document, key: str) -> None:
    # The key is no longer an axis, nor set under 'when'.  Anything malformed is left for the model to refuse.
    for kind in AXES:
        if key in _mapping(document, kind):
            document.data[kind] = {axis: values for axis, values in document.data[kind].items() if axis != key}
    for companions in _mapping(document, "when").values():
        for settings in companions.values() if isinstance(companions, dict) else ():
            for setting in [*settings] if isinstance(settings, dict) else ():
                if setting == key or setting.startswith(f"{key}."):
                    del settings[setting]


def _apply_to_axes(document: Document, key: str, value: Any, name: str) -> None:
    # Set an option of a part that is itself an axis for every part on the axis.
    for axis, values in _mapping(document, "grid").items():
        if key.startswith(f"{axis}.") and isinstance(values, list):
            option = key.removeprefix(f"{axis}.")
            for number, part in enumerate(values):
                if isinstance(part, str | dict):
                    holder = {"part": part}
                    grid.put(holder, f"part.{option}", value, Scenario)
                    values[number] = holder["part"]
                    document.flags[f"grid.{axis}.{number}.{option}"] = name


def dump(scenario: Scenario) -> str:
    """Return the scenario as YAML that reads back to the same scenario."""
    return yaml_text.text_of(scenario.plain())


def _near_file(path: Path) -> str:
    """Return a hint: a file of nearly that name beside it, or in the folder of scenarios."""
    for folder in (path.parent, path.parent / "scenarios"):
        names = sorted(file.name for file in folder.glob("*.y*ml")) if os.path.isdir(folder) else []
        same_stem = [name for name in names if Path(name).stem == path.stem]
        if near := same_stem or difflib.get_close_matches(path.name, names, n=1):
            return f"; did you mean {folder / near[0]}?"
    return ""

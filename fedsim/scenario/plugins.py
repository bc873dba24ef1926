"""Parts that are not fedsim's own: names in a scenario that would run code of another module.

A part that is named in a scenario is a module, and building it runs that module.  Whoever runs a stranger's scenario
can refuse all modules but fedsim's (`--no-plugins`).  Not covered: code that Python runs before fedsim is asked, such
as a file of the working folder that has the name of an imported package (docs/security.md).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import ValidationError

from fedsim.core import shipped
from fedsim.core.errors import Problem
from fedsim.scenario import combinations, find, lookup, stated
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point


def problems(points: Sequence[Point]) -> list[Problem]:
    """Return a problem for each key that names a module other than fedsim's; nothing is imported."""
    found: dict[Problem, None] = {}
    for point in points:
        for kind, key, part in [*point.scenario.parts(), ("task", "task", point.scenario.task)]:
            for inner, place in _with_inner(kind, part, key):
                if (message := _refusal(kind, inner)) is not None:
                    found.setdefault(Problem(combinations.blame(place, point.places), message))
    return [*found]


def _with_inner(kind: str, part: Part, key: str) -> Iterator[tuple[Part, str]]:
    """Yield a part and those that its options hold, with their keys."""
    yield part, key
    for option in stated.holding_parts(kind, part.name):
        try:
            inner = Part.model_validate(part.options.get(option))
        except ValidationError:  # missing, or no part: reported when it is built
            continue
        yield from _with_inner(kind, inner, f"{key}.{option}")


def _refusal(kind: str, part: Part) -> str | None:
    """Return why a part is refused, None if it is fedsim's or does not exist."""
    module, dotted = find.module_of(kind, part.name), "." in part.name
    path = lookup.file_of(module) if module else None
    if module is None or (path is None and not dotted):
        return None  # no module at all, which `check` reports
    if path is not None and any(path.resolve().is_relative_to(folder) for folder in _own_folders()):
        return None
    own = f"{find.KINDS[kind].package}.{part.name}"
    instead = f"; rename that file to use fedsim's own {own}" if find.note(kind, part.name) and not dotted else ""
    return f"{part.name!r} would run {path or 'a module'}, which is not part of fedsim; plugins are refused{instead}"


def _own_folders() -> list[Path]:
    """Return the folders whose code is fedsim's: the package, and its algorithms wherever they are installed."""
    home, finder = Path(shipped.__file__).resolve().parents[1], shipped.finder()
    return [home] if finder is None else [home, finder.root.resolve() / "algorithms"]

"""Parts that are not fedsim's own: names in a scenario that would run code of another module.

A part that is named in a scenario is a module, and building it runs that module.  Whoever runs a stranger's scenario
can refuse all modules but fedsim's (`--no-plugins`).  Not covered: code that Python runs before fedsim is asked, such
as a file of the working folder that has the name of an imported package (docs/security.md).
"""

from collections.abc import Sequence
from pathlib import Path

import fedsim
from fedsim.core import shipped
from fedsim.core.errors import Problem
from fedsim.scenario import combinations, find, lookup
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point


def problems(points: Sequence[Point]) -> list[Problem]:
    """Return a problem for each key that names a module other than fedsim's; nothing is imported."""
    found: dict[Problem, None] = {}
    for point in points:
        for kind, key, part in [*point.scenario.parts(), ("task", "task", point.scenario.task)]:
            if (message := _refusal(kind, part)) is not None:
                found.setdefault(Problem(combinations.blame(key, point.places), message))
    return [*found]


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
    home, finder = Path(fedsim.__file__).resolve().parent, shipped.finder()
    return [home] if finder is None else [home, finder.root.resolve() / "algorithms"]

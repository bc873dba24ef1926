"""Parts that are not fedsim's own: names in a scenario that would run code of another module.

A part that is named in a scenario is a module, and building it runs that module.  A user who runs an
untrusted scenario can refuse all modules but fedsim's (`--no-plugins`).  Not covered: code that Python runs
before fedsim is asked, such as a file of the working folder that has the name of an imported package
(docs/security.md).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from fedsim.core.errors import Problem
from fedsim.scenario import combinations
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, options
from fedsim.scenario.schema import Scenario


def problems(scenario: Scenario, beside: Sequence[Path] = ()) -> list[Problem]:
    """Return a problem for each key that names a module other than fedsim's; no other module is imported.

    `beside` are the folders of the user's files, which are out of reach but named.

    Raises ScenarioError if a value does not fit its key.
    """
    problems: dict[Problem, None] = {}
    for point in combinations.resolve(scenario.plain(), Scenario):
        for kind, key, part in [*point.scenario.parts(), ("task", "task", point.scenario.task)]:
            for place, message in _refusals(kind, part, key, beside):
                problems.setdefault(Problem(combinations.blame(place, point.places), message))
    return [*problems]


def _refusals(kind: str, part: Part, key: str, beside: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield why a part is refused, or those that its options hold, with the key of each."""
    if (message := _refusal(kind, part, beside)) is not None:
        yield key, message
        return
    for option, inner in options.inner_parts(kind, part).items():
        yield from _refusals(kind, inner, f"{key}.{option}", beside)


def _refusal(kind: str, part: Part, beside: Sequence[Path]) -> str | None:
    """Return why a part is refused, None if it is fedsim's or does not exist."""
    module, dotted = find.module_of(kind, part.name), "." in part.name
    path = lookup.file_of(module) if module else None
    if path is None and not dotted:
        with lookup.within_reach(*beside):
            module = find.module_of(kind, part.name)
            path = lookup.file_of(module) if module else None
    if module is None or (path is None and not dotted):
        return None  # no module at all, which `check` reports
    if path is not None and lookup.is_fedsims(path):
        return None
    own = f"{find.KINDS[kind].package}.{part.name}"
    instead = f"; rename that file to use fedsim's own {own}" if find.note(kind, part.name) and not dotted else ""
    refused = "which is not part of fedsim; plugins are refused (--no-plugins)"
    return f"{part.name!r} would run {path or 'a module'}, {refused}{instead}"

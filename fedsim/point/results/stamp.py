"""Stamp: everything besides its scenario that affects a point's results, stored with its results and checkpoints.

It holds a hash of the source of every module that the run of the point needs: `fedsim.point.run`, the files of the
point's parts, and whatever these import (`source_hashes.py`), so that edits are noticed, except those of comments.
Modules that display, compare or schedule points are not included.  Results whose stamp differs from the sources are
computed again.

Versions of libraries are recorded, but another version does not make a point run again.  A version is a setting of the
host, like `device`: it changes last bits and rarely random draws.  Results of a cluster must also
stay valid where another build of torch is installed, and an upgrade of one library must not discard days of computing.
So a sweep reports that versions differ and leaves the choice to `--fresh`.  Only checkpoints are never continued under
another version.  Native kernels (`core/kernels.py`) count as another version of torch.

A stamp describes what a process runs, which is what it has imported.  If a file was edited after that, the stamp keeps
the hash that the process first took of it; none at all where the file was written after this process began and after
Python compiled what was imported.  If Python writes no compiled copies the latter is not noticed.
"""

import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter, ValidationError

from fedsim.core import kernels
from fedsim.core.version import __version__
from fedsim.point.results import source_hashes as imports
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, options, source
from fedsim.scenario.schema import Point, Scenario

ROOT = "fedsim.point.run"
# What `run` imports only where something is learned; and what it uses that does not affect results.
LEARNS = ("fedsim.point.build.learning", "fedsim.learner.untrained", "fedsim.learner.weights")
WITHOUT_NUMBERS = ("fedsim.point.results.stamp", "fedsim.core.logbook")
INSTALLED_AS = {"torch_geometric": "torch-geometric", "sklearn": "scikit-learn", "community": "python-louvain",
                "ot": "POT", "sknetwork": "scikit-network", "yaml": "PyYAML"}  # fmt: skip
STARTED = time.time()  # a file written later may differ from the one imported
NATIVE = " with native kernels"  # follows the version of torch
EDITED = ""  # the hash of a module whose source is not what was imported; equals no other


@dataclass(frozen=True)
class Stamp:
    """The version of fedsim, those of libraries, and the hash of each module's source."""

    fedsim: str
    libraries: Mapping[str, str]
    modules: Mapping[str, str]
    written: str = ""  # the digest of the scenario as it was written, defaults left out

    def text(self) -> str:
        """Return the stamp as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def continues(self, text: str) -> bool:
        """Return whether a checkpoint with this stamp (JSON) may be continued: nothing has changed since."""
        other = parsed(text)
        same = other is not None and (other.libraries, other.modules) == (self.libraries, self.modules)
        return same and EDITED not in self.modules.values()


def of(scenario: Scenario, written: str = "") -> Stamp:
    """Return the stamp of what this process runs for a scenario.

    Call it before the run imports the point's parts: a file edited in between then counts as changed after the run, so
    that the point runs once too often rather than too rarely.
    """
    return _stamped(needs(scenario), written)


def of_learning(parts: Iterable[tuple[str, Part]]) -> Stamp:
    """Return the stamp of a run of these parts (kind, part) alone."""
    return _stamped(imports.needed([ROOT, *_modules_of(parts)], WITHOUT_NUMBERS))


def of_parts(parts: Iterable[tuple[str, Part]]) -> dict[str, str]:
    """Return the hash of each module that these parts (kind, part) need, as this process has imported it."""
    needed = imports.needed(_modules_of(parts), WITHOUT_NUMBERS)
    return {name: executed(name, path) for name, path in sorted(needed.modules.items())}


def needs(scenario: Scenario) -> imports.Needed:
    """Return the modules that the run of a scenario needs, and its libraries."""
    left_out = WITHOUT_NUMBERS if scenario.data is not None else (*WITHOUT_NUMBERS, *LEARNS)
    return imports.needed([ROOT, *modules_of_parts(scenario)], left_out)


def modules_of_parts(scenario: Scenario) -> list[str]:
    """Return the modules of a scenario's parts, as their names lead to them now."""
    parts = [(kind, part) for kind, _, part in scenario.parts()]
    if scenario.algorithm is None:
        parts.append(("algorithm", Part(name="algorithms.traffic")))
    return [*_modules_of(parts)]


def own_files(scenario: Scenario) -> list[str]:
    """Return the files of a scenario's parts that are not fedsim's own, as messages show them."""
    names = dict.fromkeys(modules_of_parts(scenario))
    own = [name for name in names if f".{lookup.OWN}." in name or not name.startswith(("fedsim.", "algorithms."))]
    return [source.shown(path) for name in own if (path := lookup.file_of(name))]


def read(path: Path) -> Stamp | None:
    """Return the stamp in a file, None if there is none."""
    try:
        return parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def parsed(text: str) -> Stamp | None:
    """Return the stamp of a text, None if it is invalid."""
    try:
        return TypeAdapter(Stamp).validate_json(text)
    except ValidationError:
        return None


class Disk:
    """The sources as they are on disk now, each read once."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._file_of = cache(lookup.file_of)
        self._hash_of = cache(imports.hash_of)

    def changed(self, stamp: Stamp, parts: Iterable[str] = ()) -> list[str]:
        """Return the files, as messages show them, whose source differs from a stamp; missing modules by name.

        `parts` are the modules that the point's names lead to now: a file of the user's in the place of fedsim's, or
        the other way round, is another one.
        """
        changed = []
        for name, then in stamp.modules.items():
            path = self._file_of(name)
            if not then or path is None or self._hash_of(path) != then:
                changed.append(source.shown(path) if path else name)
        others = [name for name in parts if name.partition(".")[0] in lookup.OURS and name not in stamp.modules]
        return [*changed, *(source.shown(path) for path in map(self._file_of, others) if path)]


def edited(points: Iterable[Point]) -> list[str]:
    """Return the files that the points need and that have changed since this process imported them."""
    modules = {name: path for point in points for name, path in needs(point.scenario).modules.items()}
    loaded = [(name, path) for name, path in sorted(modules.items()) if name in sys.modules]
    return [source.shown(path) for name, path in loaded if executed(name, path) != (imports.hash_of(path) or None)]


def executed(name: str, path: Path) -> str:
    """Return the hash of a module's source as this process has imported it, or would now."""
    loaded, seen = sys.modules.get(name), _seen()
    spec = getattr(loaded, "__spec__", None)
    before, hashed = seen.get(name, (None, None))
    if hashed is None or (before is not None and before is not spec):  # another spec: it was imported again
        hashed = EDITED if loaded and _written_after_import(loaded, path) else imports.hash_of(path)
    seen[name] = spec, hashed
    return hashed


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed libraries by distribution name."""
    known = versions_of(INSTALLED_AS.get(package, package) for package in packages)
    return {name: version for name, version in known.items() if version}


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each library by distribution name, "" if it is not installed.

    Torch's version also names native kernels, which change last bits as another version does.
    """
    native = {"torch": NATIVE} if kernels.differ() else {}
    return {name: (version := version_of(name)) + (native.get(name, "") if version else "") for name in sorted(names)}


@lru_cache(maxsize=256)
def version_of(name: str) -> str:
    """Return the version of a library, "" if it is not installed."""
    try:
        return metadata.version(name) or ""  # None where its files are damaged
    except metadata.PackageNotFoundError:
        return ""


def _stamped(needed: imports.Needed, written: str = "") -> Stamp:
    modules = {name: executed(name, path) for name, path in sorted(needed.modules.items())}
    return Stamp(__version__, versions(needed.libraries), modules, written)


def _modules_of(parts: Iterable[tuple[str, Part]]) -> Iterator[str]:
    """Yield the module of each part (kind, part), and those of parts that are among its options."""
    for kind, part in parts:
        if module := find.module_of(kind, part.name):
            yield module
        yield from _modules_of((kind, inner) for inner in options.inner_parts(kind, part).values())


@lru_cache(maxsize=1)
def _seen() -> dict[str, tuple[Any, str]]:
    # What this process knows of its imports, which belong to the process and cannot be passed as an argument.
    return {}


def _written_after_import(module: ModuleType, path: Path) -> bool:
    """Return whether a file was written after this process began and after Python compiled what was imported."""
    spec = module.__spec__
    try:
        changed = path.stat().st_mtime
        return bool(spec and spec.cached and changed > max(STARTED, Path(spec.cached).stat().st_mtime))
    except OSError:
        return False

"""Stamp: everything besides its scenario that affects a point's results, stored with its results and checkpoints.

It holds a hash of the source of every module that the run of the point needs: `fedsim.point.run`, the files of the
point's parts, and whatever these import (`imports.py`), so that edits are noticed, except those of comments.  Modules
that display, compare or schedule points are not included.  Results whose stamp differs from the sources are computed
again.

Versions of libraries are recorded, but another version does not make a point run again.  A version is a setting of the
host, like `device`: it changes last bits and rarely random draws.  Results of a cluster must also
stay valid where another build of torch is installed, and an upgrade of one library must not discard days of computing.
So a sweep reports that versions differ and leaves the choice to `--fresh`.  Only checkpoints are never continued under
another version.  Native kernels (`core/kernels.py`) count as another version of torch.

A stamp describes what a process runs, which is what it has imported.  If a file was edited after that, the stamp keeps
the hash of what was imported: the first that the process took of the file or, for a module imported before, none at all
if Python's compiled copy shows another time or size.  If Python writes no compiled copies this is not noticed.
"""

import json
import struct
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import metadata
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import ModuleType
from typing import Any

from fedsim.core import kernels
from fedsim.core.version import __version__
from fedsim.point import imports
from fedsim.point.imports import Print
from fedsim.scenario import find, lookup, source, stated
from fedsim.scenario.part import Part
from fedsim.scenario.schema import Point, Scenario

ROOT = "fedsim.point.run"
LEARNS = ("fedsim.point.learning", "fedsim.learner.untrained")  # what `run` imports only where something is learned
WITHOUT_NUMBERS = (
    "fedsim.point.stamp",
    "fedsim.point.provenance",
    "fedsim.core.logbook",
)  # used by a run, but do not affect results
INSTALLED_AS = {"torch_geometric": "torch-geometric", "sklearn": "scikit-learn", "community": "python-louvain",
                "ot": "POT", "sknetwork": "scikit-network", "yaml": "PyYAML"}  # fmt: skip
STARTED = time.time()  # a file written later may differ from the one imported
NATIVE = " with native kernels"  # follows the version of torch
EDITED = Print("", "")  # for a module whose source is not what was imported; equals no other


@dataclass(frozen=True)
class Stamp:
    """The version of fedsim, those of libraries, and the hashes of each module's source, text and meaning."""

    fedsim: str
    libraries: Mapping[str, str]
    modules: Mapping[str, Sequence[str]]
    written: str = ""  # the digest of the scenario as it was written, defaults left out

    def text(self) -> str:
        """Return the stamp as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def continues(self, plain: Any) -> bool:
        """Return whether a checkpoint with this stamp (JSON) may be continued: nothing has changed since."""
        made = parsed(plain) if isinstance(plain, str) else None
        if made is None or made.libraries != self.libraries or made.modules.keys() != self.modules.keys():
            return False
        return all(_equal(made.modules[name], own) for name, own in self.modules.items())


def of(scenario: Scenario, written: str = "") -> Stamp:
    """Return the stamp of what this process runs for a scenario.

    Call it before the run imports the point's parts: a file edited in between then counts as changed after the run, so
    that the point runs once too often rather than too rarely.
    """
    return _stamped(needs(scenario), written)


def of_learning(parts: Iterable[tuple[str, Part]]) -> Stamp:
    """Return the stamp of a run of these parts (kind, part) alone."""
    modules = [module for kind, part in parts for module in _modules_of(kind, part)]
    return _stamped(imports.needed([ROOT, *modules], WITHOUT_NUMBERS))


def of_parts(parts: Iterable[tuple[str, Part]]) -> dict[str, str]:
    """Return the meaning of each module that these parts (kind, part) need, as this process has imported it."""
    needed = imports.needed([module for kind, part in parts for module in _modules_of(kind, part)], WITHOUT_NUMBERS)
    return {name: executed(name, path).meaning for name, path in sorted(needed.modules.items())}


def needs(scenario: Scenario) -> imports.Needed:
    """Return the modules that the run of a scenario needs, and its libraries."""
    left_out = WITHOUT_NUMBERS if scenario.data is not None else (*WITHOUT_NUMBERS, *LEARNS)
    return imports.needed([ROOT, *modules_of_parts(scenario)], left_out)


def modules_of_parts(scenario: Scenario) -> list[str]:
    """Return the modules of a scenario's parts, as their names lead to them now."""
    parts = [(kind, part) for kind, _, part in scenario.parts()]
    if scenario.algorithm is None:
        parts.append(("algorithm", Part(name="algorithms.traffic")))
    return [module for kind, part in parts for module in _modules_of(kind, part)]


def read(path: Path) -> Stamp | None:
    """Return the stamp in a file, None if there is none."""
    try:
        return parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def parsed(text: str) -> Stamp | None:
    """Return the stamp of a text, None if it is invalid."""
    try:
        found = json.loads(text)
        made = Stamp(found["fedsim"], found["libraries"], found["modules"], found["written"])
        sound = all(isinstance(one, list) and len(one) == 2 for one in made.modules.values())
        return made if sound and isinstance(made.libraries, dict) else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


@dataclass(frozen=True)
class Disk:
    """The sources as they are on disk now, each read once."""

    _paths: dict[str, Path | None] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    def changed(self, stamp: Stamp, parts: Iterable[str] = ()) -> list[str]:
        """Return the files, as messages show them, whose source differs from a stamp; missing modules by name.

        `parts` are the modules that the point's names lead to now: a file of the user's in the place of fedsim's, or
        the other way round, is another one.
        """
        others = [name for name in parts if name.partition(".")[0] in imports.OURS and name not in stamp.modules]
        return [
            *(self._shown(name) for name, mark in stamp.modules.items() if not self._is(name, mark)),
            *(source.shown(path) for path in map(lookup.file_of, others) if path),
        ]

    def _is(self, name: str, mark: Sequence[str]) -> bool:
        if name not in self._texts:
            self._paths[name] = path = lookup.file_of(name)
            self._texts[name] = imports.text_of(path) if path else ""
        if self._texts[name] == mark[0] != "":
            return True
        path = self._paths[name]
        found = imports.read(path) if path else None
        return found is not None and found.mark.meaning == mark[1]

    def _shown(self, name: str) -> str:
        path = self._paths[name]
        return source.shown(path) if path else name


def edited(points: Iterable[Point]) -> list[str]:
    """Return the files that the points need and that have changed since this process imported them."""
    suspects = {name for name in [*sys.modules] if _written_since(sys.modules.get(name))}
    if not suspects:
        return []
    found: dict[str, None] = {}
    for needed in (needs(point.scenario) for point in points):
        for name in sorted(suspects & needed.modules.keys()):
            now = imports.read(needed.modules[name])
            if now is None or executed(name, needed.modules[name]).meaning != now.mark.meaning:
                found[source.shown(needed.modules[name])] = None
    return [*found]


def executed(name: str, path: Path) -> Print:
    """Return the hashes of a module's source as this process has imported it, or would now."""
    loaded, seen = sys.modules.get(name), _seen()
    spec = getattr(loaded, "__spec__", None)
    known = seen.get(name)
    if known is not None and (known[0] is None or known[0] is spec):  # another spec: it was imported again
        seen[name] = (spec, known[1])
        return known[1]
    now = imports.read(path)
    mark = now.mark if now and not (loaded and _other_was_imported(loaded, path)) else EDITED
    seen[name] = (spec, mark)
    return mark


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed libraries by distribution name."""
    found = versions_of(INSTALLED_AS.get(package, package) for package in packages)
    return {name: version for name, version in found.items() if version}


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
    hashes = {name: (mark.text, mark.meaning) for name, mark in modules.items()}
    return Stamp(__version__, versions(needed.libraries), hashes, written)


def _modules_of(kind: str, part: Part) -> list[str]:
    """Return the module of a part, and those of parts that are among its options."""
    module = find.module_of(kind, part.name)
    options = [part.options.get(option) for option in stated.holding_parts(kind, part.name)]
    inner = [Part.model_validate(value) for value in options if value is not None]
    return [*([module] if module else []), *(name for one in inner for name in _modules_of(kind, one))]


def _equal(one: Sequence[str], other: Sequence[str]) -> bool:
    return one[1] == other[1] != ""


@lru_cache(maxsize=1)
def _seen() -> dict[str, tuple[Any, Print]]:
    # What this process knows of its imports, which belong to the process and cannot be passed as an argument.
    return {}


def _written_since(module: ModuleType | None) -> bool:
    """Return whether a module's file may differ from what was imported."""
    path = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    if not isinstance(path, str) or not path.endswith(".py"):
        return False
    known = _seen().get(name)
    try:
        return Path(path).stat().st_mtime > STARTED or (
            known is not None and imports.text_of(Path(path)) != known[1].text
        )
    except OSError:
        return known is not None


def _other_was_imported(module: ModuleType, path: Path) -> bool:
    """Return whether a file was written after this process began, and is not the one that Python has compiled."""
    cached = getattr(module.__spec__, "cached", None)
    try:
        now = path.stat()
        if now.st_mtime <= STARTED or not cached:
            return False
        head = Path(cached).read_bytes()[:16]
        magic, flags, changed, size = head[:4], *struct.unpack("<III", head[4:])
    except (OSError, struct.error):
        return False
    timed = magic == MAGIC_NUMBER and flags == 0
    return timed and (changed, size) != (int(now.st_mtime) & 0xFFFFFFFF, now.st_size & 0xFFFFFFFF)

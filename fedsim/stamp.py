"""Stamp: what decides the numbers of a point beside its scenario, kept with its results and with its checkpoints.

It holds a hash of the source of every module that the run of the point needs: `fedsim.run`, the files of the point's
parts, and whatever these import (`imports.py`), so that an edit of any is noticed and one of a comment is not.  What
shows, compares or carries points is not among them.  Results whose stamp differs from the sources are made again.

Libraries are noted with their versions, and another version makes no point run again.  A version is a setting of the
host, as the processor and `device` are: it changes last bits, seldom draws, and what a release is to keep is the
meaning.  The results of a cluster must also stay readable where another build of torch is installed, and an upgrade of
one library must not throw away days of computing.  So a sweep says that versions differ and leaves the choice to
`--fresh`.  Only a checkpoint is never continued under another version: half a run of each is a run of neither.

A stamp tells what a process runs, which is what it has imported.  Where a file was edited after that, the stamp keeps
the hash of what was imported: the first that the process took of the file or, for a module imported before, none at all
if Python's own compiled copy shows another time or size.  Where Python writes no such copies this is not noticed.
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

from fedsim import __version__, find, imports, shipped, source
from fedsim.imports import Print
from fedsim.scenario import Part, Point, Scenario

ROOT = "fedsim.run"
LEARNS = ("fedsim.learning", "fedsim.learn.untrained")  # what `run` imports only where something is learned
WITHOUT_NUMBERS = ("fedsim.stamp", "fedsim.provenance", "fedsim.logbook")  # used by a run, and decide nothing
INSTALLED_AS = {"torch_geometric": "torch-geometric", "sklearn": "scikit-learn", "community": "python-louvain",
                "ot": "POT", "sknetwork": "scikit-network", "yaml": "PyYAML"}  # fmt: skip
STARTED = time.time()  # a file written later than this may be another than the one that was imported
EDITED = Print("", "")  # of a module whose source is not what was imported: like no other


@dataclass(frozen=True)
class Stamp:
    """The version of fedsim, those of libraries, and the hashes of each module's source, text and meaning."""

    fedsim: str
    libraries: Mapping[str, str]
    modules: Mapping[str, Sequence[str]]
    written: str = ""  # the digest of the scenario as it was written, defaults left out

    def text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def continues(self, plain: Any) -> bool:
        """Return whether a checkpoint with this stamp, as JSON, is of just what is run now."""
        made = parsed(plain) if isinstance(plain, str) else None
        if made is None or made.libraries != self.libraries or made.modules.keys() != self.modules.keys():
            return False
        return all(_equal(made.modules[name], own) for name, own in self.modules.items())


def of(scenario: Scenario, written: str = "") -> Stamp:
    """Return the stamp of what this process runs for a scenario.

    To be taken before the run imports the point's parts: a file edited in between is then taken to be older than what
    was run, so that the point runs once more, never once too few.
    """
    needed = needs(scenario)
    modules = {name: executed(name, path) for name, path in sorted(needed.modules.items())}
    hashes = {name: (mark.text, mark.meaning) for name, mark in modules.items()}
    return Stamp(__version__, versions(needed.libraries), hashes, written)


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
    """Return the stamp in a file, None where there is none."""
    try:
        return parsed(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def parsed(text: str) -> Stamp | None:
    """Return the stamp of a text, None where it is none."""
    try:
        found = json.loads(text)
        made = Stamp(found["fedsim"], found["libraries"], found["modules"], found["written"])
        sound = all(isinstance(one, list) and len(one) == 2 for one in made.modules.values())
        return made if sound and isinstance(made.libraries, dict) else None
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


@dataclass(frozen=True)
class Disk:
    """The sources as they lie on the disk now, each looked at once."""

    _paths: dict[str, Path | None] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)

    def changed(self, stamp: Stamp, parts: Iterable[str] = ()) -> list[str]:
        """Return the files, as messages show them, whose source is not what a stamp says; a lost module by its name.

        `parts` are the modules that the point's names lead to now: a file of the user's in the place of fedsim's, or
        the other way round, is another one.
        """
        others = [name for name in parts if name.partition(".")[0] in shipped.PACKAGES and name not in stamp.modules]
        return [
            *(self._shown(name) for name, mark in stamp.modules.items() if not self._is(name, mark)),
            *(source.shown(path) for path in map(source.file_of, others) if path),
        ]

    def _is(self, name: str, mark: Sequence[str]) -> bool:
        if name not in self._texts:
            self._paths[name] = path = source.file_of(name)
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
    if known is not None and (known[0] is None or known[0] is spec):  # another spec: it was imported anew
        seen[name] = (spec, known[1])
        return known[1]
    now = imports.read(path)
    mark = now.mark if now and not (loaded and _other_was_imported(loaded, path)) else EDITED
    seen[name] = (spec, mark)
    return mark


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of installed libraries by the names that they are installed under."""
    found = versions_of(INSTALLED_AS.get(package, package) for package in packages)
    return {name: version for name, version in found.items() if version}


def versions_of(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each library, by the name that it is installed under, "" where it is not."""
    return {name: version_of(name) for name in sorted(names)}


@lru_cache(maxsize=256)
def version_of(name: str) -> str:
    """Return the version of an installed library, "" where it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _modules_of(kind: str, part: Part) -> list[str]:
    """Return the module of a part, and those of parts that are among its options."""
    module = find.module_of(kind, part.name)
    options = [part.options.get(option) for option in find.holding_parts(kind, part.name)]
    inner = [Part.model_validate(value) for value in options if value is not None]
    return [*([module] if module else []), *(name for one in inner for name in _modules_of(kind, one))]


def _equal(one: Sequence[str], other: Sequence[str]) -> bool:
    return one[1] == other[1] != ""


@lru_cache(maxsize=1)
def _seen() -> dict[str, tuple[Any, Print]]:
    # What this process knows of what it has imported: the one thing that a process has and no argument can carry.
    return {}


def _written_since(module: ModuleType | None) -> bool:
    """Return whether a module's file may be another than what was imported."""
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
    told = magic == MAGIC_NUMBER and flags == 0
    return told and (changed, size) != (int(now.st_mtime) & 0xFFFFFFFF, now.st_size & 0xFFFFFFFF)

"""Following: a point reuses what was learned from the record of another, and only its own clock runs.

Under many protocols the network changes when things happen and not what is learned.  So the points of a sweep are
grouped by their *learning key*, a hash of all that learning depends on.  The first of a group is trained, and the
answers that its learner gave (`learner/recorded.py`) are kept in the folder `records`.  The clock of another point of
the group runs in full, with its own times, bytes and losses, and finds the answer to each of its questions there, by
key.  If a question has no answer, the point diverges from the record: it starts again with a learner that trains, and
its own record is kept too.  Which protocols and effects allow this is never assumed; the keys decide.

Points that record what clients receive (`measure.views`), or keep their weights (`measure.keep`), need the values
themselves: they reuse no record, and leave none.  Not noticed:
another processor, which changes last digits with native kernels (`core/kernels.py`) or another architecture.
"""

import hashlib
import json
import os
import shutil
import zlib
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgpack

from fedsim.core.whole_files import replace
from fedsim.learner.recorded import LOGGED, Record, packed, unpacked
from fedsim.point.build.parts import Parts
from fedsim.point.results import stamp
from fedsim.point.results.folders import RECORDS
from fedsim.scenario.schema import LABELS, Scenario
from fedsim.scenario.text import paths

# What changes only the clock.  A protocol decides who takes part, so that points of another are another group.
CLOCK = {
    "clients": "speed table",
    "network": "model profile latency uplink downlink server effects congestion_control tls_rtts connection"
    " transport tcp",
    "measure": "every until target target_on",
}
WHOLE = frozenset((*LABELS, "server", "costs"))  # keys and sections without any effect on learning
LEARNING = frozenset(
    ("dataset", "partition", "stream", "model", "task", "codec", "algorithm", "aggregation", "metric", "split")
)  # kinds of parts
QUICK = 1  # zlib's level
BROKEN = (OSError, zlib.error, ValueError, TypeError, LookupError, ArithmeticError, msgpack.UnpackException)


def learning_key_of(scenario: Scenario) -> str:
    """Return the learning key of a point as text, "" if it neither has a record nor reuses one."""
    if scenario.data is None or scenario.measure.views or scenario.measure.keep:
        return ""
    parts = Parts(scenario)
    given = enumerate(zip(scenario.network.effects, parts.effects, strict=True))
    forging = {place: part for place, (part, effect) in given if effect.forges}  # its place names its random stream
    learning = [(kind, part) for kind, _, part in scenario.parts() if kind in LEARNING]
    sources = stamp.of_learning([*learning, *(("effect", part) for part in forging.values())])
    if stamp.EDITED in sources.modules.values():
        return ""  # a file has changed since it was imported
    plain = scenario.plain()
    for section, left_out in CLOCK.items():
        plain[section] = {key: value for key, value in plain[section].items() if key not in left_out.split()}
    described = {
        "scenario": {key: value for key, value in plain.items() if key not in WHOLE},
        "fixed test": scenario.measure.on_fixed_test,
        "clients": len(parts.columns["latency"]),
        "forging": {place: part.model_dump(mode="json") for place, part in forging.items()},
        "modules": dict(sources.modules),
        "versions": [sources.fedsim, dict(sources.libraries)],
    }
    text = json.dumps(paths.by_contents(described), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def save(out: Path, learning_key: str, point: str, record: Record) -> None:
    """Keep the record of a point that was trained, in place of whatever is there.

    Raises OSError if it cannot be written.
    """
    path = out / RECORDS / learning_key / point
    for place in (out / RECORDS, out / RECORDS / learning_key):
        if not _is_folder(place):
            with suppress(OSError):  # there is nothing, or another worker has done so
                place.unlink()
        place.mkdir(exist_ok=True)
    if _is_folder(path):
        shutil.rmtree(path)
    replace(path, zlib.compress(packed(record), QUICK))


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


class FollowedAnswers(dict[bytes, Any]):
    """The answers in all records of a learning key, of which a further one is read when those before it have no answer.

    `points` are the ids of the points whose answers these are, in order of use; `notes` is for the provenance.
    """

    def __init__(self, out: Path, learning_key: str, notes: dict[str, str] | None = None) -> None:
        """Read the oldest record; without any, there is no answer.

        A record that is damaged or no file, such as a link, has none either, and is noted.
        """
        super().__init__()
        self._notes = {} if notes is None else notes
        self._unread = self._files(out / RECORDS / learning_key) if learning_key else []
        self.points: list[str] = []
        while self._unread and not self:
            self._add(self._unread[0], self._record(self._unread[0]))

    def __missing__(self, key: bytes) -> Any:
        """Return the answer of another record.  Raises KeyError if none has one."""
        for path in [*self._unread]:
            if key in (found := self._record(path)):
                self._add(path, found)
                return self[key]
        raise KeyError(key)

    def _files(self, folder: Path) -> list[Path]:
        """Return the records in a folder, the oldest first; note what is no file."""
        if not _is_folder(folder):
            if os.path.lexists(folder):
                self._note(folder)
            return []
        there = [path for path in folder.iterdir() if not path.name.startswith(".")]
        files = [path for path in there if path.is_file() and not path.is_symlink()]
        for path in there:
            if path not in files:
                self._note(path)
        return sorted(files, key=lambda path: (path.stat().st_mtime_ns, path.name))

    def _add(self, path: Path, found: Record) -> None:
        self._unread.remove(path)
        if found:
            self.update({**found, LOGGED: {**self.get(LOGGED, {}), **found.get(LOGGED, {})}})
            self.points.append(path.name)

    def _record(self, path: Path) -> Record:
        """Return a record, empty if it cannot be read."""
        try:
            return _unpacked(path, path.stat().st_mtime_ns)
        except BROKEN:
            self._note(path)
            return {}

    def _note(self, path: Path) -> None:
        self._notes["record"] = f"that of {path.name} is damaged and was not followed"


@lru_cache(maxsize=1)  # the points that follow a record run one after another, mostly
def _unpacked(path: Path, _: int) -> Record:
    return unpacked(zlib.decompress(path.read_bytes()))

"""Find finished points that must run again, and explain why in a line: their sources have changed since, or a file of
theirs is damaged.

A point's results stay in place until those of the new run are complete.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.quantity import many
from fedsim.core.version import __version__
from fedsim.point.results import stamp
from fedsim.point.results.folders import ERROR, SUMS, damaged
from fedsim.point.results.stamp import Disk, Stamp
from fedsim.point.resume import checkpoint
from fedsim.scenario.parts.lookup import OURS
from fedsim.scenario.schema import Point

FILE = "stamp.json"  # in the folder of a finished point
MOST = 3  # files named in a line, and lines
DAMAGED = "missing or damaged"
UNKNOWN = "it is not recorded what they were made from"


@dataclass(frozen=True)
class Review:
    """What must run again: the ids of points whose results are out of date, and notes on all points."""

    again: frozenset[str]
    notes: tuple[str, ...]


def review(
    where: Mapping[str, Path], points: Sequence[Point], finished: Iterable[str], others: Iterable[Path]
) -> Review:
    """Review the finished points among these, given by id, and the folders of other points; `where` has their folders.

    A missing point runs again too if one of `others` was made from the same scenario as written: a default has changed
    since.
    """
    disk, reasons, valid = Disk(), dict[str, str](), list[Stamp]()
    done = {*finished}
    for point in points:
        if point.id in done:
            old = stamp.read(where[point.id] / FILE)
            reason = UNKNOWN if old is None else _reason(old, disk, stamp.modules_of_parts(point.scenario))
            if reason := reason or _damage(where[point.id], old):
                reasons[point.id] = reason
            elif old is not None:
                valid.append(old)
        elif where[point.id].is_dir() and any(file.name != ERROR for file in where[point.id].iterdir()):
            reasons[point.id] = _damage(where[point.id]) or f"a file of it {DAMAGED}"
    missing = {point.written: point.id for point in points if point.id not in done and point.written}
    for old in _stamps(others) if missing else ():
        if old.written in missing and (reason := _reason(old, disk)):
            reasons[missing.pop(old.written)] = reason
    return Review(frozenset(done & reasons.keys()), (*_lines(reasons, len(points)), *_versions(valid)))


def outdated(folder: Path) -> str:
    """Return why the checkpoint in this folder cannot be resumed, "" if it can or there is none."""
    try:
        text = checkpoint.stamp_in(folder)
        if text is None:
            return ""
        reason = _since(text)
        if not reason:
            checkpoint.check(folder)
    except checkpoint.Damaged as error:
        return str(error)
    return reason


def _since(text: str) -> str:
    """Return what has changed since a stamp (JSON), "" if nothing has."""
    old = stamp.parsed(text)
    if old is None:
        return UNKNOWN
    files, here = Disk().changed(old), stamp.versions_of(old.libraries)
    others = [f"{name} {old.libraries[name]} -> {here[name]}" for name in here if here[name] != old.libraries[name]]
    return ", ".join([*([because(files, old.fedsim)] if files else []), *others])


def because(files: Sequence[str], made_by: str = __version__) -> str:
    """Describe briefly what has changed; for files of another version of fedsim, name that version."""
    ours = [file for file in files if file.partition("/")[0] in OURS] if made_by != __version__ else []
    rest = [file for file in files if file not in ours]
    reasons = [f"fedsim {made_by} -> {__version__}"] if ours else []
    if rest:
        more = len(rest) - MOST
        names = ", ".join(rest[:MOST]) + (f" and {more} more {'file' if more == 1 else 'files'}" if more > 0 else "")
        reasons.append(f"{names} {'has' if len(rest) == 1 else 'have'} changed since")
    return ", ".join(reasons)


def _reason(old: Stamp, disk: Disk, parts: Iterable[str] = ()) -> str:
    return because(disk.changed(old, parts), old.fedsim)


def _damage(folder: Path, old: Stamp | None = None) -> str:
    if old is not None and old.fedsim != __version__ and not (folder / SUMS).exists():
        return ""  # there were versions that wrote no checksums
    files = damaged(folder)
    return f"{', '.join(files[:MOST])} {DAMAGED}" if files else ""


def _stamps(folders: Iterable[Path]) -> Iterator[Stamp]:
    """Yield the stamps in these folders, the latest first."""
    files = [file for folder in folders if (file := folder / FILE).is_file()]
    for file in sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        if (old := stamp.read(file)) is not None:
            yield old


def _lines(reasons: Mapping[str, str], points: int) -> list[str]:
    counts = Counter(reasons.values()).most_common()
    lines = [
        f"{count} of {many(points, 'run')} {'is' if count == 1 else 'are'} repeated: {reason}"
        for reason, count in counts[:MOST]
    ]
    more = sum(count for _, count in counts[MOST:])
    return [*lines, *([f"{more} more are repeated, for other changes"] if more else [])]


def _versions(valid: Sequence[Stamp]) -> list[str]:
    """Return a line if kept results were made with library versions other than those installed."""
    here = stamp.versions_of({name for old in valid for name in old.libraries})
    others = [{(n, v) for n, v in old.libraries.items() if here[n] != v} for old in valid]
    pairs = sorted({pair for other in others for pair in other})
    if not pairs:
        return []
    made_with = ", ".join(f"{name} {version} (now {here[name] or 'not installed'})" for name, version in pairs[:MOST])
    count = sum(map(bool, others))
    which = f"{many(count, 'run')} {'was' if count == 1 else 'were'} made with {made_with}"
    return [f"{which} and {'is' if count == 1 else 'are'} kept: last digits may differ; use --fresh to rerun them"]

"""Find finished points that must run again, and explain why in a line: their sources have changed since, or a file of
theirs is damaged.

A point's results stay in place until those of the new run are complete.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedsim.core.version import __version__
from fedsim.point import checkpoint_file, stamp, sums
from fedsim.point.imports import OURS
from fedsim.point.stamp import Disk, Stamp
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


def review(out: Path, points: Sequence[Point], finished: Iterable[str], others: Iterable[Path]) -> Review:
    """Review the finished points of a folder, given by id, and the folders of other points.

    A missing point runs again too if one of `others` was made from the same scenario as written: a default has changed
    since.
    """
    disk, reasons, kept = Disk(), dict[str, str](), list[Stamp]()
    done = {*finished}
    for point in points:
        if point.id in done:
            made = stamp.read(out / point.id / FILE)
            reason = UNKNOWN if made is None else _reason(made, disk, stamp.modules_of_parts(point.scenario))
            reason = reason or _damage(out / point.id, made)
            if reason:
                reasons[point.id] = reason
            elif made is not None:
                kept.append(made)
        elif (out / point.id).is_dir():
            reasons[point.id] = _damage(out / point.id) or f"a file of it {DAMAGED}"
    missing = {point.written: point.id for point in points if point.id not in done and point.written}
    for made in _stamps(others) if missing else ():
        if made.written in missing and (reason := _reason(made, disk)):
            reasons[missing.pop(made.written)] = reason
    again = frozenset(done & reasons.keys())
    return Review(again, (*_lines(reasons, len(points)), *_versions(kept)))


def outdated(folder: Path) -> str:
    """Return why the checkpoint in this folder cannot be resumed, "" if it can or there is none."""
    try:
        text = checkpoint_file.stamp_in(folder)
        if text is None:
            return ""
        reason = _since(text)
        if not reason:
            checkpoint_file.check(folder)
    except checkpoint_file.Damaged as error:
        return str(error)
    return reason


def _since(text: str) -> str:
    """Return what has changed since a stamp (JSON), "" if nothing has."""
    made = stamp.parsed(text)
    if made is None:
        return UNKNOWN
    files, here = Disk().changed(made), stamp.versions_of(made.libraries)
    others = [f"{name} {made.libraries[name]} -> {here[name]}" for name in here if here[name] != made.libraries[name]]
    return ", ".join([*([because(files, made.fedsim)] if files else []), *others])


def because(files: Sequence[str], made_by: str = __version__) -> str:
    """Describe briefly what has changed; for files of another version of fedsim, name that version."""
    own = [file for file in files if file.partition("/")[0] in OURS] if made_by != __version__ else []
    rest = [file for file in files if file not in own]
    reasons = [f"fedsim {made_by} -> {__version__}"] if own else []
    if rest:
        more = len(rest) - MOST
        names = ", ".join(rest[:MOST]) + (f" and {more} more {'file' if more == 1 else 'files'}" if more > 0 else "")
        reasons.append(f"{names} {'has' if len(rest) == 1 else 'have'} changed since")
    return ", ".join(reasons)


def _reason(made: Stamp, disk: Disk, parts: Iterable[str] = ()) -> str:
    return because(disk.changed(made, parts), made.fedsim)


def _damage(folder: Path, made: Stamp | None = None) -> str:
    if made is not None and made.fedsim != __version__ and not (folder / sums.FILE).exists():
        return ""  # there were versions that wrote no checksums
    files = sums.damaged(folder)
    return f"{', '.join(files[:MOST])} {DAMAGED}" if files else ""


def _stamps(folders: Iterable[Path]) -> Iterator[Stamp]:
    """Yield the stamps in these folders, the latest first."""
    files = [file for folder in folders if (file := folder / FILE).is_file()]
    for file in sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True):
        if (made := stamp.read(file)) is not None:
            yield made


def _lines(reasons: Mapping[str, str], points: int) -> list[str]:
    counts = Counter(reasons.values()).most_common()
    lines = [f"{count} of {_points(points)} run{'s' * (count == 1)} again: {reason}" for reason, count in counts[:MOST]]
    more = sum(count for _, count in counts[MOST:])
    return [*lines, *([f"{more} more run again, for other changes"] if more else [])]


def _versions(kept: Sequence[Stamp]) -> list[str]:
    """Return a line if kept results were made with library versions other than those installed."""
    here = stamp.versions_of({name for made in kept for name in made.libraries})
    others = [{(n, v) for n, v in made.libraries.items() if here[n] != v} for made in kept]
    pairs = sorted({pair for other in others for pair in other})
    if not pairs:
        return []
    made_with = ", ".join(f"{name} {version} (now {here[name] or 'not installed'})" for name, version in pairs[:MOST])
    count = sum(map(bool, others))
    which = f"{_points(count)} {'was' if count == 1 else 'were'} made with {made_with}"
    return [f"{which} and {'is' if count == 1 else 'are'} kept: last digits may differ (--fresh runs all again)"]


def _points(count: int) -> str:
    return "1 point" if count == 1 else f"{count} points"

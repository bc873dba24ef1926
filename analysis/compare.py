"""Two runs side by side: which of their points are alike, what their scenarios say differently, and what came of it.

Points are paired by their ids, and those that are left by the values of their axes and seeds.  A pair is identical
where all of its tables are equal, value for value; what the host's clock says does not count.

What it does not model: whether a difference is more than chance; the report's intervals are for that.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.axes import short
from analysis.load import FIXED, read_scenario, summary_of
from analysis.settings import flat
from analysis.stored import TABLES, tables

NAMES = ("name", "description")  # what a scenario is called is no difference
SHOWN = ("score", "bytes_up", "bytes_down", "sim_seconds")
NONE = "–"


@dataclass(frozen=True)
class Pair:
    """Two points that stand for one another: what they are, their tables that differ, their settings and numbers."""

    condition: str
    differing: tuple[str, ...]
    settings: Mapping[str, tuple[str, str]]
    numbers: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Comparison:
    """What two runs share: pairs, and the points that only one of them has, as "point (condition)"."""

    pairs: list[Pair]
    only: tuple[list[str], list[str]]

    @property
    def identical(self) -> bool:
        """Whether there is nothing that tells the runs apart."""
        return not any(self.only) and not any(pair.differing for pair in self.pairs)


def compare(one: Path, other: Path) -> Comparison:
    """Return what two runs share.  Raises NotARunError where one of them cannot be read."""
    rows = [_done(folder) for folder in (one, other)]
    keys = [{point: _key(row) for point, row in own.items()} for own in rows]
    left = [{point: key for point, key in own.items() if point not in keys[1 - n]} for n, own in enumerate(keys)]
    twins = {key: point for point, key in left[1].items()}
    matched = [(point, point) for point in keys[0] if point in keys[1]]
    matched += [(point, twins.pop(key)) for point, key in left[0].items() if key in twins]
    pairs = [_pair(one / a, other / b, keys[0][a], rows[0][a], rows[1][b]) for a, b in matched]
    seen = {a for a, _ in matched}, {b for _, b in matched}
    alone = [
        [f"{point} ({_told(key)})" for point, key in own.items() if point not in seen[n]] for n, own in enumerate(keys)
    ]
    return Comparison(pairs, (alone[0], alone[1]))


def told(found: Comparison, one: Path, other: Path) -> Iterator[str]:
    """Yield the comparison line by line."""
    for folder, alone in zip((one, other), found.only, strict=True):
        yield from (f"only in {folder}: {point}" for point in alone)
    everywhere = _everywhere(found.pairs)
    yield from (f"{key}: {a} -> {b}" for key, (a, b) in everywhere.items())
    same = sum(not pair.differing for pair in found.pairs)
    yield f"{len(found.pairs)} pairs of points, {same} of them identical bit for bit"
    rows = []
    for pair in found.pairs:
        own = {key: values for key, values in pair.settings.items() if key not in everywhere}
        rows.append({
            "point": pair.condition,
            "tables that differ": ", ".join(pair.differing) or "none: identical",
            **{name: _difference(*pair.numbers[name]) for name in SHOWN},
            "settings": ", ".join(f"{key}: {a} -> {b}" for key, (a, b) in own.items()),
        })  # fmt: skip
    if rows:
        frame = pd.DataFrame(rows)
        yield frame.drop(columns=[] if any(frame["settings"]) else "settings").to_string(index=False)


def _done(run: Path) -> dict[str, dict[str, Any]]:
    """Return the finished points of a run, each with its row of the summary."""
    rows = summary_of(run)
    done = rows[rows["status"] != "failed"].to_dict("records")
    return {str(row["point"]): {str(key): value for key, value in row.items()} for row in done}


def _key(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the values of a point's axes and its seed."""
    axes = [*(column for column in row if column not in FIXED), "seed"]
    return tuple(sorted((axis, str(row[axis])) for axis in axes))


def _pair(one: Path, other: Path, key: tuple[tuple[str, str], ...], a: Mapping[str, Any], b: Mapping[str, Any]) -> Pair:
    both = [{**dict(flat(scenario)), **versions} for scenario, versions in map(read_scenario, (one, other))]
    keys = [key for key in dict.fromkeys([*both[0], *both[1]]) if key not in NAMES]
    settings = {
        key: (str(both[0].get(key, NONE)), str(both[1].get(key, NONE)))
        for key in keys
        if both[0].get(key) != both[1].get(key)
    }
    first, second = tables(one), tables(other)
    differing = tuple(name for name in TABLES if not first[name].equals(second[name]))
    return Pair(_told(key), differing, settings, {name: (float(a[name]), float(b[name])) for name in SHOWN})


def _told(key: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{short(axis)} {value}" for axis, value in key)


def _everywhere(pairs: list[Pair]) -> dict[str, tuple[str, str]]:
    """Return the settings that differ in the same way in every pair."""
    first = dict(pairs[0].settings) if pairs else {}
    return {key: values for key, values in first.items() if all(pair.settings.get(key) == values for pair in pairs)}


def _difference(one: float, other: float) -> str:
    if one != one and other != other:
        return NONE
    a, b = (NONE if value != value else f"{value:.6g}" for value in (one, other))
    if one == other:
        return a
    return f"{a} -> {b}" + ("" if NONE in (a, b) else f" ({other - one:+.4g})")

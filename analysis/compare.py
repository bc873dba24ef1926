"""Compare two folders of results: how many of their runs are identical, and what differs in the others.

Runs are paired by id, and the remaining ones by the values of their axes and seeds.  A pair is alike if all of its
tables are equal, bit for bit; times on the host's clock do not count.

Not modelled: whether a difference is significant; see the report's intervals.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import fmean
from typing import Any

from analysis.axes import condition_of
from analysis.quantity import many
from analysis.read.load import FIXED, flat, read_scenario, summary_of
from analysis.read.methods import shared
from analysis.read.stored import POINTS, TABLES, tables
from analysis.terminal import wrapped

NAMES = ("name", "description")  # these may differ
SHOWN = {"score": "score", "bytes_up": "bytes up", "bytes_down": "bytes down", "sim_seconds": "simulated seconds"}
NONE = "–"
MOST = 20  # runs listed, unless all are asked for
Key = tuple[tuple[str, str], ...]  # the values of a run's axes and its seed


@dataclass(frozen=True)
class Pair:
    """Two matching runs: what they are, their tables that differ, their settings and numbers."""

    condition: Mapping[str, str]
    differing: tuple[str, ...]
    settings: Mapping[str, tuple[str, str]]
    numbers: Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Comparison:
    """The pairs of two folders, and the runs that only one of them has, as "run (condition)"."""

    pairs: list[Pair]
    only: tuple[list[str], list[str]]

    @property
    def identical(self) -> bool:
        """Whether the folders do not differ."""
        return not any(self.only) and not any(pair.differing for pair in self.pairs)


def compare(one: Path, other: Path) -> Comparison:
    """Return the comparison of two folders of results.  Raises NotARunError if one of them cannot be read."""
    rows = [_done(folder) for folder in (one, other)]
    keys = [{point: _key(row) for point, row in own.items()} for own in rows]
    both = _matched(*keys)
    pairs = [_pair(one / POINTS / a, other / POINTS / b, keys[0][a], rows[0][a], rows[1][b]) for a, b in both]
    for a, b in both:
        del keys[0][a], keys[1][b]
    first, second = ([f"{run} ({condition_of(dict(key))})" for run, key in unpaired.items()] for unpaired in keys)
    return Comparison(pairs, (first, second))


def matched(one: Path, other: Path) -> list[tuple[str, str, str]]:
    """Return the runs that two folders share: a label and the id in each; two folders of one run each share it.

    Raises NotARunError if one of them cannot be read.
    """
    keys = [{point: _key(row) for point, row in _done(folder).items()} for folder in (one, other)]
    alone = [(a, b) for a in keys[0] for b in keys[1]]
    both = alone if len(alone) == 1 else _matched(*keys)
    return [(condition_of(dict(keys[0][a])), a, b) for a, b in both]


def lines(comparison: Comparison, one: Path, other: Path, width: int, every: bool = False) -> Iterator[str]:
    """Yield the comparison line by line: first how much is alike, then what differs, run by run for MOST of them.

    With `every`, list all runs that differ.
    """
    different = [pair for pair in comparison.pairs if pair.differing]
    alike = len(comparison.pairs) - len(different)
    yield from wrapped(f"{one} -> {other}: {many(len(comparison.pairs), 'run')} in both", width)
    for folder, unpaired in zip((one, other), comparison.only, strict=True):
        if unpaired:
            yield from wrapped(f"only in {folder}: {many(len(unpaired), 'run')}", width)
            yield from _listed([wrapped(run, width, "  ", "    ") for run in unpaired], every)
    if everywhere := shared([pair.settings for pair in comparison.pairs]):
        yield "settings that differ everywhere:"
        for key, values in everywhere.items():
            yield from wrapped(_setting(key, values), width, "  ")
    yield f"{alike} alike, bit for bit" + (f"; {len(different)} differ:" if different else "")
    yield from _ranges(different)
    same = shared([pair.condition for pair in comparison.pairs]) if len(comparison.pairs) > 1 else {}
    yield from _listed([[*_block(pair, everywhere, same, width)] for pair in different], every)


def _block(pair: Pair, everywhere: Mapping[str, Any], same: Mapping[str, Any], width: int) -> Iterator[str]:
    """Yield the lines of a run that differs: its condition, tables, settings and numbers."""
    condition = {axis: value for axis, value in pair.condition.items() if axis not in same} or pair.condition
    yield from wrapped(condition_of(condition), width, "  ", "    ")
    yield from wrapped(f"tables: {', '.join(pair.differing)}", width, "    ", "      ")
    for name, title in SHOWN.items():
        if (change := _difference(*pair.numbers[name])) is not None:
            yield from wrapped(f"{title}: {change}", width, "    ", "      ")
    for key, values in pair.settings.items():
        if key not in everywhere:
            yield from wrapped(_setting(key, values), width, "    ", "      ")


def _ranges(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield, for several pairs, the mean and range of each number's difference."""
    for name, title in SHOWN.items() if len(pairs) > 1 else ():
        numbers = [pair.numbers[name] for pair in pairs]
        changes = [other - one for one, other in numbers if one == one and other == other]
        if any(changes):
            mean = f"{fmean(changes):+.4g} on average"
            yield f"  {title}: {mean}, from {min(changes):+.4g} to {max(changes):+.4g}"


def _listed(blocks: Sequence[Sequence[str]], every: bool) -> Iterator[str]:
    most = len(blocks) if every else MOST
    yield from chain.from_iterable(blocks[:most])
    if len(blocks) > most:
        yield f"  ... and {len(blocks) - most} more (--all lists them)"


def _setting(key: str, values: tuple[str, str]) -> str:
    return f"{key}: {values[0]} -> {values[1]}"


def _matched(one: Mapping[str, Key], other: Mapping[str, Key]) -> list[tuple[str, str]]:
    """Return the points of two runs that have the same id, then those with the same axes and seeds."""
    ids = {_id(point): point for point in other}
    both = {point: ids[_id(point)] for point in one if _id(point) in ids}
    paired = {*both.values()}
    twins = {key: point for point, key in other.items() if point not in paired}
    return [*both.items(), *((p, twins.pop(key)) for p, key in one.items() if p not in both and key in twins)]


def _id(point: str) -> str:
    """Return what the name of a point's folder has of its id."""
    return point.rpartition("-")[2][:6]


def _done(run: Path) -> dict[str, dict[str, Any]]:
    """Return the finished points of a run, each with its row of the summary."""
    rows = summary_of(run)
    done = rows[rows["status"] != "failed"].to_dict("records")
    return {str(row["run"]): {str(key): value for key, value in row.items()} for row in done}


def _key(row: Mapping[str, Any]) -> Key:
    """Return the values of a point's axes and its seed."""
    axes = [*(column for column in row if column not in FIXED), "seed"]
    return tuple(sorted((axis, str(row[axis])) for axis in axes))


def _pair(one: Path, other: Path, key: Key, a: Mapping[str, Any], b: Mapping[str, Any]) -> Pair:
    both = [{**dict(flat(scenario)), **versions} for scenario, versions in map(read_scenario, (one, other))]
    settings = {
        key: (str(both[0].get(key, NONE)), str(both[1].get(key, NONE)))
        for key in dict.fromkeys([*both[0], *both[1]])
        if key not in NAMES and both[0].get(key) != both[1].get(key)
    }
    first, second = tables(one), tables(other)
    differing = tuple(name for name in TABLES if not first[name].equals(second[name]))
    return Pair(dict(key), differing, settings, {name: (float(a[name]), float(b[name])) for name in SHOWN})


def _difference(one: float, other: float) -> str | None:
    """Return how a number changes, or None if it does not."""
    if one == other or (one != one and other != other):
        return None
    a, b = (NONE if value != value else f"{value:.6g}" for value in (one, other))
    return f"{a} -> {b}" + ("" if NONE in (a, b) else f" ({other - one:+.4g})")

"""Two runs side by side, such as one in simulation and one on real machines: how far times, bytes and scores are apart.

Points are paired by id, then by their axes and seeds, and the only points of two runs whatever they are.  An error is
(second - first) / first.  Rounds are the seconds between two updates of the server, compared number by number, scores
those after the same number of updates; of scores the difference is given.

Not modelled: whether an error is significant; see the report's intervals.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from analysis.compare import matched
from analysis.measures.communication import directions, durations
from analysis.measures.frontier import ALL_PERIODS, curve
from analysis.quantity import many
from analysis.read.stored import POINTS, Tables, tables
from analysis.terminal import table, wrapped
from fedsim.core.arrays import Floats

HEADS = ("", "first", "second", "error", "median", "90 %")
KEYS = ["metric", "model", "split"]


@dataclass(frozen=True, eq=False)
class Line:
    """One quantity of two points, its error, and the absolute errors of single values (n,), where they are paired.

    Errors are relative, or those of a `score`: differences.
    """

    name: str
    first: float
    second: float
    error: float
    each: Floats = field(default_factory=lambda: np.array([]))
    score: bool = False


def pairs(one: Path, other: Path) -> list[tuple[str, Path, Path]]:
    """Return the matching points of two runs, or two points: a label and their folders.

    Raises NotARunError if one of them cannot be read.
    """
    if all((folder / "transfers.parquet").is_file() for folder in (one, other)):
        return [(f"{one.name}, {other.name}", one, other)]
    return [(label, one / POINTS / a, other / POINTS / b) for label, a, b in matched(one, other)]


def compared(one: Path, other: Path) -> list[Line]:
    """Return what the tables of two points say.  Raises NotARunError if one cannot be read."""
    both = tables(one), tables(other)
    found = [_rounds(*both)]
    for way in ("down", "up"):
        found += [_seconds(way, *both), _bytes(way, *both)]
    names = [{*map(tuple, each["scores"][KEYS].drop_duplicates().to_numpy().tolist())} for each in both]
    found += [_scores(name, *both) for name in sorted(names[0] & names[1]) if name[2] != ALL_PERIODS]
    return [line for line in found if line is not None]


def lines(one: Path, other: Path, width: int) -> Iterator[str]:
    """Yield the comparison of the points that both runs have, line by line."""
    found = pairs(one, other)
    yield from wrapped(f"{one} -> {other}: {many(len(found), 'run')} in both", width)
    for label, a, b in found:
        yield ""
        yield from wrapped(label, width)
        yield from table(HEADS, [_row(line) for line in compared(a, b)], width)


def _rounds(one: Tables, other: Tables) -> Line | None:
    first, second = (np.diff(np.unique(each["updates"]["time"].to_numpy(float)), prepend=0.0) for each in (one, other))
    if not (len(first) and len(second)):
        return None
    same = min(len(first), len(second))
    off = _relative(first[:same], second[:same])
    return _line("seconds a round", float(first.mean()), float(second.mean()), np.abs(off[np.isfinite(off)]))


def _seconds(way: str, one: Tables, other: Tables) -> Line | None:
    took = [durations(each["transfers"]) for each in (one, other)]
    own = [rows.loc[rows["direction"] == way, "seconds"].to_numpy(float) for rows in took]
    return _line(f"seconds of a message {way}", _median(own[0]), _median(own[1])) if all(map(len, own)) else None


def _bytes(way: str, one: Tables, other: Tables) -> Line | None:
    moved = [each["transfers"].loc[directions(each["transfers"]) == way, "wire_bytes"] for each in (one, other)]
    return _line(f"wire bytes {way}", float(moved[0].sum()), float(moved[1].sum())) if all(map(len, moved)) else None


def _scores(name: tuple[str, str, str], one: Tables, other: Tables) -> Line | None:
    metric, model, split = name
    curves = (curve(each["scores"], each["transfers"], model, metric, split) for each in (one, other))
    first, second = (rows.groupby("version")["score"].last().astype(float) for rows in curves)
    if first.empty or second.empty:
        return None
    apart = np.asarray((second - first).dropna().abs(), dtype=np.float64)
    last = float(first.iloc[-1]), float(second.iloc[-1])
    return Line("/".join(name), *last, last[1] - last[0], apart, score=True)


def _line(name: str, first: float, second: float, each: Floats | None = None) -> Line:
    error = float(_relative(np.array([first]), np.array([second]))[0])
    return Line(name, first, second, error, np.array([]) if each is None else each)


def _relative(first: Floats, second: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Floats = (second - first) / first
    return found


def _median(values: Floats) -> float:
    return float(np.median(values))


def _row(line: Line) -> list[str]:
    shown = _difference if line.score else _percent
    each = [_median(line.each), float(np.quantile(line.each, 0.9))] if len(line.each) else []
    cells = [shown(value, "") for value in each] or ["", ""]
    return [line.name, f"{line.first:.5g}", f"{line.second:.5g}", shown(line.error, "+"), *cells]


def _percent(share: float, sign: str) -> str:
    return "-" if not np.isfinite(share) else f"{100 * share:{sign}.2f} %"


def _difference(value: float, sign: str) -> str:
    return f"{value:{sign}.4f}"

"""Rows for intervals that may overlap: one row if none do, and another for each that would overlap."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.timeline.events import nanoseconds


@dataclass(frozen=True, slots=True)
class Stretch:
    """Something that lasts from start to end (nanoseconds); `key` leads back to its row of the table."""

    start: int
    end: int
    name: str
    args: dict[str, Any] = field(default_factory=dict, hash=False)
    key: int = -1


def records(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as plain values by column."""
    columns = {str(name): frame[name].tolist() for name in frame.columns}
    return (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))


def stretch_of(span: Mapping[str, Any]) -> Stretch:
    """Return the stretch of a row of the table of spans."""
    return Stretch(nanoseconds(span["start"]), nanoseconds(span["end"]), span["what"])


def lanes(stretches: Sequence[Stretch]) -> list[list[Stretch]]:
    """Return the stretches in as few lanes as can be, those of each in order and none over another."""
    made: list[list[Stretch]] = []
    for one in sorted(stretches, key=lambda stretch: (stretch.start, stretch.end)):
        free = next((lane for lane in made if lane[-1].end <= one.start), None)
        if free is None:
            made.append([one])
        else:
            free.append(one)
    return made


def gaps(stretches: Sequence[Stretch], end: int) -> list[tuple[int, int]]:
    """Return the stretches of time between 0 and `end` (nanoseconds) that none of these covers."""
    found, covered = [], 0
    for one in sorted(stretches, key=lambda stretch: stretch.start):
        if one.start > covered:
            found.append((covered, one.start))
        covered = max(covered, one.end)
    return [*found, (covered, end)] if covered < end else found

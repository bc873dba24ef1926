"""Format amounts for people: scores, durations, sizes, and the real time of a run."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

NONE = "–"
DURATIONS = ((86400, "d"), (3600, "h"), (60, "min"))
SIZES = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number(value: float | None, like: float | None = None) -> str:
    """Return a score with three decimals."""
    return NONE if value is None else f"{value:.3f}"


def duration(seconds: float | None, like: float | None = None) -> str:
    """Return a duration in a suitable unit, or in the unit of the duration `like`.

    >>> duration(7.3), duration(600), duration(7200)
    ('7.30 s', '10.0 min', '2.0 h')
    """
    if seconds is None:
        return NONE
    for size, unit in DURATIONS:
        if (seconds if like is None else like) >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.2f} s"


def size(nbytes: float | None, like: float | None = None) -> str:
    """Return a number of bytes in a suitable decimal unit, or in the unit of the number `like`.

    >>> size(950), size(5_190_000), size(5_190_000, like=2e9)
    ('950 B', '5.19 MB', '0.01 GB')
    """
    if nbytes is None:
        return NONE
    for power, unit in SIZES:
        if (nbytes if like is None else like) >= power:
            return f"{nbytes / power:.2f} {unit}"
    return f"{nbytes:.0f} B"


def watch(seconds: float) -> str:
    """Return a real duration as a stopwatch shows it: "3:05", "1:02:03".

    >>> watch(185), watch(3723)
    ('3:05', '1:02:03')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def spread(rows: Sequence[Mapping[str, Any]], key: str, form: Callable[..., str]) -> str:
    """Return the mean, and the standard deviation of several values; a dash for none; the count if some are missing."""
    values = given(rows, key)
    if not values:
        return NONE
    mean = statistics.fmean(values)
    text, space, unit = form(mean).partition(" ")
    if len(values) > 1:
        text = f"{text} ± {form(statistics.stdev(values), mean).partition(' ')[0]}"
    return text + space + unit + ("" if len(values) == len(rows) else f" ({len(values)} of {len(rows)})")


def given(rows: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    """Return the values of a column that are not missing."""
    values = [row.get(key) for row in rows]
    return [float(value) for value in values if value is not None and not math.isnan(value)]

"""Traces: how the rate of a connection has varied, from text files that others have recorded.

Two formats are distinguished by the number of words per line.  One word: a packet-delivery trace as used by
mahimahi (Netravali et al., USENIX ATC 2015): each line is the millisecond at which one packet of 1500 bytes
can be sent; after the last it starts over.  Two words: seconds and Mbit/s, each rate held until the next
time.  Blank lines and lines that begin with # are skipped.  Not read: compressed files, other units.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedsim.core.arrays import Floats
from fedsim.core.errors import UserError
from fedsim.core.table import fault, text_of

PACKET = 1500 * 8  # bits
MBIT = 1e6
CLOSEST = 1e-6  # seconds between two samples
MOST_WINDOWS = 10**7  # of a packet-delivery trace: 58 days at half a second each
NumberedLines = list[tuple[int, list[str]]]


@dataclass(frozen=True, eq=False)
class RateTrace:
    """`rates` (bit/s) from `times` (s, from 0, increasing) until the next; the whole trace lasts `period` seconds."""

    times: Floats
    rates: Floats
    period: float


def read_all(place: Path, window: float = 0.5) -> list[RateTrace]:
    """Return the trace of a file, or of all files of a folder by name, except hidden ones.

    Raises UserError as `read` does, and for a folder without files.
    """
    if not place.is_dir():
        return [read(place, window)]
    files = sorted(path for path in place.iterdir() if path.is_file() and not path.name.startswith("."))
    if not files:
        raise UserError(f"{place} holds no file; name a trace, or a folder of traces")
    return [read(path, window) for path in files]


def read(path: Path, window: float = 0.5) -> RateTrace:
    """Return a file's trace; packets are counted over windows of about `window` seconds, all of the same length.

    Raises UserError, naming the line, for a file that is not a trace.
    """
    try:
        text = text_of(path, "not text, so not a trace")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    lines = [*_words(text)]
    if not lines:
        raise UserError(f"{path}: not a trace, the file is empty; write one sample per line: seconds and Mbit/s")
    if len(lines[0][1]) == 1 and "," not in text:
        return _packets(path, lines, window)
    if len(lines[0][1]) == 2 and "," not in text:
        return _samples(path, lines)
    table = " (a table with commas belongs to the option 'rates')" if "," in text else ""
    raise fault(path, lines[0][0], f"a line is either one millisecond or seconds and Mbit/s{table}")


def _words(text: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if (words := line.split()) and not words[0].startswith("#"):
            yield number, words


def _samples(path: Path, lines: NumberedLines) -> RateTrace:
    times: Floats = np.zeros(len(lines))
    rates: Floats = np.zeros(len(lines))
    for place, (number, words) in enumerate(lines):
        times[place], rates[place] = _numbers(path, number, words, 2)
        if rates[place] < 0:
            raise fault(path, number, f"a rate of {words[1]} Mbit/s; it must not be negative")
        if place and times[place] <= times[place - 1]:
            raise fault(path, number, f"{words[0]} s does not come after {times[place - 1]:g} s; sort by time")
        if place and times[place] - times[place - 1] < CLOSEST:
            raise fault(path, number, f"{words[0]} s is less than {CLOSEST:g} s after the line before; leave one out")
    last = times[-1] - times[-2] if len(times) > 1 else 1.0  # as long as the previous one
    return RateTrace(times - times[0], rates * MBIT, float(times[-1] - times[0] + last))


def _packets(path: Path, lines: NumberedLines, window: float) -> RateTrace:
    stamps = np.zeros(len(lines))
    for place, (number, words) in enumerate(lines):
        (stamps[place],) = _numbers(path, number, words, 1)
        if not (stamps[place] >= 0 and stamps[place].is_integer()):
            raise fault(path, number, f"{words[0]} is not a millisecond; it must be whole and not negative")
        if place and stamps[place] < stamps[place - 1]:
            raise fault(path, number, f"{words[0]} ms comes before {stamps[place - 1]:g} ms; sort by time")
    end = float(stamps[-1])
    if end == 0:
        raise UserError(f"{path}: a packet-delivery trace must last longer than 0 ms")
    if end / (1000 * window) > MOST_WINDOWS:
        long = f"{end / 1000:.4g} s in windows of {window:g} s"
        raise UserError(
            f"{path}: {long} are {end / (1000 * window):.3g} rates, and {MOST_WINDOWS:,} are allowed; "
            "check the last line, a number of milliseconds, and the option 'window'"
        )
    windows = max(1, round(end / (1000 * window)))
    period = end / 1000
    counted = np.bincount(np.maximum(np.ceil(stamps * windows / end).astype(np.int64) - 1, 0), minlength=windows)
    starts: Floats = np.arange(windows, dtype=np.float64) * (period / windows)
    rates: Floats = counted.astype(np.float64) * (PACKET * windows / period)
    return RateTrace(starts, rates, period)


def _numbers(path: Path, line: int, words: list[str], count: int) -> list[float]:
    if len(words) != count:
        raise fault(path, line, f"{len(words)} words where the lines before have {count}")
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise fault(path, line, f"{' '.join(words)!r} is not {'a number' if count == 1 else 'two numbers'}")
    return numbers

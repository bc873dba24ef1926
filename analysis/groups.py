"""Lists of names and of an axis's values, in words."""

from collections.abc import Sequence
from itertools import pairwise

from analysis.axes import number, ordered


def listed(values: Sequence[str], of: Sequence[str]) -> str:
    """Return "10 ms", "10 ms and 1 s", or "10 ms to 1 s" for three or more that follow one another in `of`."""
    line = [value for value in ordered(of) if value in values]
    places = [ordered(of).index(value) for value in line]
    if len(line) > 2 and _measured(line) and all(b == a + 1 for a, b in pairwise(places)):
        return f"{line[0]} to {line[-1]}"
    return joined(line)


def joined(names: Sequence[str], word: str = "and") -> str:
    """Return "a", "a and b", "a, b and c"."""
    return f"{', '.join(names[:-1])} {word} {names[-1]}" if len(names) > 1 else "".join(names)


def _measured(values: Sequence[str]) -> bool:
    """Return whether values are numbers or draws of them, such as "10 ms" or "lognormal(50 ms, 0.5)"."""
    return all(number(value) is not None or ("(" in value and value[-2:-1].isdigit()) for value in values)

"""Parse, order and name the values and conditions of a sweep's axes, which are texts as the user wrote them.

Not modelled: distributions. "lognormal(50 ms, 0.5)" has no single number; it only sorts by its first number.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING

from fedsim.core import units

if TYPE_CHECKING:
    import pandas as pd

SCALES = {unit: size for dimension in units.DIMENSIONS for unit, size in dimension.units.items()}
SCALES |= {"": Fraction(1), "%": Fraction(1, 100), "update": Fraction(1), "updates": Fraction(1)}
MOST_CONDITIONS = 60  # that a reader can choose from
HIGHEST_IS_BEST = ("participation", "clients", "count", "uplink", "downlink", "ingress", "egress", "speed", "online")


def number(text: str) -> float | None:
    """Return the SI value of text such as "0.3", "10 ms" or "5 Mbit/s"; None if it is not one number with a unit."""
    try:
        value, unit = units.split(text, "number", "5")
    except ValueError:
        return None
    return float(value * SCALES[unit]) if unit in SCALES else None


def is_numeric(values: Iterable[str]) -> bool:
    """Return whether there are at least two different values and each is one number, whatever its unit."""
    numbers = {number(value) for value in values}
    return None not in numbers and len(numbers) > 1


def logarithmic(values: Collection[float]) -> bool:
    """Return whether an axis of these values is logarithmic: from above zero to 20 times the least."""
    return min(values) > 0 and max(values) / min(values) >= 20


def ordered(values: Iterable[str]) -> list[str]:
    """Return the different values: by their numbers where they have one, "10 ms" before "1 s", else by name."""
    return sorted(set(values), key=_place)


def short(axis: str) -> str:
    """Return the axis without its section: "network.latency" is "latency", "protocol.name" "protocol"."""
    parts = axis.removesuffix(".name").split(".")
    return ".".join(parts[-3:] if parts[-2:-1] and parts[-2].isdigit() else parts[-1:])


def is_replicate(axis: str) -> bool:
    """Return whether an axis only redraws the same condition: its last step ends in "seed"."""
    return axis.split(".")[-1].endswith("seed")


def replicates(columns: Iterable[str]) -> list[str]:
    """Return the columns that distinguish runs of one condition: axes such as data.split.numpy_seed, then `seed`."""
    return [*(column for column in columns if is_replicate(column) and column != "seed"), "seed"]


def best_end(axis: str, values: Sequence[str]) -> str:
    """Return the easiest value: the highest participation or bandwidth, the lowest of anything else."""
    return hardest_first(axis, values)[-1]


def hardest_first(axis: str, values: Iterable[str]) -> list[str]:
    """Return the different values, from the hardest to the easiest."""
    line = ordered(values)
    return line if axis.split(".")[-1] in HIGHEST_IS_BEST else line[::-1]


def condition_of(values: Mapping[str, str]) -> str:
    """Return "latency 10 ms, participation 0.3"."""
    return ", ".join(f"{short(axis)} {value}" for axis, value in values.items())


def conditions(rows: "pd.DataFrame", axes: Sequence[str]) -> "tuple[pd.DataFrame, list[str]]":
    """Return the rows with their `condition` as a text, and the conditions, the hardest first.

    The first axis changes slowest. Of more than MOST_CONDITIONS only the hardest ones are returned, with their rows.
    """
    varied = [axis for axis in axes if rows[axis].nunique() > 1]
    texts = [condition_of({axis: str(row[axis]) for axis in varied}) for _, row in rows.iterrows()]
    placed = rows.assign(condition=texts)
    hardest = placed.drop_duplicates("condition").sort_values(varied, key=_ranks, kind="stable")
    names = hardest["condition"].head(MOST_CONDITIONS).tolist()
    return placed[placed["condition"].isin(names)], names


def _ranks(values: "pd.Series[str]") -> "pd.Series[int]":
    """Return the rank of each value of an axis, the hardest first."""
    return values.map({value: rank for rank, value in enumerate(hardest_first(str(values.name), values))})


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


def _place(value: str) -> tuple[int, float, str]:
    whole = number(value)
    if whole is not None:
        return (0, whole, value)
    # "lognormal(50 ms, 0.5)": the first argument is what users vary
    inner = re.match(r"([^(]*)\(([^,)]*)", value)
    first = number(inner[2]) if inner else None
    return (1, first if first is not None else 0.0, value)

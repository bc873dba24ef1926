"""Parse, order and name the values of a sweep's axes, which are texts as the user wrote them.

Not modelled: distributions. "lognormal(50 ms, 0.5)" has no single number; it only sorts by its first number.
"""

import re
from collections.abc import Iterable, Sequence

PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "ki": 2.0**10, "mi": 2.0**20, "gi": 2.0**30}
SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "sec": 1.0, "min": 60.0, "h": 3600.0}
SECONDS |= {"hour": 3600.0, "hours": 3600.0, "d": 86400.0, "day": 86400.0, "days": 86400.0, "minutes": 60.0}
SCALES = {
    **SECONDS,
    **{f"{prefix}bit/s": scale for prefix, scale in PREFIXES.items()},
    **{f"{prefix}b": scale for prefix, scale in PREFIXES.items()},
    **{f"{prefix}flop/s": scale for prefix, scale in PREFIXES.items()},
    **{f"{sign}{unit}": 1 / scale for unit, scale in SECONDS.items() for sign in ("/", "per ")},
    "": 1.0,
    "%": 0.01,
    "updates": 1.0,
}
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
HIGHEST_IS_BEST = ("participation", "clients", "count", "uplink", "downlink", "ingress", "egress", "speed", "online")


def number(text: str) -> float | None:
    """Return the SI value of text such as "0.3", "10 ms" or "5 Mbit/s"; None if it is not one number with a unit."""
    found = re.fullmatch(rf"\s*({NUMBER})\s*(.*?)\s*", text, re.IGNORECASE)
    scale = SCALES.get(found[2].lower()) if found else None
    return float(found[1]) * scale if found and scale is not None else None


def is_numeric(values: Iterable[str]) -> bool:
    """Return whether there are at least two different values and each is one number, whatever its unit."""
    numbers = {number(value) for value in values}
    return None not in numbers and len(numbers) > 1


def ordered(values: Iterable[str]) -> list[str]:
    """Return the different values: by their numbers where they have one, "10 ms" before "1 s", else by name."""
    return sorted(set(values), key=_place)


def short(axis: str) -> str:
    """Return the axis without its section: "network.latency" becomes "latency"."""
    parts = axis.split(".")
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


def _place(value: str) -> tuple[int, float, str]:
    whole = number(value)
    if whole is not None:
        return (0, whole, value)
    # "lognormal(50 ms, 0.5)": the first argument is what users vary
    inner = re.match(r"([^(]*)\(([^,)]*)", value)
    first = number(inner[2]) if inner else None
    return (1, first if first is not None else 0.0, value)

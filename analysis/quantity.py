"""Numbers with units for people: bytes, seconds, percentages; an en dash for what is missing."""

import math

Units = list[tuple[float, str]]  # SI value and name, the largest first

MISSING = "–"
BYTES = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")]
SECONDS = [(86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")]
ENERGY = [(1e9, "GJ"), (1e6, "MJ"), (1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")]
GRAMS = [(1e6, "t"), (1e3, "kg"), (1.0, "g"), (1e-3, "mg"), (1e-6, "µg")]
USD = [(1.0, "USD"), (1e-3, "mUSD"), (1e-6, "µUSD")]
PERCENT = [(0.01, "%")]
COUNT = [(1.0, "")]
VERSIONS = [(1.0, "")]  # of a mean that is small: with two decimals


def unit_for(largest: float, units: Units) -> tuple[float, str]:
    """Return (SI value, name) of the unit that shows a number of this size with one to four digits."""
    return next((unit for unit in units if abs(largest) >= unit[0]), units[-1])


def spelled(value: str, units: Units, scale: float = 1.0) -> str:
    """Return the Vega expression that formats a value, `scale` times the SI unit, as `show` does: "12.3 MB"."""
    size = f"abs({value}) * {scale:.12g}"
    parts = [f"{size} >= {one * 0.9995:.12g} ? format({value} * {scale / one:.12g}, '.3~r') + ' {name}'"
             for one, name in units[:-1]]  # fmt: skip
    least, name = units[-1]
    zero = f"{value} == 0 ? '0 {next(name for one, name in units if one == 1)}'"
    last = f"format({value} * {scale / least:.12g}, '.3~r') + ' {name}'"
    return f"!isValid({value}) ? '{MISSING}' : {' : '.join([zero, *parts])} : {last}"


def show(value: float | None, units: Units, sd: float | None = None) -> str:
    """Return "12.3 MB", or "12.3 ± 0.4 MB" with a deviation; an en dash for None or NaN."""
    if value is None or math.isnan(value):
        return MISSING
    scale, name = next((unit for unit in units if unit[0] == 1), units[-1]) if value == 0 else unit_for(value, units)
    known = [amount / scale for amount in (value, sd) if amount is not None and not math.isnan(amount)]
    places = _places(known, units)
    texts = [f"{amount:.{places}f}".replace("-", "−") for amount in known]
    return f"{' ± '.join(texts)} {name}".strip()


def _places(values: list[float], units: Units) -> int:
    """Return the decimals for a number and its deviation, the same for both."""
    if units is PERCENT:
        return 1
    if units is BYTES and not any(values):
        return 0
    if units is COUNT:
        return 0 if all(value == round(value) for value in values) else 1
    return 0 if abs(values[0]) >= 100 else 1 if abs(values[0]) >= 10 else 2


def many(count: int, what: str) -> str:
    """Return "1 run", "2 runs"."""
    return f"{count} {what}{'' if count == 1 else 's'}"

"""Parse quantities ("50 ms", "10 Mbit/s", "lognormal(2 GFLOP/s, 0.8)") into SI numbers and distributions.

The annotated types (`Seconds`, `Rate`, ...) are floats and ints to the code that uses them; pydantic parses the
text of a scenario.  A number without a unit is refused, except 0.
Texts are read as exact fractions and rounded once, so "50 ms" and "0.05 s" are the same float.  It models
independent draws from one distribution each; no mixtures, no correlation, no units derived from other units.
"""

import difflib
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction as Exact
from functools import lru_cache
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from fedsim.core import portable

MOST = 10**9  # of anything counted: more would exhaust memory or never end
MOST_BYTES = 10**15  # of a single size: sums of thousands fit in the tables' 64 bits
LATEST = 2.0**42  # seconds, 139,000 years: from there on floats are a millisecond apart
WIDEST = 20  # sigma of a lognormal draw: beyond it values leave a float's range
LARGE = 1000  # without a unit: no one means that many megabits
NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
QUANTITY = re.compile(rf"\s*({NUMBER})\s*(.*?)\s*")
CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*")


@dataclass(frozen=True)
class Dimension:
    """One kind of quantity: its name, its units with their size in the SI unit (the first one shown is tried first)."""

    name: str
    base: str
    units: dict[str, Exact] = field(hash=False)
    shown: tuple[str, ...]  # the units used in messages and texts
    positive: bool = False  # zero is refused too

    def parse(self, value: Any) -> float:
        """Return the quantity in SI units.  Raises ValueError with a message that says what to write.

        >>> SECONDS.parse("100 ms"), RATE.parse("5 Mbit/s"), BYTES.parse("2 MB")
        (0.1, 5000000.0, 2000000.0)
        """
        return _parsed(self, value) if isinstance(value, str) else self.read(value)

    def read(self, value: Any) -> float:
        """Return the same as `parse`, without its cache."""
        try:
            return float(self._exact(value))
        except OverflowError:
            raise ValueError(f"{value!r} is not a {self.name}: it is too large") from None

    def _exact(self, value: Any) -> Exact:
        number, unit = split(value, self.name, f"'10 {self.shown[0]}'")
        if unit and unit not in self.units:
            raise ValueError(self._wrong_unit(value, unit))
        if number < 0 or (self.positive and number == 0):
            least = "more than zero" if self.positive else "zero or more"
            raise ValueError(f"{value!r} is not a {self.name}: it must be {least}")
        if not unit and number:
            raise ValueError(f"{value!r} has no unit: write {self._proposed(value, number)}")
        return number * self.units[unit or self.base]

    def _proposed(self, value: Any, number: Exact) -> str:
        """Return two readings of a number without a unit; a large one is in the SI unit, written in two ways."""
        plain = value.strip() if isinstance(value, str) else str(value)
        short = self.text(float(number))
        if number >= LARGE and len(short.partition(" ")[0]) < len(plain):
            return f"'{plain} {self.base}' or '{short}'"
        return f"'{plain} {self.shown[0]}' or '{plain} {self.shown[1]}'"

    def _wrong_unit(self, value: Any, unit: str) -> str:
        other = next((d.name for d in DIMENSIONS if unit in d.units), None)
        near = f"{unit}/s" if f"{unit}/s" in self.units else None if other else nearest(unit, self.units)
        what = f"is a unit of {other}" if other else "is not a unit known here"
        mean = f"; did you mean {near!r}?" if near else ""
        return (
            f"{value!r} is not a {self.name}: {unit!r} {what}{mean} (units of a {self.name}: {', '.join(self.shown)})"
        )

    def text(self, value: float) -> str:
        """Return the shortest text that parses to exactly this value."""
        return _shortest(self, float(value))

    def draw(self, value: Any) -> "Draw":
        """Return the distribution that a text such as "50 ms" or "uniform(1 s, 2 s)" describes.

        Raises ValueError for an unknown distribution, wrong units or invalid parameters.
        """
        if isinstance(value, Draw):
            if value.unit != self.base:
                raise ValueError(f"'{value}' is not a {self.name}")
            return value
        call = CALL.fullmatch(value) if isinstance(value, str) else None
        if call is None:
            return Draw("constant", (self.parse(value),), self.base)
        kind, given = call[1], [text.strip() for text in call[2].split(",") if text.strip()]
        if kind not in DISTRIBUTIONS:
            near = nearest(kind, DISTRIBUTIONS)
            mean = f"did you mean {near!r}? " if near else ""
            known = ", ".join(f"{name}({', '.join(args)})" for name, args in DISTRIBUTIONS.items())
            raise ValueError(f"{kind!r} is not a distribution; {mean}There are: {known}")
        names = DISTRIBUTIONS[kind]
        if (len(given) < 1) if kind == "choice" else (len(given) != len(names)):
            raise ValueError(f"{value!r}: {kind} is written {kind}({', '.join(names)})")
        of: dict[str, Callable[[str], float]] = {"sigma": _sigma, "sd": replace(self, positive=False).parse}
        wanted = names if kind != "choice" else ["value"] * len(given)  # a spread, sd, may be zero
        readers: list[Callable[[str], float]] = [of.get(name, self.parse) for name in wanted]
        values = tuple(reader(text) for reader, text in zip(readers, given, strict=True))
        if kind == "uniform" and values[0] > values[1]:
            raise ValueError(f"{value!r}: the lower end comes first, uniform({given[1]}, {given[0]})")
        return Draw(kind, values, self.base)


@lru_cache(maxsize=4096)  # the points of a sweep repeat a few quantities
def _parsed(dimension: Dimension, text: str) -> float:
    return dimension.read(text)


@lru_cache(maxsize=4096)
def _shortest(dimension: Dimension, value: float) -> str:
    texts = [f"{_decimal(Exact(repr(value)) / dimension.units[unit])} {unit}" for unit in dimension.shown]
    right = [text for text in texts if dimension.read(text) == value] if value or not dimension.positive else []
    return min(right, key=lambda text: text.index(" "), default=f"{value!r} {dimension.base}")


DISTRIBUTIONS = {
    "lognormal": ["median", "sigma"],
    "uniform": ["low", "high"],
    "normal": ["mean", "sd"],
    "exponential": ["mean"],
    "choice": ["a", "b", "..."],
}


@dataclass(frozen=True)
class Draw:
    """A distribution of a quantity: its kind, its parameters in SI units (sigma has none), and its SI unit."""

    kind: str
    values: tuple[float, ...]
    unit: str

    def sample(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Return `size` independent values, float64, none negative: negative normal values are redrawn."""
        first, second = self.values[0], self.values[-1]
        match self.kind:
            case "lognormal":
                return first * portable.exp(second * rng.standard_normal(size))
            case "uniform":
                return rng.uniform(first, second, size)
            case "normal":
                drawn = rng.normal(first, second, size)
                while (below := drawn < 0).any():
                    drawn[below] = rng.normal(first, second, int(below.sum()))
                return drawn
            case "exponential":
                return rng.exponential(first, size)
            case "choice":
                return rng.choice(np.array(self.values, dtype=np.float64), size)
            case _:
                return np.full(size, first, dtype=np.float64)

    def __str__(self) -> str:
        """Return a text that parses to the same draw."""
        dimension = next(d for d in DIMENSIONS if d.base == self.unit)
        texts = [dimension.text(value) for value in self.values]
        if self.kind == "constant":
            return texts[0]
        if self.kind == "lognormal":
            texts[1] = repr(self.values[1])
        return f"{self.kind}({', '.join(texts)})"


@dataclass(frozen=True)
class Updates:
    """A duration counted in updates of the server's state."""

    count: int

    def __str__(self) -> str:
        """Return "1 update" or "20 updates"."""
        return f"{self.count} update{'' if self.count == 1 else 's'}"


def nearest(word: str, words: Any) -> str | None:
    """Return the one known word that begins with this one, or else the most similar, or None if none is similar."""
    plain = {str(known).lower(): str(known) for known in words}
    begun = [known for known in plain if len(word) > 2 and known.startswith(word.lower())]
    if len(begun) == 1:
        return plain[begun[0]]
    close = difflib.get_close_matches(word.lower(), plain, n=1, cutoff=0.6)
    return plain[close[0]] if close else None


def did_you_mean(word: str, words: Iterable[str], what: str = "There are") -> str:
    """Return a hint that ends a message: the most similar word, if there is one, and all words."""
    known = ", ".join(words)
    near = nearest(word, words)
    mean = f"; did you mean {near!r}?" if near else "." if known else ""
    return f"{mean} {what}: {known}" if known else mean


def split(value: Any, name: str, example: str) -> tuple[Exact, str]:
    """Return the number and the unit ("" if none) of a text.  Raises ValueError if it is neither."""
    known = isinstance(value, int | float | str) and not isinstance(value, bool)
    match = QUANTITY.fullmatch(value if isinstance(value, str) else _text_of(value, name)) if known else None
    if match is None:
        raise ValueError(f"{value!r} is not a {name}; write a number with a unit, as {example}")
    if math.isinf(near := float(match[1])):
        raise ValueError(f"{match[1][:20]!r} is not a {name}: it is too large")
    return Exact(match[1] if near else 0), match[2]  # 1e-999999999 would be a huge fraction


def _text_of(number: Any, name: str) -> str:
    if isinstance(number, float) and not math.isfinite(number):
        raise ValueError(f"{number!r} is not a {name}: it must be finite")
    return repr(number) if isinstance(number, float) or abs(number) < 10**400 else "1e400"


def _decimal(exact: Exact) -> str:
    number = float(exact)
    return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)


def _bare(text: str) -> float:
    number, unit = split(text, "number", "'0.5'")
    if unit:
        raise ValueError(f"{text!r} has a unit")
    return float(number)


def _sigma(text: str) -> float:
    number, unit = split(text, "sigma", "'0.5'")
    if unit or number < 0:
        raise ValueError(f"{text!r} is not a sigma: it is a plain number of zero or more, the spread of the logarithm")
    if number > WIDEST:
        raise ValueError(f"{text!r} is not a sigma: it is the spread of the logarithm, {WIDEST} at most")
    return float(number)


def _units(**sizes: Any) -> dict[str, Exact]:
    return {name: Exact(size) for name, size in sizes.items()}


def _prefixed(unit: str, size: int = 1) -> dict[str, Exact]:
    return {f"{prefix}{unit}": size * factor for prefix, factor in _DECIMAL.items()}


_DECIMAL = {prefix: Exact(1000) ** place for place, prefix in enumerate(("", "k", "M", "G", "T", "P"))}
_BINARY = {"Ki": Exact(2**10), "Mi": Exact(2**20), "Gi": Exact(2**30), "Ti": Exact(2**40)}
_TIME = _units(ns="1e-9", us="1e-6", ms="1e-3", s=1, min=60, h=3600, d=86400) | _units(
    sec=1, second=1, seconds=1, minute=60, minutes=60, hour=3600, hours=3600, day=86400, days=86400
)
_TIME |= {"\u00b5s": Exact("1e-6"), "\u03bcs": Exact("1e-6")}  # the micro sign and the Greek letter
_OFTEN = {f"{sign}{unit}": 1 / size for sign in ("/", "/ ", "per ") for unit, size in _TIME.items()} | {"Hz": Exact(1)}
_SPEED = _prefixed("FLOP/s") | _prefixed("FLOPS")
_SIZE = {f"{p}B": size for p, size in (_DECIMAL | _BINARY).items()} | {"bytes": Exact(1), "byte": Exact(1)}
_BITS = _prefixed("bit/s") | _prefixed("bps") | {f"{unit}/s": 8 * size for unit, size in _SIZE.items()}

SECONDS = Dimension("time", "s", _TIME, ("s", "ms", "us", "min", "h", "d"))
BYTES = Dimension("size", "B", _SIZE, ("B", "kB", "MB", "GB", "KiB", "MiB", "GiB"))
RATE = Dimension("rate", "bit/s", _BITS, ("Mbit/s", "kbit/s", "Gbit/s", "bit/s"), positive=True)
FLOPS = Dimension("speed", "FLOP/s", _SPEED, ("GFLOP/s", "MFLOP/s", "TFLOP/s", "kFLOP/s", "FLOP/s"), positive=True)
FREQUENCY = Dimension("frequency", "/s", _OFTEN, ("/s", "/min", "/h", "/d", "per hour", "per day"))
ENERGY = Dimension("energy", "J", _prefixed("J") | _prefixed("Wh", 3600), ("J", "kJ", "MJ", "GJ", "Wh", "kWh"))
MASS = Dimension("mass", "g", _units(g=1, mg="1e-3", kg=1000, t=10**6), ("g", "kg", "mg", "t"))
DIMENSIONS = (SECONDS, RATE, BYTES, FLOPS, FREQUENCY, ENERGY, MASS)


def fraction(value: Any) -> float:
    """Return a share between 0 and 1, also written as "30 %".  Raises ValueError for any other value.

    >>> fraction("30 %"), fraction(0.3)
    (0.3, 0.3)
    """
    number, unit = split(value, "fraction", "'0.3' or '30 %'")
    if unit not in ("", "%"):
        raise ValueError(f"{value!r} is not a fraction: it has no unit {unit!r}; write 0.3 or '30 %'")
    share = number / 100 if unit else number
    if not 0 <= share <= 1:
        percent = f"; did you mean '{_decimal(share)} %'?" if 2 <= share <= 100 else ""
        raise ValueError(f"{value!r} is not a fraction: it must lie between 0 and 1{percent}")
    return float(share)


def count(value: Any) -> int:
    """Return a whole number from 1 to MOST.  Raises ValueError otherwise."""
    number, unit = split(value, "count", "5")
    if unit or number.denominator != 1 or number < 1:
        raise ValueError(f"{value!r} is not a count: it must be a whole number of at least 1")
    if number > MOST:
        raise ValueError(f"{value!r} is too large for a count: write {MOST:,} at most")
    return int(number)


def amount(value: Any) -> int | float:
    """Return a count as an int, or a share of others as a float above 0: 5, or "80 %".  Raises ValueError otherwise.

    >>> amount(5), amount("80 %")
    (5, 0.8)
    """
    number, unit = split(value, "count or share", "'80 %' or 5")
    if not unit and number == 1 and not isinstance(value, int):
        raise ValueError(f"{value!r} could be one or all of them: write 1 or '100 %'")
    if unit == "%" or (not unit and 0 < number < 1):
        if not (share := fraction(value)):
            raise ValueError(f"{value!r} is no share: it must be above 0")
        return share
    return count(value)


def nbytes(value: Any) -> int:
    """Return a whole number of bytes.  Raises ValueError if it is not whole."""
    exact = BYTES._exact(value)
    if exact.denominator != 1:
        raise ValueError(f"{value!r} is not a size: it is not a whole number of bytes")
    if exact > MOST_BYTES:
        raise ValueError(f"{value!r} is too large for a size: write {MOST_BYTES // 10**9:,} GB at most")
    return int(exact)


def every(value: Any) -> Updates | float:
    """Return "20 updates" as Updates, "10 min" as seconds.  Raises ValueError for a bare number, which is ambiguous.

    >>> every("20 updates"), every("10 min")
    (Updates(count=20), 600.0)
    """
    if isinstance(value, Updates):
        return value
    number, unit = split(value, "stretch of a run", "'20 updates' or '10 min'")
    if unit in ("update", "updates"):
        return Updates(count(str(number)))
    if not unit:
        raise ValueError(f"{value!r} could be updates or seconds: write '{value} updates' or '{value} s'")
    if unit not in SECONDS.units:
        raise ValueError(f"{value!r} is not a stretch of a run: write '20 updates' or '10 min'")
    seconds = SECONDS.parse(value)
    if seconds == 0:
        raise ValueError(f"{value!r} is not a stretch of a run: it must be more than zero")
    return seconds


def clock(value: Any) -> Updates | float | Draw:
    """Return what `every` does, or the draw of the gaps between arrivals: "poisson(10 min)", "uniform(5 min, 15 min)".

    poisson(mean) are the gaps of a Poisson process, which are exponential.  Raises ValueError if gaps could only be
    zero, and as `every` and `Dimension.draw` do.
    """
    call = CALL.fullmatch(value) if isinstance(value, str) else None
    if call is None and not isinstance(value, Draw):
        return every(value)
    kind = call[1] if call else ""
    if kind not in ("", "poisson", *DISTRIBUTIONS) and nearest(kind, [*DISTRIBUTIONS, "poisson"]) == "poisson":
        raise ValueError(f"{kind!r} is not a distribution; did you mean 'poisson'?")
    if call and kind == "poisson" and ("," in call[2] or not call[2].strip()):
        raise ValueError(f"{value!r}: poisson is written poisson(mean), with the mean gap between arrivals")
    draw = SECONDS.draw(f"exponential({call[2]})" if call and kind == "poisson" else value)
    if draw.values[0] == 0 and (draw.kind in ("exponential", "lognormal") or not any(draw.values)):
        raise ValueError(f"{value!r} is not a clock: all its gaps would be zero")
    return draw.values[0] if draw.kind == "constant" else draw


def canonical(value: Any) -> Any:
    """Return a canonical form of a value: texts with units as SI numbers, whole floats as ints.

    Other texts stay as they are, so the result does not depend on the option.
    """
    if isinstance(value, int) or value is None:
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, Updates):
        return str(value)
    if isinstance(value, Draw):
        return canonical(value.values[0]) if value.kind == "constant" else [value.kind, *map(canonical, value.values)]
    if isinstance(value, dict):
        return {str(key): canonical(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [canonical(inner) for inner in value]
    return _canonical_text(str(value))


@lru_cache(maxsize=4096)
def _canonical_text(text: str) -> Any:
    readers: list[Callable[[str], Any]] = [_bare, *(d.draw for d in DIMENSIONS), fraction, clock]
    for read in readers if text[:1].isalnum() or text[:1] in ".+" else []:
        try:
            return canonical(read(text))
        except ValueError:
            continue
    return text


def _schema(what: str, *examples: str, number: str | None = "number") -> WithJsonSchema:
    """Describe a text or a number; where there is no kind of number, no other than 0."""
    numbers: dict[str, Any] = {"const": 0} if number is None else {"type": number}
    return WithJsonSchema({"anyOf": [numbers, {"type": "string"}], "description": what, "examples": [*examples]})


def _written(read: Callable[[Any], Any], text: Callable[[Any], str], what: str, *examples: str) -> tuple[Any, ...]:
    return BeforeValidator(read), PlainSerializer(text, when_used="json"), _schema(what, *examples, number=None)


def _quantity(dimension: Dimension, *examples: str) -> tuple[Any, ...]:
    return _written(dimension.parse, dimension.text, f"{dimension.name.capitalize()}, with its unit.", *examples)


def _draw(dimension: Dimension, *examples: str) -> tuple[Any, ...]:
    what = f"A {dimension.name} or a distribution of it: {', '.join(DISTRIBUTIONS)}."
    return _written(dimension.draw, str, what, *examples)


def _stretch(read: Callable[[Any], Any], **schema: Any) -> tuple[Any, ...]:
    text = PlainSerializer(_text_of_stretch, when_used="json")
    return BeforeValidator(read), text, WithJsonSchema({"type": "string", **schema})


def _text_of_stretch(value: Any) -> str:
    return SECONDS.text(value) if isinstance(value, float) else str(value)


Seconds = Annotated[float, *_quantity(SECONDS, "50 ms", "10 min")]
Duration = Annotated[Seconds, Field(gt=0)]
Rate = Annotated[float, *_quantity(RATE, "10 Mbit/s")]
Flops = Annotated[float, *_quantity(FLOPS, "2 GFLOP/s")]
Energy = Annotated[float, *_quantity(ENERGY, "20 kJ", "0.5 kWh")]
Mass = Annotated[float, *_quantity(MASS, "100 g")]
Frequency = Annotated[float, *_quantity(FREQUENCY, "0.5 per hour", "2/min", "0.01/s")]
Bytes = Annotated[int, *_written(nbytes, BYTES.text, "A size in bytes, with its unit.", "2 GiB", "64 kB")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Fraction = Annotated[float, BeforeValidator(fraction), _schema("A share between 0 and 1.", "30 %")]
PositiveFraction = Annotated[Fraction, Field(gt=0)]
FractionBelowOne = Annotated[Fraction, Field(lt=1)]
Amount = Annotated[int | float, BeforeValidator(amount), _schema("A count, or a share of others.", "5", "80 %")]
Count = Annotated[int, BeforeValidator(count), WithJsonSchema({"type": "integer", "minimum": 1})]
Every = Annotated[Updates | float, *_stretch(every, examples=["20 updates", "10 min"])]
_GAPS = "A stretch of a run, or a distribution of times that is drawn from for every gap."
_GAP_EXAMPLES = ["20 updates", "10 min", "poisson(10 min)", "lognormal(10 min, 0.5)"]
Clock = Annotated[Updates | float | Draw, *_stretch(clock, description=_GAPS, examples=_GAP_EXAMPLES)]
SecondsDraw = Annotated[Draw, *_draw(SECONDS, "50 ms", "lognormal(50 ms, 0.5)")]
RateDraw = Annotated[Draw, *_draw(RATE, "10 Mbit/s", "lognormal(5 Mbit/s, 1.0)")]
FlopsDraw = Annotated[Draw, *_draw(FLOPS, "2 GFLOP/s", "lognormal(2 GFLOP/s, 0.8)")]

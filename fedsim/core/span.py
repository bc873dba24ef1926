"""The range in which an option is tuned: an interval, steps within one, or a list of choices.

An algorithm's class declares its spans under `tunes`.  Numbers are rounded to three significant digits, so that a
written scenario holds exactly what was tried.  Whole numbers are listed as choices.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """From `low` to `high`, both included: evenly, in steps of `step`, or evenly in the logarithm; or one of `choices`.

    Raises ValueError if it holds fewer than two values, mixes these forms, or has an end of more than three digits.
    """

    low: float = 0.0
    high: float = 0.0
    step: float | None = None
    log: bool = False
    choices: tuple[int | float | str, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for a span that makes no sense."""
        if self.choices:
            if len(set(self.choices)) < 2 or (self.low, self.high, self.step, self.log) != (0, 0, None, False):
                raise ValueError(f"{self}: give at least two different choices, and no range beside them")
        elif not self.low < self.high or (self.log and (self.low <= 0 or self.step is not None)):
            raise ValueError(f"{self}: low must be below high; a logarithmic range needs low above 0 and no step")
        elif (self.kept(self.low), self.kept(self.high)) != (self.low, self.high):
            raise ValueError(f"{self.low} to {self.high}: give the ends with at most three significant digits")

    def kept(self, value: int | float | str) -> int | float | str:
        """Return a value as it is tried and written: a choice unchanged, a number to three digits."""
        return value if self.choices else float(f"{value:.3g}")

    def holds(self, value: object) -> bool:
        """Return whether the value could be tried."""
        if self.choices:
            return value in self.choices
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            return False
        steps = (value - self.low) / self.step if self.step else 0.0
        return abs(steps - round(steps)) < 1e-8

    def __str__(self) -> str:
        """Return the span in words."""
        if self.choices:
            return " or ".join(map(str, self.choices))
        how = ", log" if self.log else f", step {self.step:g}" if self.step else ""
        return f"{self.low:g} to {self.high:g}{how}"

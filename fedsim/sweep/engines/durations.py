"""Predictions of how long points take, so that workers take the longest first and none is left with one at the end.

A point's work is what its scenario says: rounds, clients asked in each, local steps.  Points alike (the same algorithm,
data set, model and protocol; followers apart) are assumed to need the same host time for the same work, as much as
those that have ended: the mean.  A kind of which none has ended counts as longest, so that each kind is measured early.

Predictions decide when a point starts and on which worker, never what it computes.  Not modelled: the data's size
beyond the data set's name, the speeds of different machines.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from fedsim.core import units
from fedsim.scenario.schema import Point, Scenario

PointKind = tuple[str, str, str, str]  # algorithm, data set, model, protocol


@dataclass
class Durations:
    """Host seconds of the points that have ended, by kind."""

    # seconds, and the work done in them, of points that followed and of others
    _spent: dict[tuple[PointKind, bool], tuple[float, float]] = field(default_factory=dict)
    _known: dict[str, tuple[PointKind, float]] = field(default_factory=dict)  # by a point's id; asked again and again

    def rank(self, point: Point, follows: bool) -> tuple[float, float]:
        """Return the predicted seconds of a point, infinite if no point of its kind has ended, and its work."""
        kind, work = self._of(point)
        seconds, done = self._spent.get((kind, follows), (math.inf, 1.0))
        return seconds / done * work, work

    def ended(self, point: Point, row: Any) -> None:
        """Learn from the row of a point that has ended."""
        if not row or not (took := row.get("real_seconds")):
            return
        kind, work = self._of(point)
        key = kind, bool(row.get("followed"))
        seconds, done = self._spent.get(key, (0.0, 0.0))
        self._spent[key] = seconds + took, done + work

    def _of(self, point: Point) -> tuple[PointKind, float]:
        if point.id not in self._known:
            self._known[point.id] = kind_of(point.scenario), work_of(point.scenario)
        return self._known[point.id]


def kind_of(scenario: Scenario) -> PointKind:
    """Return what points must have in common to be compared by their work."""
    parts = scenario.algorithm, scenario.data.dataset if scenario.data else None, scenario.model, scenario.protocol
    algorithm, dataset, model, protocol = ("" if part is None else part.name for part in parts)
    return algorithm, dataset, model, protocol


def work_of(scenario: Scenario) -> float:
    """Return the local steps that a scenario asks for, as far as it says; 1 for each number that it leaves open."""
    options = scenario.protocol.options
    share = _number(scenario.clients.count) * _number(options.get("participation"))
    asked = share if options.get("clients") is None else _number(options["clients"])
    steps = scenario.training.local_steps if scenario.training else 1
    return _number(options.get("rounds")) * asked * steps


def _number(written: Any) -> float:
    """Return an option as a number, 1 if it is missing or none."""
    try:
        return units.fraction(written) if isinstance(written, str) else float(written)
    except (TypeError, ValueError):
        return 1.0

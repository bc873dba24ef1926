"""Hands algorithms their context without a run; needs no torch."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fedsim.learn.algorithm import Algorithm, Context
from fedsim.point.build.parts import Parts
from fedsim.scenario.schema import Scenario

if TYPE_CHECKING:
    from fedsim.data.time.temporal import Overview
    from fedsim.learn.aggregation import Aggregation
    from fedsim.learn.task import Task

Some = TypeVar("Some", bound=Algorithm)


def within(
    algorithm: Some,
    task: Task | None,
    overview: Overview | None = None,
    *,
    learning_rate: float = 0.05,
    local_steps: int = 1,
    momentum: float = 0.0,
    clients: int = 1,
    aggregation: Aggregation | None = None,
) -> Some:
    """The algorithm in a context."""
    context = Context(
        task, learning_rate=learning_rate, local_steps=local_steps, momentum=momentum, clients=clients,
        overview=overview, aggregation=aggregation,
    )  # fmt: skip
    return replace(algorithm, context=context)


def with_algorithm(scenario: Scenario, algorithm: Algorithm) -> Parts:
    """Return the parts of a scenario with this algorithm in place of its own."""
    parts = Parts(scenario)
    parts.__dict__["algorithm"] = algorithm  # where a cached property keeps what it has made
    return parts

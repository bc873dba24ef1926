"""What cannot be deployed, found before anything starts."""

from collections.abc import Iterator

from fedsim.core.errors import Problem, ScenarioError
from fedsim.net.topologies.star import Star
from fedsim.point.parts import Parts

PROTOCOLS = ("sync", "deadline", "one_shot")


def check(parts: Parts) -> None:
    """Raise ScenarioError, with the key and the remedy, if a scenario cannot be deployed."""
    if problems := [*_problems(parts)]:
        raise ScenarioError(problems)


def _problems(parts: Parts) -> Iterator[Problem]:
    scenario = parts.scenario
    name = scenario.protocol.name.rpartition(".")[2]
    if name not in PROTOCOLS:
        yield Problem("protocol", f"{name!r} is not deployed; take one of: {', '.join(PROTOCOLS)}")
    if type(parts.topology) is not Star:
        yield Problem("network.topology", "a deployed run has one server that all clients talk with; take 'star'")
    if not parts.algorithm.learns:
        yield Problem("algorithm", "it learns nothing, so that there is nothing to deploy; simulate it")
    if not parts.algorithm.talks:
        yield Problem("algorithm", "nothing of it travels, so that there is nothing to deploy; simulate it")
    if scenario.privacy.secure_aggregation.on:
        yield Problem("privacy.secure_aggregation", "is not deployed; leave it out, or simulate it")
    for number, effect in enumerate(parts.effects):
        if effect.forges:
            yield Problem(f"network.effects.{number}", "forged uploads are not deployed; leave it out, or simulate it")
    if scenario.measure.until is not None:
        yield Problem("measure.until", "budgets are not metered in a deployed run; give protocol.rounds instead")
    if scenario.measure.views:
        yield Problem("measure.views", "a deployed run records no views; leave it out")

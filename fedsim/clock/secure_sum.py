"""A round under secure aggregation: its exchanges, the clients left after each, and whether the sum can be unmasked.

Clients send their keys, share their secrets with their neighbours, upload masked vectors, and help to unmask the sum
(`net/masking.py` has the messages).  A client lost in one exchange is not asked in the next.  If too few are left to
remove some client's mask, the round ends at once: nothing is folded, and uploads that have arrived are discarded.
Each exchange has its row in the table of updates.  Under deadline rounds each exchange may take as long as a step.

Not modelled: a second attempt with the clients that are left.
"""

import logging
import math
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

import simpy

from fedsim.clock import protocol
from fedsim.clock.world import World
from fedsim.core.wire import Tree
from fedsim.learner.batch import clients_of
from fedsim.learner.ticket import Reply
from fedsim.net import masking

log = logging.getLogger(__name__)
Replies = Generator[simpy.Event, Any, Sequence[Reply]]


def exchange(
    world: World, cohort: Sequence[int], step: str, want: int | None = None, before: float = math.inf
) -> Replies:
    """Ask a cohort as `protocol.exchange` does, masked if the scenario asks for it; return the replies that count."""
    if world.clients.masks is None:
        return (yield from protocol.exchange(world, cohort, step, want, before))
    options = world.clients.masks.options
    known = yield from _answering(world, cohort, "keys", {}, before)
    graph = options.graph(known, world.rng("masking"))
    if not options.holds(graph, known, known):
        return _given_up(world, "keys", [])
    keys = {one: masking.keys_of(len(graph[one])) for one in known}
    sharing = yield from _answering(world, known, "shares", keys, before)
    if not options.holds(graph, sharing, sharing):
        return _given_up(world, "shares", [])
    sealed = {one: masking.sealed(_among(graph[one], sharing), len(sharing)) for one in sharing}
    replies = yield from protocol.exchange(world, sharing, step, want, before, sealed)
    there, missed = sorted(clients_of(replies)), world.server.tally()
    wanted, world.server.wanted = world.server.wanted, None
    if options.holds(graph, sharing, there):
        alive = {one: masking.alive(_among(graph[one], there), _among(graph[one], sharing)) for one in there}
        there = yield from _answering(world, there, "unmask", alive, before)
    world.server.note(*missed)  # counted in the row of the round itself
    world.server.wanted = wanted
    return replies if options.holds(graph, sharing, there) else _given_up(world, step, replies)


def _answering(
    world: World, clients: Sequence[int], step: str, beside: Mapping[int, Tree], before: float
) -> Generator[simpy.Event, Any, list[int]]:
    """Return which of the clients have answered in an exchange of secure aggregation, ascending."""
    replies = (yield from protocol.exchange(world, clients, step, None, before, beside)) if clients else []
    yield from world.server.accept(replies, step)
    return sorted(clients_of(replies))


def _given_up(world: World, step: str, replies: Sequence[Reply]) -> list[Reply]:
    log.info(
        "%.3f s: too few clients were left after '%s' to remove the masks; no reply is aggregated", world.env.now, step
    )
    for reply in replies:
        world.server.discard(reply)
    return []


def _among(some: Collection[int], others: Collection[int]) -> int:
    return len({*some} & {*others})

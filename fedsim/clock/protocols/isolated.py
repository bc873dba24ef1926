"""Isolated training: each client continues from its own state, as the only client of its own federation.

The baseline without federation for any algorithm, used in POWER for ER-GNN, TWP and DSLR (its Fig. 2b).  In each round
every client of the cohort works once on the download that its own state would send it, and folds the result into that
state with the server's arithmetic, on its own computer (the spans `mix`).  Nothing travels: topology, rates and codecs
have no influence, and of the effects only those that slow clients down or make them unavailable.

A round ends when all have finished or are lost, and counts as one update, so that `every: 10 updates` of a stream or
of `measure` means as many rounds as under `sync`.  A client that goes to sleep or leaves before its state is updated is
lost for the round and keeps its state; one whose values are not finite refuses them and keeps it as well.  If an
algorithm has several steps, each client runs those of its own state; clients at the same step run it together, in one
row, and wait for those with more steps left.

Not modelled: clients whose rounds are not synchronised, and a server's faster computer.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import simpy

from fedsim.clock.protocol import Rounds, Steps, advance, select
from fedsim.clock.sampler import Cohorts
from fedsim.clock.world import World
from fedsim.learn.algorithm import Algorithm
from fedsim.net.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Isolated(Rounds):
    """A step lasts as long as its slowest client; a lost client is asked again in the next step."""

    silent: ClassVar[bool] = True

    def refuse(self, algorithm: Algorithm, topology: Topology) -> str | None:
        """Return None: any algorithm fits any network, as nothing travels."""
        return None

    def cohorts(self, clients: int) -> Cohorts:
        """Return a cohort for each round."""
        return Cohorts(self.rounds, self.cohort_of(clients))

    def run(self, world: World) -> Steps:
        """Give every client the first state as its own; in each round ask a cohort and wait for all."""
        for client in world.clients:
            world.clients.states[client] = world.server.state
        for _ in range(self.rounds):
            want = self.cohort_size(world)
            cohort = yield from select(world, want)
            world.server.begin_round(want)
            yield from _round(world, cohort)


def _round(world: World, cohort: Sequence[int]) -> Steps:
    """Run the steps of each client's own state; clients with the same next step run it together."""
    learner = world.learner
    left = {client: learner.steps(world.clients.states[client]) for client in cohort}
    while any(left.values()):
        step = max(left.values(), key=len)[0]  # the client with most steps left goes first; the others' last steps wait
        ready = {client: world.clients.states[client] for client, steps in left.items() if steps[:1] == [step]}
        yield from _take(world, list(ready), step)
        for client, before in ready.items():
            state = world.clients.states[client]
            more = () if state is before else learner.more(state, step)  # unchanged for a client that was lost
            left[client] = [*more, *left[client][1:]]


def _take(world: World, clients: Sequence[int], step: str) -> Steps:
    """Have these clients run a step, each by itself, and count it when all have finished."""
    jobs = []
    if world.server.counts.wanted is None:  # a round says it for its first step
        world.server.counts.wanted = len(clients)
    for client in clients:
        world.clients.begin(client)
        jobs.append(world.env.process(_alone(world, client, step)))
    yield world.env.all_of(jobs)
    yield from world.server.record_update(step, sum(bool(job.value) for job in jobs), 0.0)


def _alone(world: World, client: int, step: str) -> Generator[simpy.Event, Any, bool]:
    """Have a client work and fold the result into its own state; return whether it succeeded."""
    updated = yield from advance(world, client, step, world.server.version)
    world.clients.finish(client)
    return updated

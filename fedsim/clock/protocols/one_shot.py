"""One round and one update: each selected client is asked once, as soon as it is online and holds data.

The sampler selects `participation` or `clients` of them from all clients at the start, whether online or not.  The
round ends when `enough` of them have replied, when all have replied or are lost, or when the time is up; clients still
at work are late.  If the algorithm has several steps, the clients that replied to one step are asked for the next, by
the same rules.  With `least`, the first client is asked once that many of those selected are available at the same
time; after that, each is asked as soon as it is available (`enough` and `wait` concern replies).  A client that never
comes online blocks the round forever, unless `enough` or `wait` ends it.

Late replies are dropped, or folded as they arrive: each, together with those that arrive while the server folds, is one
more update, until all asked clients have replied or are lost; no other client is asked any more.  m late replies after
n others have the weight m / (n + m), so that a straggler does not count as much as all others together.  Late replies
are folded in the last step only: a next step has begun without them.

Not modelled: a selection that changes during the round.
"""

import math
from collections.abc import Collection, Generator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
import simpy

from fedsim.clock.protocol import Steps, exchanges
from fedsim.clock.quorum import Quorum
from fedsim.clock.requests import Request
from fedsim.clock.sampler import Cohorts
from fedsim.clock.world import World
from fedsim.core.units import Duration, PositiveFraction
from fedsim.learn.replies import Reply


@dataclass
class _Asked:
    """The asks of one step: those under way, by client, and those that have ended and were not taken yet."""

    world: World
    step: str
    under_way: dict[int, Request] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ended = simpy.Store(self.world.env)
        self.one = self._ended.get()  # fires when the next ask ends

    def ask(self, client: int) -> None:
        """Ask a client."""
        self.under_way[client] = ask = self.world.server.ask(client, self.step)
        ask.callbacks.append(self._put)

    def take(self) -> Request:
        """Return the ask that has ended."""
        ask, self.one = cast("Request", self.one.value), self._ended.get()
        del self.under_way[ask.client]
        return ask

    def close(self) -> None:
        """Close all asks under way."""
        for ask in self.under_way.values():
            self.world.server.close(ask)
        self.under_way = {}

    def _put(self, ask: simpy.Event) -> None:
        self._ended.put(ask)


@dataclass(frozen=True, kw_only=True)
class OneShot(Quorum):
    """All clients are selected unless `participation` or `clients` says otherwise."""

    or_all = True

    enough: PositiveFraction = 1.0  # the share of the selected clients whose replies suffice
    wait: Duration | None = None  # the longest duration of a step
    retry: bool = False  # ask lost clients again
    late: Literal["drop", "fold"] = "drop"  # what happens to replies that arrive too late

    def cohort_of(self, among: int) -> int:
        """Return how many of that many clients are wanted."""
        return among if self.participation is None and self.clients is None else super().cohort_of(among)

    def folded(self, clients: int) -> int | None:
        """Return the number wanted; None if late replies are folded, whose number is not known in advance."""
        return self.cohort_of(clients) if self.late == "drop" else None

    def cohorts(self, clients: int) -> Cohorts:
        """Return the one cohort."""
        return Cohorts(1, self.cohort_of(clients))

    def share(self, world: World) -> float:
        """Return the share of wanted clients that have ended, or of the time; of asked ones if late replies count."""
        asked = world.clients.last_asked > 0
        through = np.count_nonzero(asked & ~world.clients.busy)
        if self.late == "fold":
            nobody_more = world.server.version > 0 or (self.wait is not None and world.env.now >= self.wait)
            return through / (np.count_nonzero(asked) or 1 if nobody_more else self.cohort_size(world))
        spent = world.env.now / self.wait if self.wait else 0.0
        return min(1.0, max(through / self.cohort_size(world), spent))

    def run(self, world: World) -> Steps:
        """Ask the selected clients, step by step."""
        everybody, rng = np.arange(len(world.clients)), world.rng("participation")
        want = self.cohort_size(world)
        cohort = world.sampler.choose(everybody, want, world.clients, rng).tolist()
        yield from self.gathered(world, len(cohort), np.isin(everybody, cohort))
        world.server.begin_round(want)
        last, steps = world.learner.steps(world.server.state)[-1], exchanges(world)
        step = next(steps, None)
        while step is not None and cohort:
            asked = _Asked(world, step)
            if world.server.counts.wanted is None:  # the round has said it for its first step
                world.server.counts.wanted = want
            replies = yield from self._collect(asked, cohort)
            if self.late == "drop" or step != last:
                asked.close()
            folded = yield from world.server.update(replies, step)
            cohort, step = sorted(reply.client for reply in replies), next(steps, None)
            want = len(cohort)
            if step is None:
                yield from self._fold_late(asked, folded)
            asked.close()

    def _collect(self, asked: _Asked, cohort: Collection[int]) -> Generator[simpy.Event, Any, list[Reply]]:
        """Return the cohort's replies that count, in order of arrival."""
        world, env = asked.world, asked.world.env
        unasked = np.zeros(len(world.clients), dtype=bool)
        unasked[list(cohort)] = True
        missing = len(cohort)
        want = min(missing, max(1, math.ceil(self.enough * missing - 1e-9)))
        replies: list[Reply] = []
        up = env.timeout(self.wait) if self.wait else env.event()
        while len(replies) < want and (missing or asked.under_way) and not up.processed:
            for client in world.available(unasked) if missing and world.server.serving else ():
                unasked[client], missing = False, missing - 1
                asked.ask(client)
            yield env.any_of([asked.one, world.clients.client_available, up])
            while asked.one.triggered and len(replies) < want and not up.processed:
                ask = asked.take()
                if ask.value is not None:
                    replies.append(ask.value)
                elif self.retry:
                    unasked[ask.client], missing = True, missing + 1
            gathered, replies = replies, [*world.server.remembered(replies)]
            if self.retry and len(replies) < len(gathered):  # the server has restarted
                again = sorted({reply.client for reply in gathered} - {reply.client for reply in replies})
                unasked[again], missing = True, missing + len(again)
        return replies

    def _fold_late(self, asked: _Asked, folded: int) -> Steps:
        """Fold late replies after the first `folded`, until no ask is under way; count those lost at the end."""
        while asked.under_way:
            yield asked.one
            came: list[Reply] = []
            while asked.one.triggered:
                reply = asked.take().value
                came += [reply] if reply is not None else []
            came = [*asked.world.server.open(came, asked.step).accepted]  # a reply that is refused has no weight
            folded += len(came)
            if came or not asked.under_way:
                weight = len(came) / max(1, folded)
                yield from asked.world.server.update([replace(reply, weight=weight) for reply in came], asked.step)

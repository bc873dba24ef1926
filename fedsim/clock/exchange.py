"""An exchange: a cohort is asked, and its replies are awaited.  `World.exchange` is the one that a run uses.

Secure aggregation has one of its own (security/exchange.py).
"""

import math
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import simpy

from fedsim.clock.cohort.contract import UNFINISHED
from fedsim.clock.cohort.events import EventsCohort
from fedsim.clock.cohort.planned import PlannedCohort
from fedsim.clock.requests import Request
from fedsim.clock.server import ServerHost
from fedsim.core.record import SERVER
from fedsim.learn.replies import Reply
from fedsim.learner.contract import Payloads

ReplyProcess = Generator[simpy.Event, Any, Sequence[Reply]]


class Exchange:
    """Asks clients for a server; `payloads` are what travels, by default the learner's."""

    def __init__(self, server: ServerHost, payloads: Payloads | None = None) -> None:
        self.server = server
        self.payloads = server.learner if payloads is None else payloads

    @property
    def masking_bytes(self) -> int | None:
        """The bytes that secure aggregation has added so far; None without it."""
        return None

    def __call__(
        self, cohort: Sequence[int], step: str, want: int | None = None, before: float = math.inf
    ) -> ReplyProcess:
        """Ask a cohort and wait as `gather` does, for all replies by default; return the replies.

        No other client may be asked until this returns, so that the cohort can be asked at once where the network
        allows it and no other message is under way: many times faster, with the same times, bytes and fates.
        """
        server, want = self.server, len(cohort) if want is None else want
        if server.counts.wanted is None:  # a round says it for its first step
            server.counts.wanted = len(cohort)
        network, numbers = server.network, np.array(cohort, dtype=np.int64)
        at_once = server.write_cohort is not None and server.learner.talks and server.node == SERVER
        at_once = at_once and network.planner.supports_cohorts and not network.under_way
        if not (at_once and cohort and network.nodes.online[numbers].all()):
            requests = [server.ask(client, step, self.payloads) for client in cohort]
            return (yield from gather(server, requests, want, before))
        alone = want >= len(cohort) and math.isinf(before)  # nothing else is sent until all have ended
        kind = PlannedCohort if network.planner.fits(numbers, alone) else EventsCohort
        return (yield from kind(server, cohort, step, self.payloads).first(want, before))


def gather(
    server: ServerHost, requests: Sequence[Request], want: int, before: float = math.inf
) -> Generator[simpy.Event, Any, list[Reply]]:
    """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival.

    Requests without a reply by then are closed: their replies will be late.
    """
    if not requests:
        return []
    done, replies, waiting = server.env.event(), list[Reply](), set[simpy.Event](requests)

    def ended(event: simpy.Event) -> None:
        waiting.discard(event)
        if done.triggered:
            return
        if event.value is not None:
            replies.append(event.value)
        if len(replies) == want or not waiting:
            done.succeed()

    for request in requests:
        if request.processed:
            ended(request)
        else:
            request.callbacks.append(ended)
    over = done if math.isinf(before) else done | server.env.timeout(before)
    yield over
    if not over.processed:  # resumed by a loop over this generator
        raise RuntimeError(UNFINISHED)
    counted = {id(reply) for reply in replies}
    for request in requests:
        if not (request.processed and (request.value is None or id(request.value) in counted)):
            server.close(request)
    return replies

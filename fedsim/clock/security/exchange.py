"""A round under secure aggregation: its exchanges, the clients left after each, and whether the sum can be unmasked.

Clients send their keys, share their secrets with their neighbours, upload masked vectors, and help to unmask the sum
(`net/masking.py` has the messages).  A client lost in one exchange is not asked in the next.  If too few are left to
remove some client's mask, the round ends at once: nothing is aggregated, and uploads that have arrived are discarded.
Each exchange has its row in the table of updates.  Under deadline rounds each exchange may take as long as a step.

Not modelled: a second attempt with the clients that are left.
"""

import logging
import math
from collections.abc import Collection, Generator, Mapping, Sequence
from typing import Any

import simpy

from fedsim.clock.exchange import Exchange, ReplyProcess
from fedsim.clock.requests import RoundCounts
from fedsim.clock.security.payloads import MaskingPayloads, Masks, SealedPayloads
from fedsim.clock.server import ServerHost
from fedsim.core.seeds import Streams
from fedsim.core.wire import Tree
from fedsim.learn.replies import Reply, clients_of
from fedsim.net import masking

log = logging.getLogger(__name__)


class SecureExchange(Exchange):
    """Asks a cohort masked; `masks` has the options, and counts the bytes that masking adds."""

    def __init__(self, server: ServerHost, masks: Masks, rng: Streams) -> None:
        super().__init__(server)
        self.masks, self.rng = masks, rng

    @property
    def masking_bytes(self) -> int:
        """The bytes that masking has added so far."""
        return self.masks.added

    def __call__(
        self, cohort: Sequence[int], step: str, want: int | None = None, before: float = math.inf
    ) -> ReplyProcess:
        """Ask a cohort between the exchanges of masking; return the replies that can be unmasked."""
        options, server = self.masks.options, self.server
        known = yield from self._answering(cohort, "keys", {}, before)
        graph = options.graph(known, self.rng("masking"))
        if not options.holds(graph, known, known):
            return self._give_up("keys", [])
        keys = {client: masking.keys_of(len(graph[client])) for client in known}
        sharing = yield from self._answering(known, "shares", keys, before)
        if not options.holds(graph, sharing, sharing):
            return self._give_up("shares", [])
        sealed = {client: masking.sealed(_among(graph[client], sharing), len(sharing)) for client in sharing}
        payloads = SealedPayloads(server.learner, self.masks, sealed)
        replies = yield from Exchange(server, payloads)(sharing, step, want, before)
        present = sorted(clients_of(replies))
        missed, server.counts = server.counts, RoundCounts()  # for the row of the round itself
        if options.holds(graph, sharing, present):
            alive = {
                client: masking.alive(_among(graph[client], present), _among(graph[client], sharing))
                for client in present
            }
            present = yield from self._answering(present, "unmask", alive, before)
        missed.add(server.counts)
        server.counts = missed
        return replies if options.holds(graph, sharing, present) else self._give_up(step, replies)

    def _answering(
        self, clients: Sequence[int], step: str, sent: Mapping[int, Tree], before: float
    ) -> Generator[simpy.Event, Any, list[int]]:
        """Return which of the clients have answered in an exchange of masking's own, ascending."""
        ask = Exchange(self.server, MaskingPayloads(self.masks, step, sent))
        replies = (yield from ask(clients, step, None, before)) if clients else []
        yield from self.server.take(replies, step)
        return sorted(clients_of(replies))

    def _give_up(self, step: str, replies: Sequence[Reply]) -> list[Reply]:
        """Discard the replies of a round that cannot be unmasked."""
        text = "%.3f s: too few clients were left after '%s' to remove the masks; no reply is aggregated"
        log.info(text, self.server.env.now, step)
        for reply in replies:
            self.server.discard(reply)
        return []


def _among(some: Collection[int], others: Collection[int]) -> int:
    return len({*some} & {*others})

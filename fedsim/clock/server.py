"""The server, or an edge aggregator, which is a server for its own clients: replies are aggregated into its state.

An update takes the algorithm's operations over the server's speed and queues for its cores; nothing is read from the
host's clock.  An edge aggregator aggregates, and leaves it to the cloud to count: a version is the cloud's everywhere.

A reply with values that are not finite is refused when it would be aggregated: its upload is discarded, and the update
counts it as refused.  It is looked at no sooner, for what has arrived may not have been computed yet.

Whom it asks is in requests.py, what a restart forgets in restarts.py.  Not modelled: one computation on several cores.
"""

from collections.abc import Callable, Generator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import simpy

from fedsim.clock.requests import Requests, RoundCounts
from fedsim.core.record import SpanRow, TransferRow, UpdateRow
from fedsim.learn.replies import Reply, clients_of, in_client_order, staleness
from fedsim.learner.contract import Opened
from fedsim.learner.ticket import Share, Ticket

BREAK_OFF = "restart"  # the cause of the interrupts


@dataclass
class ServerHost(Requests):
    """Its state and version, and the requests under way.

    `speed` is in operations per second of each of its `cores`; steps in `preparatory` leave the model as it is, and
    make no version.
    """

    speed: float
    cores: int = 1
    preparatory: Set[str] = frozenset()
    epsilon: float | None = field(default=None, init=False)  # spent so far; None without differential privacy

    def __post_init__(self) -> None:
        """Take the learner's first state."""
        super().__post_init__()
        self.updated: simpy.Event = self.env.event()  # fires with the next version
        self._queue = simpy.Resource(self.env, self.cores)
        self.on_version: list[Callable[[], None]] = []  # called at once with each new version
        self._computing: dict[simpy.Process, None] = {}

    def update(self, replies: Sequence[Reply], step: str = "train") -> Generator[simpy.Event, Any, int]:
        """Aggregate replies and record the update; without any, only record that none came.

        Returns how many were aggregated.
        """
        aggregated = yield from self.aggregate(replies, step)
        yield from self.record_update(step, len(aggregated), staleness(aggregated, self.version))
        return len(aggregated)

    def aggregate(self, replies: Sequence[Reply], step: str = "train") -> Generator[simpy.Event, Any, Sequence[Reply]]:
        """Aggregate the acceptable replies into the state, in order of the client, and return them.

        Takes time on a core of the server.  A restart meanwhile loses all of them.
        """
        opened = self.open(replies, step)
        if opened.accepted:
            if not (yield from self.compute(opened.operations)):
                self.lose(opened.accepted)
                return []
            if opened.losses:
                self._observe_losses(opened)
            self.state, self.epsilon = self.learner.aggregate(self.state, opened.accepted, step)
            self.pending.resolve_all(opened.accepted, "delivered")
        return opened.accepted

    def open(self, replies: Sequence[Reply], step: str = "train", state: Ticket | None = None) -> Opened:
        """Return what can be aggregated, in order of the client; replies that are not finite are refused.

        A peer aggregates into a `state` of its own.
        """
        # what a set of replies amounts to must not depend on which came first
        current = in_client_order(self.remembered(replies) if self.restarts else replies)
        opened = self.learner.open(self.state if state is None else state, current, step)
        if opened.refused:
            self.counts.refused += len(opened.refused)
            self.pending.resolve_all(opened.refused, "discarded")
        return opened

    def remembered(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """Return the replies that the server still waits for: all, unless it restarts."""
        return replies

    def take(self, replies: Sequence[Reply], step: str) -> Generator[simpy.Event, Any, None]:
        """Take the replies of an exchange of masking's own, which change no state, and record it."""
        self.pending.resolve_all(replies, "delivered")
        yield from self.record_update(step, len(replies), 0.0)

    def mix(self, shares: Sequence[Share], weights: Sequence[float]) -> Generator[simpy.Event, Any, bool]:
        """Merge what others have shared into the state, which takes a multiply-add a number; return whether it did."""
        if not (yield from self.compute(sum(share.operations for share in shares))):
            return False
        self.state = self.learner.mix(self.state, shares, weights)
        return True

    def record_update(self, step: str, aggregated: int, staleness: float) -> Generator[simpy.Event, Any, None]:
        """Write the row of an update of so many replies, this many versions behind on average.

        Preparatory steps have a row but make no version.  Observers and streams then go before the protocol.
        """
        counts, self.counts = self.counts, RoundCounts()
        asked = aggregated + counts.lost + counts.late + counts.refused
        new_version = aggregated > 0 and step not in self.preparatory
        if new_version:
            self.version += 1
            for save in self.on_version:
                save()
        epsilon = self.epsilon if new_version else None
        missed = counts.lost, counts.late, staleness, counts.refused, epsilon, counts.wanted
        self.write(UpdateRow(self.env.now, self.version, step, asked, aggregated, *missed))
        if new_version:
            updated, self.updated = self.updated, self.env.event()
            updated.succeed(self.version)
        yield self.env.timeout(0)

    def compute(self, operations: float) -> Generator[simpy.Event, Any, bool]:
        """Run that many operations on a core, once one is free; return whether they were not interrupted."""
        process, start, done = self.env.active_process, None, True
        assert process is not None
        self._computing[process] = None
        try:
            with self._queue.request() as core:
                yield core
                start = self.env.now
                yield self.env.timeout(operations / self.speed)
        except simpy.Interrupt as stop:
            if stop.cause != BREAK_OFF:
                raise
            done = False
        finally:
            del self._computing[process]
        if operations and start is not None:
            self.write(SpanRow(self.node, start, self.env.now, "serve"))
        return done

    def break_off(self) -> None:
        """Interrupt all that is computed or queues for a core."""
        for process in list(self._computing):
            process.interrupt(BREAK_OFF)

    def lose(self, replies: Sequence[Reply]) -> None:
        """Count replies as lost; their uploads are discarded."""
        self.counts.lost += len(replies)
        self.pending.resolve_all(replies, "discarded")

    def moved(self, row: TransferRow) -> None:
        """Take the network's row of an ended transfer; an upload's is kept until its reply counts or does not."""
        self.pending.moved(row, self.busy)

    def end(self) -> None:
        """Close the books: write the rows that were kept back for replies that nobody has aggregated."""
        self.pending.end()

    def _observe_losses(self, opened: Opened) -> None:
        """Note the losses that came with replies."""
        for client, loss in zip(clients_of(opened.accepted), opened.losses, strict=True):
            nodes = int(self.clients.training_nodes[client])
            self.clients.statistics.reported(client, loss, nodes, self.clients.cohorts)

"""A server that restarts, and what a restart forgets: its state since the last checkpoint, and whom it has asked.

When the server restarts (net/effects/restart.py) it returns to the state of a checkpoint.  Clients that are at work for
it stop, and replies to earlier requests are lost, even those that a protocol has already received.  Versions continue.

Not modelled: the time to save and load a state, and where it is stored; edge aggregators that restart.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fedsim.clock.server import ServerHost
from fedsim.core.record import SpanRow, UpdateRow
from fedsim.learn.replies import Reply
from fedsim.learner.ticket import Ticket

RESTART = "restart"  # the step in the row of a restart


@dataclass
class RestartingServer(ServerHost):
    """The server of a network with an effect that halts it."""

    def __post_init__(self) -> None:
        """Take the learner's first state, to which it returns without a later checkpoint."""
        super().__post_init__()
        self._first = self.state
        self.on_version.append(self._save)
        self._saved: dict[int, tuple[int, Ticket]] = {}  # by interval: the last version saved, and its state
        self._forgotten = 0  # the last request that a restart has forgotten
        self._down_since: float | None = None
        assert self.network.server_status is not None
        self._intervals = self.network.server_status.intervals
        self.network.server_status.watch(self._halt, self._resume)

    def remembered(self, replies: Sequence[Reply]) -> Sequence[Reply]:
        """Return the replies to requests since the last restart; the others are lost, their uploads discarded."""
        if not self._forgotten:
            return replies
        forgotten = [reply for reply in replies if 0 < reply.ask <= self._forgotten]
        self.lose(forgotten)
        return [reply for reply in replies if reply not in forgotten] if forgotten else [*replies]

    def _save(self) -> None:
        """Save a new version of the state for the checkpoints that are due."""
        due = (interval for interval in self._intervals if self.version % interval == 0)
        self._saved.update(dict.fromkeys(due, (self.version, self.state)))

    def end(self) -> None:
        """Close the books: write the span of a downtime that is still open, and the rows that were kept back."""
        self._end_downtime()
        super().end()

    def _halt(self, interval: int) -> None:
        """Go down: nothing is left but a checkpoint."""
        self.serving = False
        self.restarts += 1
        self._forgotten = self.requested
        if self._down_since is None:
            self._down_since = self.env.now
        version, self.state = self._saved.get(interval, (0, self._first))
        self.write(UpdateRow(self.env.now, self.version, RESTART, 0, 0, 0, 0, float(self.version - version)))
        self.break_off()
        for client in sorted(self.busy):
            self.network.nodes.leave(client)

    def _resume(self) -> None:
        self._end_downtime()
        self.serving = True
        self.clients.announce()

    def _end_downtime(self) -> None:
        if self._down_since is not None:
            self.write(SpanRow(self.node, self._down_since, self.env.now, "down"))
            self._down_since = None

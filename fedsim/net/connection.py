"""Connections: those kept open between two messages, so that the next message needs no handshake.

A connection is free once its message has arrived; a message that finds none free opens a new one.  Each end is a sender
with a window of its own, which starts over after a time-out in which that end has sent no data; what the other end
sends does not matter to it.  The request of a download is data of the client's.  A connection whose message is cut is
closed, and so are all connections of a node that sleeps or leaves.  Not modelled: closing after a time, limits on their
number, packets that keep a connection alive, a window smaller than what the link could take.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fedsim.net.model import Model
from fedsim.net.transfer import Transfer

Ends = tuple[int, int]
ROUNDED = 1e-9  # of the clock: idle times that differ from the time-out by no more than that are equal to it


@dataclass(slots=True, eq=False)
class Connection:
    """An open connection between two nodes."""

    ages: tuple[int, int]  # how often each end had closed all its connections when this was opened
    sent: dict[int, float] = field(default_factory=dict)  # when each sender with an open window last sent data

    def is_warm(self, sender: int, now: float, timeout: float) -> bool:
        """Return whether a sender's window is open when it sends now; it starts over if idle for more than a time-out.

        As in Linux an idle time of exactly the time-out leaves the window open.  Both are sums of times, so that
        "exactly" includes what rounding does to them.
        """
        if sender not in self.sent:
            return False
        return now - self.sent[sender] <= timeout + ROUNDED * now

    def request(self, sender: int, now: float, timeout: float) -> None:
        """Record that a sender requests something now."""
        if self.is_warm(sender, now, timeout):
            self.sent[sender] = now
        else:
            self.sent.pop(sender, None)


class Connections:
    """The free connections by their two ends; those freed last are used first."""

    def __init__(self, model: Model) -> None:
        """Start with none."""
        self._model = model
        self._free: defaultdict[Ends, list[Connection]] = defaultdict(list)
        self._ages: Counter[int] = Counter()

    def take(self, transfer: Transfer) -> Connection:
        """Return a connection for the transfer, and set the transfer's `reused` and `warm`."""
        ends, free = _ends(transfer), self._free.get(_ends(transfer), [])
        ages = self._ages[ends[0]], self._ages[ends[1]]
        while free:
            connection = free.pop()
            if connection.ages == ages:
                transfer.reused = True
                self._resume(connection, transfer)
                return connection
        return Connection(ages)

    def give(self, connection: Connection, transfer: Transfer, now: float) -> None:
        """Free the connection on which the transfer arrives now."""
        if transfer.nbytes:
            connection.sent[transfer.src] = now - self._model.closing(transfer)
        self._free[_ends(transfer)].append(connection)

    def close(self, node: int) -> None:
        """Close all connections of a node."""
        self._ages[node] += 1

    def _resume(self, connection: Connection, transfer: Transfer) -> None:
        """Set whether the window of the transfer's sender is open when its data begin."""
        timeout, asked = self._model.timeout(transfer), self._model.opening(transfer)
        if asked:
            connection.request(transfer.dst, transfer.start, timeout)
        transfer.warm = connection.is_warm(transfer.src, transfer.start + asked, timeout)


def _ends(transfer: Transfer) -> Ends:
    return min(transfer.src, transfer.dst), max(transfer.src, transfer.dst)

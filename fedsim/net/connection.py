"""Connections: those that nodes keep open between two messages, so that the next needs no handshake.

A connection is free once its message has arrived; whoever comes while none is free opens a new one.  After a time-out
without data its window is as small as at the start.  Where a message is cut its connection is gone, and where a node
sleeps or leaves all that it has are.  Not modelled: closing after a time, limits on their number, packets that keep a
connection alive, a window that is smaller than what the link could take.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fedsim.net.transfer import Transfer

Ends = tuple[int, int]


@dataclass(slots=True, eq=False)
class Connection:
    """One that is open between two nodes."""

    ages: tuple[int, int]  # how often each end had closed all it has when this one was opened
    used: float = -math.inf  # when the last message on it arrived
    senders: set[int] = field(default_factory=set)  # whose window has opened


class Connections:
    """The free ones, by their two ends; those freed last are taken first."""

    def __init__(self) -> None:
        """Start with none."""
        self._free: defaultdict[Ends, list[Connection]] = defaultdict(list)
        self._ages: Counter[int] = Counter()

    def take(self, transfer: Transfer, timeout: float) -> Connection:
        """Return a connection for the transfer, and tell the transfer what is open already; `timeout` in seconds."""
        ends, free = _ends(transfer), self._free.get(_ends(transfer), [])
        ages = self._ages[ends[0]], self._ages[ends[1]]
        while free:
            connection = free.pop()
            if connection.ages == ages:
                awake = transfer.start - connection.used <= timeout
                transfer.reused, transfer.warm = True, awake and transfer.src in connection.senders
                return connection
        return Connection(ages)

    def give(self, connection: Connection, transfer: Transfer, now: float) -> None:
        """Take back the connection on which the transfer has arrived."""
        connection.used = now
        if transfer.nbytes:
            connection.senders.add(transfer.src)
        self._free[_ends(transfer)].append(connection)

    def close(self, node: int) -> None:
        """Close all that the node has."""
        self._ages[node] += 1


def _ends(transfer: Transfer) -> Ends:
    return min(transfer.src, transfer.dst), max(transfer.src, transfer.dst)

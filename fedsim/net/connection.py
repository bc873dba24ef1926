"""Connections: those kept open between two messages, so that the next message needs no handshake.

A connection is free once its message has arrived; a message that finds none free opens a new one.  After a time-out
without data its window starts over.  A connection whose message is cut is closed, and so are all connections of a node
that sleeps or leaves.  Not modelled: closing after a time, limits on their number, packets that keep a connection
alive, a window smaller than what the link could take.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fedsim.net.transfer import Transfer

Ends = tuple[int, int]


@dataclass(slots=True, eq=False)
class Connection:
    """An open connection between two nodes."""

    ages: tuple[int, int]  # how often each end had closed all its connections when this was opened
    used: float = -math.inf  # when the last message on it arrived
    senders: set[int] = field(default_factory=set)  # nodes whose window has opened


class Connections:
    """The free connections by their two ends; those freed last are used first."""

    def __init__(self) -> None:
        """Start with none."""
        self._free: defaultdict[Ends, list[Connection]] = defaultdict(list)
        self._ages: Counter[int] = Counter()

    def take(self, transfer: Transfer, timeout: float) -> Connection:
        """Return a connection for the transfer, and set the transfer's `reused` and `warm`; `timeout` is in seconds."""
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
        """Free the connection on which the transfer has arrived."""
        connection.used = now
        if transfer.nbytes:
            connection.senders.add(transfer.src)
        self._free[_ends(transfer)].append(connection)

    def close(self, node: int) -> None:
        """Close all connections of a node."""
        self._ages[node] += 1


def _ends(transfer: Transfer) -> Ends:
    return min(transfer.src, transfer.dst), max(transfer.src, transfer.dst)

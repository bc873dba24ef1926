"""Connections: those kept open between two messages, so that the next message needs no handshake.

A connection is free once its message has arrived; a message that finds none free opens a new one.  Each end
is a sender with a window of its own, which its next message finds as its last one left it, grown or cut by a
loss.  It is halved for every time-out in which that end has sent no data; what the other end sends does not
matter to it.  The request of a download is data of the client's.  A connection whose message is cut is
closed, and so are all connections of a node that sleeps or leaves.  Not modelled: closing after a time,
limits on their number, packets that keep a connection alive, the small replies of a server to uploads.
"""

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from fedsim.net.draws import Ends
from fedsim.net.model import NetworkModel
from fedsim.net.tcp.window_reuse import CongestionWindow
from fedsim.net.transfer import Transfer

ROUNDED = 1e-9  # of the clock: idle times that differ from the time-out by no more than that are equal to it


@dataclass(slots=True)
class Sender:
    """One end of a connection: its window, when it last sent data, and for how many round trips it has."""

    window: CongestionWindow
    sent: float
    rounds: float


@dataclass(slots=True, eq=False)
class Connection:
    """An open connection between two nodes."""

    ages: tuple[int, int]  # how often each end had closed all its connections when this was opened
    senders: dict[int, Sender] = field(default_factory=dict)  # those that have sent a message


class Connections:
    """The free connections by their two ends; those freed last are used first."""

    def __init__(self, model: NetworkModel, idle_restart: bool = True) -> None:
        """Start with none; windows shrink by idling if `idle_restart`."""
        self._model, self._idle_restart = model, idle_restart
        self._free: defaultdict[Ends, list[Connection]] = defaultdict(list)
        self._ages: Counter[int] = Counter()

    def take(self, transfer: Transfer) -> Connection:
        """Return a connection for the transfer, and set the transfer's `reused` and `window`."""
        ends, free = _ends(transfer), self._free.get(_ends(transfer), [])
        ages = self._ages[ends[0]], self._ages[ends[1]]
        while free:
            connection = free.pop()
            if connection.ages == ages:
                transfer.reused = True
                self._resume(connection, transfer)
                return connection
        return Connection(ages)

    def give(self, connection: Connection, transfer: Transfer, now: float, window: CongestionWindow | None) -> None:
        """Free the connection on which the transfer arrives now, and which has left its sender in this window."""
        if window is not None:
            sent, earlier = now - self._model.closing(transfer), connection.senders.get(transfer.src)
            begin = transfer.start + transfer.send_delay + self._model.opening(transfer)
            rounds = (sent - begin) / transfer.base_rtt + 1 if transfer.base_rtt else math.inf
            before = earlier.rounds if earlier else len(connection.senders)  # a request counts as one
            connection.senders[transfer.src] = Sender(window, sent, rounds + before)
        self._free[_ends(transfer)].append(connection)

    def close(self, node: int) -> None:
        """Close all connections of a node."""
        self._ages[node] += 1

    def _resume(self, connection: Connection, transfer: Transfer) -> None:
        """Set the window in which the transfer starts, after a download's request."""
        asked, opening = transfer.start + transfer.send_delay, self._model.opening(transfer)
        if opening and (client := connection.senders.get(transfer.dst)):
            self._wake(client, asked, transfer)
            client.sent = asked  # it is acknowledged with data, which Linux does not count as a round trip
        if sender := connection.senders.get(transfer.src):
            self._wake(sender, asked + opening, transfer)
            transfer.window = sender.window

    def _wake(self, sender: Sender, now: float, transfer: Transfer) -> None:
        """Have a sender's window shrink if it has been idle for more than the time-out when it sends now.

        As in Linux an idle time of exactly the time-out leaves the window open.  Both are sums of times, so
        that "exactly" includes what rounding does to them.
        """
        if self._idle_restart:
            timeout = self._model.timeout(transfer, sender.rounds)
            timeouts = int(max(0.0, now - sender.sent - ROUNDED * now) / timeout)
            sender.window = self._model.idled(sender.window, timeouts)


def _ends(transfer: Transfer) -> Ends:
    return min(transfer.src, transfer.dst), max(transfer.src, transfer.dst)


@dataclass(frozen=True)
class ConnectionPolicy:
    """`kind` is fresh, exchange or kept, `request` pull or push.

    Without `idle_restart` the window of a kept connection stays open however long it idles.
    """

    kind: str = "fresh"
    request: str = "pull"
    idle_restart: bool = True

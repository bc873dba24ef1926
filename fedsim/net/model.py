"""Model: how long the parts of a transfer take, and what share of a link it may have.

`Fluid` is TCP on a shared fluid link.  `Naive` is latency plus size over bandwidth, for comparison: nobody shares
anything, there are no headers, handshakes, slow starts and losses; only aborts and changes of rate still count.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from fedsim.net import tcp
from fedsim.net.sharing import line
from fedsim.net.sharing.line import Line
from fedsim.net.tcp import TransferModel
from fedsim.net.transfer import Transfer


class Access(NamedTuple):
    """What a client's flow meets, in bytes/s: its own link, the opposite one, the server's; `flows` share its own."""

    rate: float
    reverse: float
    server: float
    flows: int


class Model(ABC):
    """The parts of a transfer: opening, stall, bytes on the link with at most one pause, closing."""

    @abstractmethod
    def capacity(self, server: float) -> float:
        """Return the capacity of the link that all clients share, where the server's own is `server` bytes/s."""

    @abstractmethod
    def size(self, transfer: Transfer) -> float:
        """Return the bytes that go over the link."""

    @abstractmethod
    def opening(self, transfer: Transfer) -> float:
        """Return the seconds from the sending to the first byte of data."""

    @abstractmethod
    def queue(self, transfer: Transfer, lines: Sequence[Line], now: float) -> float:
        """Return the seconds that packets wait now where others keep a link of the path full."""

    @abstractmethod
    def start(self, transfer: Transfer, rate: float) -> tuple[float, float]:
        """Return the further seconds in which a flow that would get `rate` bytes/s cannot use it, and the bytes after.

        The bytes are those that come after the last gap.
        """

    @abstractmethod
    def credit(self, nbytes: float, rate: float, lines: Sequence[Line]) -> float:
        """Return how many bytes of a flow that then gets `rate` bytes/s cost no time."""

    @abstractmethod
    def weight(self, transfer: Transfer) -> float:
        """Return the flow's weight where it shares a link; 1 is usual."""

    @abstractmethod
    def until_pause(self, transfer: Transfer) -> float:
        """Return after how many wire bytes the flow pauses for a round trip; infinity: never."""

    @abstractmethod
    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the highest rate (bytes/s, finite) that the flow can have now; `paused` tells whether it has been."""

    @abstractmethod
    def timeout(self, transfer: Transfer) -> float:
        """Return the seconds without data after which a connection starts again as if it were new."""

    @abstractmethod
    def closing(self, transfer: Transfer) -> float:
        """Return the seconds from the last byte on the link to the arrival."""


@dataclass(frozen=True)
class Fluid(Model):
    """Max–min shares of the server's link, with TCP's start, headers and losses (`tcp.py`).

    Where others keep a link full, Q is what a packet waits in its buffer.  It lengthens the handshake and the rounds of
    slow start, and a short flow's last bytes wait Q once more: a few packets behind a bulk flow take 2 RTT + 2 Q + W/r.
    The half round trips of a request and of a reply go the other way, without Q; with Q in them too, 10 kB behind a
    bulk flow of Cubic at 10 Mbit/s and 20 ms would take 311 ms, where Linux takes 222 ms.
    """

    constants: TransferModel = field(default_factory=TransferModel)

    def capacity(self, server: float) -> float:
        """Return the server's own."""
        return server

    def size(self, transfer: Transfer) -> float:
        """Return payload, headers and repeats."""
        return tcp.wire_size(self.constants, transfer.nbytes, transfer.loss)

    def opening(self, transfer: Transfer) -> float:
        """Return the handshake, if there is one; a download's request takes another half round trip."""
        request = 0.0 if transfer.upload else transfer.quiet_trip / 2
        if transfer.reused:
            return request
        lost = 1 - (1 - transfer.loss_up) * (1 - transfer.loss_down)
        wait = tcp.syn_wait(self.constants, lost, transfer.handshake_draw)
        return transfer.trip * (1 + self.constants.tls_rtts) + request + wait

    def queue(self, transfer: Transfer, lines: Sequence[Line], now: float) -> float:
        """Return the standing queues of the path."""
        return line.standing_queue(self.constants, lines, transfer.rtt, now)

    def start(self, transfer: Transfer, rate: float) -> tuple[float, float]:
        """Return what slow start leaves idle, and the bytes of its last round; an open window has no such start."""
        size = self.size(transfer)
        if transfer.warm:
            return 0.0, size
        return tcp.slow_start(self.constants, size, transfer.trip, rate)

    def credit(self, nbytes: float, rate: float, lines: Sequence[Line]) -> float:
        """Return what the buckets of idle links let pass."""
        return line.credit(nbytes, rate, lines)

    def weight(self, transfer: Transfer) -> float:
        """Return 1, or what long round trips leave of it."""
        return tcp.weight(self.constants, transfer.trip)

    def until_pause(self, transfer: Transfer) -> float:
        """Return the bytes until the first loss, from which the sender recovers for a round trip."""
        count = tcp.packets(self.constants, transfer.nbytes)
        return tcp.first_loss(self.constants, count, transfer.loss, transfer.loss_draw) * self.constants.mtu

    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the client's share of its own link, or what acknowledgements and losses allow."""
        acks = tcp.ack_ceiling(self.constants, access.reverse)
        losses = tcp.loss_ceiling(self.constants, transfer.trip, transfer.loss) if paused else math.inf
        return min(access.rate / access.flows, acks, losses)

    def timeout(self, transfer: Transfer) -> float:
        """Return TCP's retransmission time-out."""
        return tcp.timeout(self.constants, transfer.quiet_trip)

    def closing(self, transfer: Transfer) -> float:
        """Return half a round trip; the last bytes of a short flow wait behind those of others before."""
        count = tcp.packets(self.constants, transfer.nbytes)
        waits = 0 < count <= self.constants.short_packets
        return transfer.quiet_trip / 2 + (transfer.queue if waits else 0.0)


@dataclass(frozen=True)
class Naive(Model):
    """Latency (with its mean jitter) plus size over the slower of the two access rates."""

    def capacity(self, server: float) -> float:
        """Return infinity: flows do not share."""
        return math.inf

    def size(self, transfer: Transfer) -> float:
        """Return the message's own bytes."""
        return transfer.nbytes

    def opening(self, transfer: Transfer) -> float:
        """Return 0."""
        return 0.0

    def queue(self, transfer: Transfer, lines: Sequence[Line], now: float) -> float:
        """Return 0."""
        return 0.0

    def start(self, transfer: Transfer, rate: float) -> tuple[float, float]:
        """Return 0 seconds, and all bytes."""
        return 0.0, transfer.nbytes

    def credit(self, nbytes: float, rate: float, lines: Sequence[Line]) -> float:
        """Return 0."""
        return 0.0

    def weight(self, transfer: Transfer) -> float:
        """Return 1."""
        return 1.0

    def until_pause(self, transfer: Transfer) -> float:
        """Return infinity."""
        return math.inf

    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the whole rate of the slower link, whoever else is on it."""
        return min(access.rate, access.server)

    def timeout(self, transfer: Transfer) -> float:
        """Return 0: there are no connections."""
        return 0.0

    def closing(self, transfer: Transfer) -> float:
        """Return the latency of one way."""
        return transfer.quiet_trip / 2


MODELS: dict[str, Callable[[TransferModel], Model]] = {"fluid": Fluid, "naive": lambda constants: Naive()}


def model_named(name: str, constants: TransferModel) -> Model:
    """Return the model that a scenario calls by this name; ValueError where there is none."""
    if name not in MODELS:
        raise ValueError(f"network.model: there is no '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name](constants)

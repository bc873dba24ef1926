"""Model: how long the parts of a transfer take, and what share of a link it may have.

`Fluid` is TCP on a shared fluid link.  `Naive` is latency plus size over bandwidth, for comparison: nobody shares
anything, there are no headers, handshakes, slow starts and losses; only aborts and changes of rate still count.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedsim.net import tcp
from fedsim.net.sharing import line
from fedsim.net.sharing.line import Line
from fedsim.net.tcp import TransferModel
from fedsim.net.transfer import Transfer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Access(NamedTuple):
    """What a client's flow meets, in bytes/s: its own link, the opposite one, the server's; `flows` share its own."""

    rate: float
    reverse: float
    server: float
    flows: int


class Rows(NamedTuple):
    """What K lone messages meet, each a row (K,): bytes, seconds there and back with mean jitter, bytes/s, losses.

    `server` is the slowest link that they share, in bytes/s.
    """

    nbytes: Ints
    trip: Floats
    rate: Floats
    reverse: Floats
    server: float
    loss_up: Floats
    loss_down: Floats


class Lone(NamedTuple):
    """How K messages go that nobody else holds up, each a row (K,).

    `size` wire bytes set out `before` seconds after the sending at the rate `fast` (bytes/s).  Where one `pauses`, it
    does so for a round trip after its first `part` bytes, and the others go at the rate `slow`.
    """

    before: Floats
    size: Floats
    part: Floats
    pauses: npt.NDArray[np.bool_]
    fast: Floats
    slow: Floats


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
    def start(self, transfer: Transfer, size: float, rate: float) -> tuple[float, float]:
        """Return the further seconds in which a flow that would get `rate` bytes/s cannot use it, and the bytes after.

        The bytes are those of `size`, which are all its own, that come after the last gap.
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

    @abstractmethod
    def lone(self, rows: Rows, draws: Floats, upload: bool) -> Lone:
        """Return the same for many messages that nobody else holds up, whose closing is half a round trip.

        `draws` are each transfer's two numbers in [0, 1): for lost handshakes, and for the first loss.
        """


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
        wait = 0.0
        if transfer.loss_up or transfer.loss_down:
            lost = 1 - (1 - transfer.loss_up) * (1 - transfer.loss_down)
            wait = tcp.syn_wait(self.constants, lost, transfer.handshake_draw)
        return transfer.trip * (1 + self.constants.tls_rtts) + request + wait

    def queue(self, transfer: Transfer, lines: Sequence[Line], now: float) -> float:
        """Return the standing queues of the path."""
        return line.standing_queue(self.constants, lines, transfer.rtt, now)

    def start(self, transfer: Transfer, size: float, rate: float) -> tuple[float, float]:
        """Return what slow start leaves idle, and the bytes of its last round; an open window has no such start."""
        if transfer.warm:
            return 0.0, size
        return tcp.slow_start(self.constants, size, transfer.trip, rate)

    def credit(self, nbytes: float, rate: float, lines: Sequence[Line]) -> float:
        """Return what the buckets of idle links let pass."""
        return line.credit(nbytes, rate, lines)

    def weight(self, transfer: Transfer) -> float:
        """Return 1, or what long round trips leave of it."""
        return tcp.weight(self.constants, transfer.trip) if self.constants.rtt_bias else 1.0

    def until_pause(self, transfer: Transfer) -> float:
        """Return the bytes until the first loss, from which the sender recovers for a round trip."""
        if not (loss := transfer.loss):
            return math.inf
        count = tcp.packets(self.constants, transfer.nbytes)
        return tcp.first_loss(self.constants, count, loss, transfer.loss_draw) * self.constants.mtu

    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the client's share of its own link, or what acknowledgements and losses allow."""
        rate, acks = access.rate / access.flows, tcp.ack_ceiling(self.constants, access.reverse)
        if acks < rate:
            rate = acks
        return min(rate, tcp.loss_ceiling(self.constants, transfer.trip, transfer.loss)) if paused else rate

    def timeout(self, transfer: Transfer) -> float:
        """Return TCP's retransmission time-out."""
        return tcp.timeout(self.constants, transfer.quiet_trip)

    def closing(self, transfer: Transfer) -> float:
        """Return half a round trip; the last bytes of a short flow wait behind those of others before."""
        if not transfer.queue:
            return transfer.quiet_trip / 2
        count = tcp.packets(self.constants, transfer.nbytes)
        waits = 0 < count <= self.constants.short_packets
        return transfer.quiet_trip / 2 + (transfer.queue if waits else 0.0)

    def lone(self, rows: Rows, draws: Floats, upload: bool) -> Lone:
        """Return handshake, slow start and what losses make of the bytes."""
        loss, own = rows.loss_up if upload else rows.loss_down, self.constants
        size = tcp.wire_size(own, rows.nbytes, loss)
        before = rows.trip * (1 + own.tls_rtts) + (0.0 if upload else rows.trip / 2)
        fast = np.minimum(rows.rate, tcp.ack_ceiling(own, rows.reverse))
        before += tcp.syn_waits(own, 1 - (1 - rows.loss_up) * (1 - rows.loss_down), draws[0])
        until = tcp.first_losses(own, tcp.packets(own, rows.nbytes), loss, draws[1]) * own.mtu
        slow = np.minimum(fast, tcp.loss_ceilings(own, rows.trip, loss))
        before += tcp.stalls(own, size, rows.trip, fast)
        return Lone(before, size, np.minimum(until, size), np.isfinite(until), fast, slow)


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

    def start(self, transfer: Transfer, size: float, rate: float) -> tuple[float, float]:
        """Return 0 seconds, and all bytes."""
        return 0.0, size

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

    def lone(self, rows: Rows, draws: Floats, upload: bool) -> Lone:
        """Return bytes and rates, and no time before."""
        size, fast = rows.nbytes.astype(np.float64), np.minimum(rows.rate, rows.server)
        return Lone(np.zeros(len(size)), size, size, np.zeros(len(size), dtype=bool), fast, fast)


MODELS: dict[str, Callable[[TransferModel], Model]] = {"fluid": Fluid, "naive": lambda constants: Naive()}


def model_named(name: str, constants: TransferModel) -> Model:
    """Return the model that a scenario calls by this name; ValueError where there is none."""
    if name not in MODELS:
        raise ValueError(f"network.model: there is no '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name](constants)

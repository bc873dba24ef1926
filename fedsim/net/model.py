"""Model: how long the parts of a transfer take, and how much of a link it may use.

`Fluid` is TCP on a shared fluid link.  `Naive` is latency plus size over bandwidth, for comparison: no link is shared,
and there are no headers, handshakes, slow starts or losses; aborts and changes of rate still apply.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fedsim.net import tcp
from fedsim.net.sharing import link_state
from fedsim.net.sharing.link_state import LinkState
from fedsim.net.tcp import TransferModel
from fedsim.net.transfer import Transfer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Access(NamedTuple):
    """The links of a client's flow in bytes/s: its own, the reverse one, the server's; `flows` share its own."""

    rate: float
    reverse: float
    server: float
    flows: int


class Rows(NamedTuple):
    """K unhindered messages, each a row (K,): bytes, round trip in seconds with mean jitter, bytes/s, losses.

    `server` is the rate of the slowest link that they share, in bytes/s.
    """

    nbytes: Ints
    trip: Floats
    rate: Floats
    reverse: Floats
    server: float
    loss_up: Floats
    loss_down: Floats


class Lone(NamedTuple):
    """How K unhindered messages proceed, each a row (K,).

    `size` wire bytes start `before` seconds after the sending at the rate `fast` (bytes/s).  A message that `pauses`
    does so for a round trip after its first `part` bytes, and sends the rest at the rate `slow`.
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
        """Return the capacity of a shared link whose own rate is `server` bytes/s."""

    @abstractmethod
    def size(self, transfer: Transfer) -> float:
        """Return the transfer's wire bytes."""

    @abstractmethod
    def opening(self, transfer: Transfer) -> float:
        """Return the seconds from the sending to the first byte of data."""

    @abstractmethod
    def queue(self, transfer: Transfer, links: Sequence[LinkState], now: float) -> float:
        """Return the seconds that packets now wait on links of the route that others keep full."""

    @abstractmethod
    def start(self, transfer: Transfer, size: float, rate: float) -> tuple[float, float]:
        """Return the seconds for which a flow cannot use its `rate` (bytes/s), and the bytes after the last such gap.

        `size` are all wire bytes of the flow.
        """

    @abstractmethod
    def credit(self, nbytes: float, rate: float, links: Sequence[LinkState]) -> float:
        """Return how many bytes of a flow that then gets `rate` bytes/s take no time."""

    @abstractmethod
    def weight(self, transfer: Transfer) -> float:
        """Return the flow's weight when it shares a link; usually 1."""

    @abstractmethod
    def until_pause(self, transfer: Transfer) -> float:
        """Return after how many wire bytes the flow pauses for a round trip; infinity if never."""

    @abstractmethod
    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the highest rate (bytes/s, finite) that the flow can have; `paused`: whether it has paused before."""

    @abstractmethod
    def timeout(self, transfer: Transfer) -> float:
        """Return the seconds without data after which a connection's window starts over."""

    @abstractmethod
    def closing(self, transfer: Transfer) -> float:
        """Return the seconds from the last byte on the link to the arrival."""

    @abstractmethod
    def lone(self, rows: Rows, draws: Floats, upload: bool, reused: bool = False) -> Lone:
        """Return the same for many unhindered messages at once, whose closing is half a round trip.

        With `reused` their connections are open already, and nothing was sent that way on them.  `draws` (2, K) are
        each transfer's numbers in [0, 1) for lost handshakes and for the first loss.
        """


@dataclass(frozen=True)
class Fluid(Model):
    """Max–min shares of the server's link, with TCP's start, headers and losses (`tcp.py`).

    If others keep a link full, each packet waits Q in its buffer.  That lengthens the handshake and the rounds of slow
    start, and a short flow's last bytes wait Q once more: a few packets behind a bulk flow take 2 RTT + 2 Q + W/r.  The
    half round trips of a request and of a reply go the other way, without Q; with Q in them too, 10 kB behind a bulk
    flow of Cubic at 10 Mbit/s and 20 ms would take 311 ms, while Linux takes 222 ms.
    """

    constants: TransferModel = field(default_factory=TransferModel)

    def capacity(self, server: float) -> float:
        """Return the link's own rate."""
        return server

    def size(self, transfer: Transfer) -> float:
        """Return payload, headers and repeats."""
        return tcp.wire_size(self.constants, transfer.nbytes, transfer.loss)

    def opening(self, transfer: Transfer) -> float:
        """Return the handshake, if there is one; a download's request takes another half round trip if it has one."""
        request = 0.0 if transfer.upload or (transfer.pushed and transfer.reused) else transfer.quiet_trip / 2
        if transfer.reused:
            return request
        wait = 0.0
        if transfer.loss_up or transfer.loss_down:
            lost = 1 - (1 - transfer.loss_up) * (1 - transfer.loss_down)
            wait = tcp.syn_wait(self.constants, lost, transfer.handshake_draw)
        return transfer.trip * (1 + self.constants.tls_rtts) + request + wait

    def queue(self, transfer: Transfer, links: Sequence[LinkState], now: float) -> float:
        """Return the standing queues of the route."""
        return link_state.standing_queue(self.constants, links, transfer.rtt, now)

    def start(self, transfer: Transfer, size: float, rate: float) -> tuple[float, float]:
        """Return the idle time of slow start and the bytes after it; a connection with an open window has none."""
        if transfer.warm:
            return 0.0, size
        return tcp.slow_start(self.constants, size, transfer.trip, rate)

    def credit(self, nbytes: float, rate: float, links: Sequence[LinkState]) -> float:
        """Return what the token buckets of idle links let pass."""
        return link_state.credit(nbytes, rate, links)

    def weight(self, transfer: Transfer) -> float:
        """Return 1, or less for long round trips if the model has such a bias."""
        return tcp.weight(self.constants, transfer.trip) if self.constants.rtt_bias else 1.0

    def until_pause(self, transfer: Transfer) -> float:
        """Return the bytes until the first loss, after which the sender recovers for a round trip."""
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
        """Return half a round trip; the last bytes of a short flow first wait in the standing queue."""
        if not transfer.queue:
            return transfer.quiet_trip / 2
        count = tcp.packets(self.constants, transfer.nbytes)
        waits = 0 < count <= self.constants.short_packets
        return transfer.quiet_trip / 2 + (transfer.queue if waits else 0.0)

    def lone(self, rows: Rows, draws: Floats, upload: bool, reused: bool = False) -> Lone:
        """Return the effects of handshakes, slow start and losses."""
        loss, own = rows.loss_up if upload else rows.loss_down, self.constants
        size = tcp.wire_size(own, rows.nbytes, loss)
        handshake = np.zeros(len(size)) if reused else rows.trip * (1 + own.tls_rtts)
        before = handshake + (0.0 if upload else rows.trip / 2)
        fast = np.minimum(rows.rate, tcp.ack_ceiling(own, rows.reverse))
        if not reused:
            before += tcp.syn_waits(own, 1 - (1 - rows.loss_up) * (1 - rows.loss_down), draws[0])
        until = tcp.first_losses(own, tcp.packets(own, rows.nbytes), loss, draws[1]) * own.mtu
        slow = np.minimum(fast, tcp.loss_ceilings(own, rows.trip, loss))
        before += tcp.stalls(own, size, rows.trip, fast)
        return Lone(before, size, np.minimum(until, size), np.isfinite(until), fast, slow)


@dataclass(frozen=True)
class Naive(Model):
    """Latency (with its mean jitter) plus size over the slower of the two access rates."""

    def capacity(self, server: float) -> float:
        """Return infinity: no link is shared."""
        return math.inf

    def size(self, transfer: Transfer) -> float:
        """Return the message's own bytes."""
        return transfer.nbytes

    def opening(self, transfer: Transfer) -> float:
        """Return 0."""
        return 0.0

    def queue(self, transfer: Transfer, links: Sequence[LinkState], now: float) -> float:
        """Return 0."""
        return 0.0

    def start(self, transfer: Transfer, size: float, rate: float) -> tuple[float, float]:
        """Return 0 seconds, and all bytes."""
        return 0.0, size

    def credit(self, nbytes: float, rate: float, links: Sequence[LinkState]) -> float:
        """Return 0."""
        return 0.0

    def weight(self, transfer: Transfer) -> float:
        """Return 1."""
        return 1.0

    def until_pause(self, transfer: Transfer) -> float:
        """Return infinity."""
        return math.inf

    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the full rate of the slower link, whatever else is on it."""
        return min(access.rate, access.server)

    def timeout(self, transfer: Transfer) -> float:
        """Return 0: there are no connections."""
        return 0.0

    def closing(self, transfer: Transfer) -> float:
        """Return the latency of one way."""
        return transfer.quiet_trip / 2

    def lone(self, rows: Rows, draws: Floats, upload: bool, reused: bool = False) -> Lone:
        """Return sizes and rates, and no time before."""
        size, fast = rows.nbytes.astype(np.float64), np.minimum(rows.rate, rows.server)
        return Lone(np.zeros(len(size)), size, size, np.zeros(len(size), dtype=bool), fast, fast)


MODELS: dict[str, Callable[[TransferModel], Model]] = {"fluid": Fluid, "naive": lambda constants: Naive()}


def model_named(name: str, constants: TransferModel) -> Model:
    """Return the model of this name in scenarios; ValueError if there is none."""
    if name not in MODELS:
        raise ValueError(f"network.model: there is no '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name](constants)

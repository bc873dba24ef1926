"""Model: how long the parts of a transfer take, and how much of a link it may use.

`Fluid` is TCP on a shared fluid link.  `Naive` is latency plus size over bandwidth, for comparison: no link is shared,
and there are no headers of TCP, handshakes, slow starts, flow control or losses; aborts and changes of rate still
apply.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fedsim.net import flow_control, kept, tcp, window
from fedsim.net.draws import Draws
from fedsim.net.kept import Window
from fedsim.net.lone import Access, Lone, Rows
from fedsim.net.sharing import link_state
from fedsim.net.sharing.link_state import LinkState
from fedsim.net.tcp import TransferModel
from fedsim.net.transfer import Transfer
from fedsim.net.window import Start

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Model(ABC):
    """The parts of a transfer: opening, stall, bytes on the link before and after a loss is noticed, closing."""

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
    def start(
        self,
        transfer: Transfer,
        size: float,
        rate: float,
        ceiling: float,
        full: Sequence[link_state.SharedState],
        overflows: Draws,
    ) -> Start:
        """Return how a flow of `size` wire bytes starts that gets this `rate` (bytes/s) of the `ceiling` it could use.

        `full` are the links that it shares with others, if it could use more.
        """

    @abstractmethod
    def limit(self, transfer: Transfer, left: float, rate: float, start: Start) -> float:
        """Return the mean rate (bytes/s) of the `left` bytes of a flow that has noticed its loss.

        Without the loss it could send at `rate` bytes/s.
        """

    @abstractmethod
    def after(self, transfer: Transfer, size: float, start: Start) -> Window:
        """Return the sender's window after a transfer of `size` wire bytes that started so."""

    @abstractmethod
    def idled(self, window: Window, timeouts: int) -> Window:
        """Return a sender's window after an idle time of so many whole time-outs."""

    @abstractmethod
    def credit(self, nbytes: float, rate: float, links: Sequence[LinkState]) -> float:
        """Return how many bytes of a flow that then gets `rate` bytes/s take no time."""

    @abstractmethod
    def weight(self, transfer: Transfer) -> float:
        """Return the flow's weight when it shares a link; usually 1."""

    @abstractmethod
    def ceiling(self, transfer: Transfer, access: Access, limit: float) -> float:
        """Return the highest rate (bytes/s, finite) that the flow can have whose window allows `limit` bytes/s."""

    @abstractmethod
    def timeout(self, transfer: Transfer, rounds: float) -> float:
        """Return the seconds without data after which a sender's window shrinks.

        Before, it has sent data for so many round trips.
        """

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
        trips = 1 + self.constants.tls_rtts + transfer.terms.trips
        return transfer.trip * trips + request + wait

    def queue(self, transfer: Transfer, links: Sequence[LinkState], now: float) -> float:
        """Return the standing queues of the route."""
        return link_state.standing_queue(self.constants, links, transfer.rtt, now)

    def start(
        self,
        transfer: Transfer,
        size: float,
        rate: float,
        ceiling: float,
        full: Sequence[link_state.SharedState],
        overflows: Draws,
    ) -> Start:
        """Return the idle time of slow start and the first loss, drawn or of a full queue.

        The transport's flow control may add to the first.
        """
        found, terms = self._start(transfer, size, rate, ceiling, full, overflows), transfer.terms
        if terms.first == math.inf:
            return found
        more = flow_control.stall(self.constants, terms, size, transfer.trip, rate, transfer.window)
        return found._replace(idle=found.idle + more)

    def _start(
        self,
        transfer: Transfer,
        size: float,
        rate: float,
        ceiling: float,
        full: Sequence[link_state.SharedState],
        overflows: Draws,
    ) -> Start:
        own, loss, trip, packet = self.constants, transfer.loss, transfer.trip, math.inf
        if loss and trip:
            packet = tcp.first_loss(own, tcp.packets(own, transfer.nbytes), loss, transfer.loss_draw)
        if full and own.congestion_control != "bbr" and not own.rtt_bias:
            top = link_state.overflow(own, rate, transfer.quiet_trip, full)
            if top < math.inf and not own.deterministic:
                top *= tcp.LUCKLESS + overflows.next(transfer.ends)
            allowed = ceiling * transfer.quiet_trip
            begin = transfer.window or Window(own.initial_window)
            if found := kept.overflown(own, size, trip, rate, allowed, loss, packet, begin, top):
                return found
        if transfer.window is not None:
            return kept.start(own, size, trip, rate, loss, packet, transfer.window)
        if packet < math.inf:
            found = window.lossy_start(own, size, trip, rate, loss, packet)
        else:
            found = Start(*tcp.slow_start(own, size, trip, rate), rate)
        if own.congestion_control != "bbr":
            return found
        paced = tcp.pacing(own, tcp.packets(own, transfer.nbytes), trip, rate)
        return found._replace(idle=found.idle + float(paced))

    def limit(self, transfer: Transfer, left: float, rate: float, start: Start) -> float:
        """Return what the window allows on average from the loss on, and after a full queue once that is empty."""
        trip, loss = self._after_loss(transfer, start)
        return window.limit(self.constants, trip, loss, rate, start, left)

    def _after_loss(self, transfer: Transfer, start: Start) -> tuple[float, float]:
        if start.overflown:
            return transfer.quiet_trip, max(transfer.loss, window.SELDOM)
        return transfer.trip, transfer.loss

    def after(self, transfer: Transfer, size: float, start: Start) -> Window:
        """Return the sender's window after the transfer."""
        begin = transfer.window or Window(self.constants.initial_window)
        trip, loss = self._after_loss(transfer, start)
        return kept.after(self.constants, size, trip, loss, start, begin)

    def idled(self, window: Window, timeouts: int) -> Window:
        """Return the window, halved for each."""
        return kept.idled(self.constants, window, timeouts)

    def credit(self, nbytes: float, rate: float, links: Sequence[LinkState]) -> float:
        """Return what the token buckets of idle links let pass."""
        return link_state.credit(nbytes, rate, links)

    def weight(self, transfer: Transfer) -> float:
        """Return 1, or less for long round trips if the model has such a bias."""
        return tcp.weight(self.constants, transfer.trip) if self.constants.rtt_bias else 1.0

    def ceiling(self, transfer: Transfer, access: Access, limit: float) -> float:
        """Return the client's share of its own link, or what acknowledgements, the window and the transport allow."""
        rate, acks = access.rate / access.flows, tcp.ack_ceiling(self.constants, access.reverse)
        if acks < rate:
            rate = acks
        if transfer.terms.window < math.inf and (trip := transfer.quiet_trip):
            rate = min(rate, flow_control.ceiling(self.constants, transfer.terms, trip))
        return rate if rate <= limit else limit

    def timeout(self, transfer: Transfer, rounds: float) -> float:
        """Return TCP's retransmission time-out; infinity for BBR, which keeps its window."""
        if self.constants.congestion_control == "bbr":
            return math.inf
        return tcp.timeout(self.constants, transfer.quiet_trip, rounds)

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
        handshake = np.zeros(len(size)) if reused else rows.trip * (1 + own.tls_rtts + rows.terms.trips)
        before = handshake + (0.0 if upload else rows.trip / 2)
        fast = np.minimum(rows.rate, tcp.ack_ceiling(own, rows.reverse))
        fast = flow_control.ceilings(own, rows.terms, rows.trip, fast)
        if not reused:
            before += tcp.syn_waits(own, 1 - (1 - rows.loss_up) * (1 - rows.loss_down), draws[0])
        packet = tcp.first_losses(own, tcp.packets(own, rows.nbytes), loss, draws[1])
        idle, part = tcp.stalls(own, size, rows.trip, fast), size.copy()
        slow, late = fast.copy(), np.zeros(len(size))
        if len(hit := np.flatnonzero(np.isfinite(packet) & (rows.trip > 0))):
            found = window.losses(own, size[hit], rows.trip[hit], fast[hit], loss[hit], packet[hit], idle[hit])
            idle[hit], part[hit], late[hit] = found.idle, np.minimum(found.until, size[hit]), found.late
            cut = hit[part[hit] < size[hit]]
            rest = window.Losses(*(column[part[hit] < size[hit]] for column in found))
            left = size[cut] - part[cut]
            slow[cut] = window.limits(own, rows.trip[cut], loss[cut], fast[cut], rest.window, left, rest.gap)
        idle += tcp.pacing(own, tcp.packets(own, rows.nbytes), rows.trip, fast)
        if rows.terms.first < math.inf:
            idle += flow_control.stalls(own, rows.terms, size, rows.trip, fast)
        return Lone(before + idle, size, part, fast, slow, late)


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

    def start(
        self,
        transfer: Transfer,
        size: float,
        rate: float,
        ceiling: float,
        full: Sequence[link_state.SharedState],
        overflows: Draws,
    ) -> Start:
        """Return a start without idle time."""
        return Start(0.0, size, rate)

    def limit(self, transfer: Transfer, left: float, rate: float, start: Start) -> float:
        """Return the rate: there are no losses."""
        return rate

    def after(self, transfer: Transfer, size: float, start: Start) -> Window:
        """Return infinity: there are no windows."""
        return Window(math.inf)

    def idled(self, window: Window, timeouts: int) -> Window:
        """Return it as it is."""
        return window

    def credit(self, nbytes: float, rate: float, links: Sequence[LinkState]) -> float:
        """Return 0."""
        return 0.0

    def weight(self, transfer: Transfer) -> float:
        """Return 1."""
        return 1.0

    def ceiling(self, transfer: Transfer, access: Access, limit: float) -> float:
        """Return the full rate of the slower link, whatever else is on it."""
        return min(access.rate, access.server)

    def timeout(self, transfer: Transfer, rounds: float) -> float:
        """Return infinity: there are no windows."""
        return math.inf

    def closing(self, transfer: Transfer) -> float:
        """Return the latency of one way."""
        return transfer.quiet_trip / 2

    def lone(self, rows: Rows, draws: Floats, upload: bool, reused: bool = False) -> Lone:
        """Return sizes and rates, and no time before."""
        size, fast = rows.nbytes.astype(np.float64), np.minimum(rows.rate, rows.server)
        return Lone(np.zeros(len(size)), size, size, fast, fast, np.zeros(len(size)))


MODELS: dict[str, Callable[[TransferModel], Model]] = {"fluid": Fluid, "naive": lambda constants: Naive()}


def model_named(name: str, constants: TransferModel) -> Model:
    """Return the model of this name in scenarios; ValueError if there is none."""
    if name not in MODELS:
        raise ValueError(f"network.model: there is no '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name](constants)

"""Fluid: TCP on links that flows share like a fluid, and the models by the names that they have in scenarios."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fedsim.core.arrays import Floats
from fedsim.net.draws import Draws
from fedsim.net.links import link_meter
from fedsim.net.links.link_meter import RATE_TOLERANCE, LinkMeter
from fedsim.net.model import Access, Messages, NetworkModel, Uncontended
from fedsim.net.tcp import bbr_start, congestion_avoidance, flow_control, window_reuse
from fedsim.net.tcp import laws as tcp
from fedsim.net.tcp.congestion_avoidance import Start
from fedsim.net.tcp.laws import TransferModel
from fedsim.net.tcp.window_reuse import CongestionWindow
from fedsim.net.transfer import Transfer


@dataclass(frozen=True)
class Fluid(NetworkModel):
    """Max–min shares of the server's link, with TCP's start, headers and losses (`tcp.py`).

    If others keep a link full, each packet waits Q in its buffer.  That lengthens the handshake and the
    rounds of slow start, and a short flow's last bytes wait Q once more: a few packets behind a bulk flow
    take 2 RTT + 2 Q + W/r.  The half round trips of a request and of a reply go the other way, without Q;
    with Q in them too, 10 kB behind a bulk flow of Cubic at 10 Mbit/s and 20 ms would take 311 ms, while
    Linux takes 222 ms.
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
        request = 0.0 if transfer.upload or (transfer.pushed and transfer.reused) else transfer.base_rtt / 2
        if transfer.reused:
            return request
        wait = 0.0
        if transfer.loss_up or transfer.loss_down:
            lost = 1 - (1 - transfer.loss_up) * (1 - transfer.loss_down)
            wait = tcp.syn_wait(self.constants, lost, transfer.handshake_draw)
        rtts = 1 + self.constants.tls_rtts + transfer.terms.rtts
        return transfer.rtt * rtts + request + wait

    def queue(self, transfer: Transfer, links: Sequence[LinkMeter], now: float) -> float:
        """Return the standing queues of the route."""
        return link_meter.standing_queue(self.constants, links, transfer.propagation, now)

    def start(
        self, transfer: Transfer, size: float, rate: float, ceiling: float, links: Sequence[LinkMeter], overflows: Draws
    ) -> Start:
        """Return the idle time of slow start and the first loss, drawn or of a full queue.

        The transport's flow control may add to the first.
        """
        constants, loss, rtt, packet = self.constants, transfer.loss, transfer.rtt, math.inf
        if loss and rtt:
            packet = tcp.first_loss(constants, tcp.packets(constants, transfer.nbytes), loss, transfer.loss_draw)
        begun, short, window = None, rate < ceiling * (1 - RATE_TOLERANCE), transfer.window
        if short and constants.congestion_control != "bbr" and not constants.rtt_bias:
            top = link_meter.overflow(rate, ceiling, transfer.base_rtt, links) / constants.mtu
            if top < math.inf:
                top *= self._kept(transfer, overflows)
            allowed, begin = ceiling * transfer.base_rtt, self._begin(transfer)
            begun = window_reuse.overflown(constants, size, rtt, rate, allowed, loss, packet, begin, top)
        begun = begun or self._begun(transfer, size, rate, packet)
        if window and window.rate and (short or any(link.full_since < math.inf for link in links)):
            begun = begun._replace(limit=min(begun.limit, rate * self._kept(transfer, overflows)))
        if transfer.terms.first == math.inf:
            return begun
        more = flow_control.stall(constants, transfer.terms, size, rtt, rate, window)
        return begun._replace(idle=begun.idle + more)

    def _begun(self, transfer: Transfer, size: float, rate: float, packet: float) -> Start:
        """Return how a flow starts whose queues do not overflow, and that loses this packet (infinity: none)."""
        constants, loss, rtt = self.constants, transfer.loss, transfer.rtt
        if transfer.window is not None:
            return window_reuse.start(constants, size, rtt, rate, loss, packet, transfer.window)
        if packet < math.inf:
            return congestion_avoidance.lossy_start(constants, size, rtt, rate, loss, packet)
        begun = Start(*tcp.slow_start(constants, size, rtt, rate), rate)
        if constants.congestion_control != "bbr" or not transfer.queue or rate <= 0:
            return begun
        count, trip = tcp.full_packets(constants, size), rtt + transfer.queue  # behind its own packets, too
        idle = bbr_start.beside(constants.initial_window, count, trip, constants.mtu / rate)
        return begun._replace(idle=max(begun.idle, idle))

    def _kept(self, transfer: Transfer, overflows: Draws) -> float:
        """Return how much of its share a flow keeps when a queue overflows: a number drawn about 1."""
        if self.constants.deterministic:
            return 1.0
        return tcp.LEAST_OVERFLOW_SHARE + overflows.next(transfer.ends)

    def limit(self, transfer: Transfer, left: float, rate: float, start: Start) -> float:
        """Return what the window allows on average from the loss on, and after a full queue once that is empty."""
        return congestion_avoidance.limit(self.constants, *self._after_loss(transfer, start), rate, start, left)

    def _after_loss(self, transfer: Transfer, start: Start) -> tuple[float, float]:
        if start.overflown:
            return transfer.base_rtt, max(transfer.loss, congestion_avoidance.SELDOM)
        return transfer.rtt, transfer.loss

    def after(self, transfer: Transfer, size: float, start: Start) -> CongestionWindow:
        """Return the sender's window after the transfer."""
        rtt, loss = self._after_loss(transfer, start)
        return window_reuse.after(self.constants, size, rtt, loss, start, self._begin(transfer))

    def _begin(self, transfer: Transfer) -> CongestionWindow:
        return transfer.window or CongestionWindow(self.constants.initial_window)

    def idled(self, window: CongestionWindow, timeouts: int) -> CongestionWindow:
        """Return the window, halved for each."""
        return window_reuse.idled(self.constants, window, timeouts)

    def credit(self, nbytes: float, rate: float, links: Sequence[LinkMeter]) -> float:
        """Return what the token buckets of idle links let pass."""
        return link_meter.credit(nbytes, rate, links)

    def weight(self, transfer: Transfer) -> float:
        """Return 1, or less for long round trips if the model has such a bias."""
        return tcp.weight(self.constants, transfer.rtt)

    def ceiling(self, transfer: Transfer, access: Access, limit: float) -> float:
        """Return the client's share of its own link, or what acknowledgements, the window and the transport allow."""
        rate, acks = access.rate / access.flows, tcp.ack_ceiling(self.constants, access.reverse)
        if acks < rate:
            rate = acks
        if transfer.terms.window < math.inf and (rtt := transfer.base_rtt):
            rate = min(rate, flow_control.ceiling(self.constants, transfer.terms, rtt))
        return rate if rate <= limit else limit

    def timeout(self, transfer: Transfer, round_trips: float) -> float:
        """Return TCP's retransmission time-out; infinity for BBR, which keeps its window."""
        if self.constants.congestion_control == "bbr":
            return math.inf
        return tcp.timeout(self.constants, transfer.base_rtt, round_trips)

    def closing(self, transfer: Transfer) -> float:
        """Return half a round trip; the last bytes of a short flow first wait in the standing queue."""
        if not transfer.queue:
            return transfer.base_rtt / 2
        count = tcp.packets(self.constants, transfer.nbytes)
        waits = 0 < count <= self.constants.short_packets
        return transfer.base_rtt / 2 + (transfer.queue if waits else 0.0)

    def uncontended(self, messages: Messages, draws: Floats, upload: bool, reused: bool = False) -> Uncontended:
        """Return the effects of handshakes, slow start and losses."""
        constants, terms, rtt = self.constants, messages.terms, messages.rtt
        loss, count = messages.loss_up if upload else messages.loss_down, tcp.packets(constants, messages.nbytes)
        size = tcp.wire_size(constants, messages.nbytes, loss)
        before = np.zeros(len(size)) if reused else rtt * (1 + constants.tls_rtts + terms.rtts)
        before = before + (0.0 if upload else rtt / 2)
        if not reused:
            lost = 1 - (1 - messages.loss_up) * (1 - messages.loss_down)
            if lost.any():
                before += [tcp.syn_wait(constants, *row) for row in zip(lost.tolist(), draws[0].tolist(), strict=True)]
        rate = np.minimum(messages.rate, tcp.ack_ceiling(constants, messages.reverse))
        if terms.window < math.inf:
            with np.errstate(divide="ignore", over="ignore"):  # next to no round trip limits nothing
                rate = np.minimum(rate, flow_control.ceiling(constants, terms, rtt))
        idle, part, slow, late = tcp.stalls(constants, size, rtt, rate), size.copy(), rate.copy(), np.zeros(len(size))
        if loss.any():
            rows = zip(count.tolist(), loss.tolist(), draws[1].tolist(), strict=True)
            packet = np.array([tcp.first_loss(constants, *row) for row in rows])
            hit = np.flatnonzero(np.isfinite(packet) & (rtt > 0))
            lossy = size[hit], rtt[hit], rate[hit], loss[hit]
            begun = congestion_avoidance.losses(constants, *lossy, packet[hit], idle[hit])
            idle[hit], until, window, gap, late[hit] = begun
            part[hit] = np.minimum(until, size[hit])
            is_cut = part[hit] < size[hit]
            cut, window, gap = hit[is_cut], window[is_cut], gap[is_cut]
            left = size[cut] - part[cut]
            slow[cut] = congestion_avoidance.limits(constants, rtt[cut], loss[cut], rate[cut], window, left, gap)
        if terms.first < math.inf:
            idle += flow_control.stalls(constants, terms, size, rtt, rate)
        return Uncontended(before + idle, size, part, rate, slow, late)


def model_named(name: Literal["fluid", "naive"], constants: TransferModel) -> NetworkModel:
    """Return the model of this name in scenarios."""
    return Fluid(constants) if name == "fluid" else NetworkModel()

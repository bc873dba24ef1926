"""Model: how long the parts of a transfer take, and how much of a link it may use.

`NetworkModel` by itself is latency plus size over bandwidth, for comparison: no link is shared, and there are
no headers of TCP, handshakes, slow starts, flow control or losses; aborts and changes of rate still apply.
`Fluid` (`fluid.py`) is TCP on a shared fluid link.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedsim.core.arrays import Floats, Ints
from fedsim.net.draws import Draws
from fedsim.net.links.link_meter import LinkMeter
from fedsim.net.tcp.congestion_avoidance import Start
from fedsim.net.tcp.flow_control import PLAIN, Terms
from fedsim.net.tcp.window_reuse import CongestionWindow
from fedsim.net.transfer import Transfer


class Access(NamedTuple):
    """The links of a client's flow in bytes/s: its own, the reverse one, the server's; `flows` share its own."""

    rate: float
    reverse: float
    server: float
    flows: int


class Messages(NamedTuple):
    """K messages that share no full link, each a row (K,): bytes, base round trip in seconds, bytes/s, losses.

    `server` is the rate of the slowest link that they share, in bytes/s, `terms` those of their transport.
    """

    nbytes: Ints
    rtt: Floats
    rate: Floats
    reverse: Floats
    server: float
    loss_up: Floats
    loss_down: Floats
    terms: Terms = PLAIN


class Uncontended(NamedTuple):
    """How such messages proceed, each a row (K,).

    `size` wire bytes start `before` seconds after the sending at the rate `fast` (bytes/s).  After the first
    `part` bytes a loss is noticed, if there is one, and the rest is sent at the rate `slow`.  The message
    arrives `late` seconds after what its last byte takes.
    """

    before: Floats
    size: Floats
    part: Floats
    fast: Floats
    slow: Floats
    late: Floats


@dataclass(frozen=True)
class NetworkModel:
    """The parts of a transfer: opening, stall, bytes on the link before and after a loss is noticed, closing.

    By itself it is the model `naive`: latency (with its mean jitter) plus size over the slower of the two
    access rates.
    """

    def capacity(self, server: float) -> float:
        """Return the capacity of a shared link whose own rate is `server` bytes/s; infinity: none is shared."""
        return math.inf

    def size(self, transfer: Transfer) -> float:
        """Return the transfer's wire bytes."""
        return transfer.nbytes

    def opening(self, transfer: Transfer) -> float:
        """Return the seconds from the sending to the first byte of data."""
        return 0.0

    def queue(self, transfer: Transfer, links: Sequence[LinkMeter], now: float) -> float:
        """Return the seconds that packets now wait on links of the route that others keep full."""
        return 0.0

    def start(
        self, transfer: Transfer, size: float, rate: float, ceiling: float, links: Sequence[LinkMeter], overflows: Draws
    ) -> Start:
        """Return how a flow of `size` wire bytes starts that gets this `rate` (bytes/s) of the `ceiling` it could use.

        `links` are those that it shares with others, `overflows` draws what their full queues do to it.
        """
        return Start(0.0, size, rate)

    def limit(self, transfer: Transfer, left: float, rate: float, start: Start) -> float:
        """Return the mean rate (bytes/s) of the `left` bytes of a flow that has noticed its loss.

        Without the loss it could send at `rate` bytes/s.
        """
        return rate

    def after(self, transfer: Transfer, size: float, start: Start) -> CongestionWindow:
        """Return the sender's window after a transfer of `size` wire bytes that started so."""
        return CongestionWindow(math.inf)

    def idled(self, window: CongestionWindow, timeouts: int) -> CongestionWindow:
        """Return a sender's window after an idle time of so many whole time-outs."""
        return window

    def credit(self, nbytes: float, rate: float, links: Sequence[LinkMeter]) -> float:
        """Return how many bytes of a flow that then gets `rate` bytes/s take no time."""
        return 0.0

    def weight(self, transfer: Transfer) -> float:
        """Return the flow's weight when it shares a link; usually 1."""
        return 1.0

    def ceiling(self, transfer: Transfer, access: Access, limit: float) -> float:
        """Return the highest rate (bytes/s, finite) that the flow can have whose window allows `limit` bytes/s."""
        return min(access.rate, access.server)

    def timeout(self, transfer: Transfer, round_trips: float) -> float:
        """Return the seconds without data after which a sender's window shrinks; infinity: it does not.

        Before, it has sent data for so many round trips.
        """
        return math.inf

    def closing(self, transfer: Transfer) -> float:
        """Return the seconds from the last byte on the link to the arrival."""
        return transfer.base_rtt / 2

    def uncontended(self, messages: Messages, draws: Floats, upload: bool, reused: bool = False) -> Uncontended:
        """Return the same for many messages that share no full link, whose closing is half a round trip.

        With `reused` their connections are open already, and nothing was sent that way on them.  `draws` (2,
        K) are each transfer's numbers in [0, 1) for lost handshakes and for the first loss.
        """
        size, rate = messages.nbytes.astype(np.float64), np.minimum(messages.rate, messages.server)
        return Uncontended(np.zeros(len(size)), size, size, rate, rate, np.zeros(len(size)))

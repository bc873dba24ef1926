"""Model: how long the parts of a transfer take, and what share of a link it may have.

`Fluid` is TCP on a shared fluid link.  `Naive` is latency plus size over bandwidth, for comparison: nobody shares
anything, there are no headers, handshakes, slow starts and losses; only aborts and changes of rate still count.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from fedsim.net import tcp
from fedsim.net.tcp import TransferModel
from fedsim.net.transfer import Transfer


@dataclass(frozen=True)
class Access:
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
    def stall(self, transfer: Transfer, rate: float) -> float:
        """Return the further seconds in which a flow that would get `rate` bytes/s cannot use it."""

    @abstractmethod
    def until_pause(self, transfer: Transfer) -> float:
        """Return after how many wire bytes the flow pauses for a round trip; infinity: never."""

    @abstractmethod
    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the highest rate (bytes/s, finite) that the flow can have now; `paused` tells whether it has been."""

    @abstractmethod
    def closing(self, transfer: Transfer) -> float:
        """Return the seconds from the last byte on the link to the arrival."""


@dataclass(frozen=True)
class Fluid(Model):
    """Max–min shares of the server's link, with TCP's start, headers and losses (`tcp.py`)."""

    constants: TransferModel = field(default_factory=TransferModel)

    def capacity(self, server: float) -> float:
        """Return the server's own."""
        return server

    def size(self, transfer: Transfer) -> float:
        """Return payload, headers and repeats."""
        return tcp.wire_size(self.constants, transfer.nbytes, transfer.loss)

    def opening(self, transfer: Transfer) -> float:
        """Return the handshake; a download's request takes another half round trip."""
        lost = 1 - (1 - transfer.loss_up) * (1 - transfer.loss_down)
        wait = tcp.syn_wait(self.constants, lost, transfer.handshake_draw)
        return transfer.trip * (1 + self.constants.tls_rtts + (0.0 if transfer.upload else 0.5)) + wait

    def stall(self, transfer: Transfer, rate: float) -> float:
        """Return what slow start leaves idle."""
        return tcp.stall(self.constants, self.size(transfer), transfer.trip, rate)

    def until_pause(self, transfer: Transfer) -> float:
        """Return the bytes until the first loss, from which the sender recovers for a round trip."""
        count = tcp.packets(self.constants, transfer.nbytes)
        return tcp.first_loss(self.constants, count, transfer.loss, transfer.loss_draw) * self.constants.mtu

    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the client's share of its own link, or what acknowledgements and losses allow."""
        acks = tcp.ack_ceiling(self.constants, access.reverse)
        losses = tcp.loss_ceiling(self.constants, transfer.trip, transfer.loss) if paused else math.inf
        return min(access.rate / access.flows, acks, losses)

    def closing(self, transfer: Transfer) -> float:
        """Return half a round trip."""
        return transfer.trip / 2


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

    def stall(self, transfer: Transfer, rate: float) -> float:
        """Return 0."""
        return 0.0

    def until_pause(self, transfer: Transfer) -> float:
        """Return infinity."""
        return math.inf

    def ceiling(self, transfer: Transfer, access: Access, paused: bool) -> float:
        """Return the whole rate of the slower link, whoever else is on it."""
        return min(access.rate, access.server)

    def closing(self, transfer: Transfer) -> float:
        """Return the latency of one way."""
        return transfer.trip / 2


MODELS: dict[str, Callable[[TransferModel], Model]] = {"fluid": Fluid, "naive": lambda constants: Naive()}


def model_named(name: str, constants: TransferModel) -> Model:
    """Return the model that a scenario calls by this name; ValueError where there is none."""
    if name not in MODELS:
        raise ValueError(f"network.model: there is no '{name}'; there are {', '.join(MODELS)}")
    return MODELS[name](constants)

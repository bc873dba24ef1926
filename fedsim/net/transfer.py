"""Transfer: one message's passage as numbers, and the delivery that its sender holds in hand.

The numbers are what effects may change before it starts; how the passage goes on is in `passage.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import simpy

from fedsim.net.message import Message


@dataclass(slots=True, eq=False)
class Transfer:
    """`nbytes` from `src` to `dst`; losses are those of a packet.

    `client` is the one at the end that is a client: the sender between two peers, and the edge aggregator's node where
    no end is a client.
    """

    src: int
    dst: int
    client: int
    upload: bool  # from `client` on
    nbytes: int
    start: float  # seconds
    rtt: float  # seconds there and back
    jitter: float = 0.0  # longest extra delay of a packet, each way
    loss_up: float = 0.0  # of what `client` sends
    loss_down: float = 0.0  # of what it receives
    handshake_draw: float = 0.0  # in [0, 1): how many handshakes are lost
    loss_draw: float = 0.0  # in [0, 1): when the first packet is lost
    queue: float = 0.0  # seconds that packets wait where others keep a link full; the network sets it as it goes
    reused: bool = False  # goes over a connection that is open already
    warm: bool = False  # and whose window is still open

    @property
    def quiet_trip(self) -> float:
        """Seconds of a round trip where nobody else is on the way, with the mean jitter of both directions."""
        return self.rtt + self.jitter

    @property
    def trip(self) -> float:
        """Seconds of a round trip, with mean jitter and standing queue."""
        return self.rtt + self.jitter + self.queue

    @property
    def loss(self) -> float:
        """Probability that a packet of data is lost."""
        return self.loss_up if self.upload else self.loss_down


class Lost(Exception):  # noqa: N818 - it tells a fate, not a mistake
    """A message that did not arrive; `moved` tells the wire bytes that had gone for it."""

    def __init__(self, message: Message, moved: int) -> None:
        """Tell which message it was and how many bytes moved in vain."""
        super().__init__(message, moved)  # SimPy makes the exception anew from its arguments
        self.message = message
        self.moved = moved

    def __str__(self) -> str:
        """Say it in a sentence."""
        ends = f"from {self.message.src} to {self.message.dst}"
        return f"'{self.message.kind}' {ends} was lost after {self.moved} bytes"


class Delivery(simpy.Event):
    """Succeeds with the message when it arrives, fails with Lost when it is cut; nobody has to wait for it.

    Its `fate` is what its row says if it arrives: set it to "late" where nobody waits any more, to "discarded" where
    it will not be taken.
    """

    def __init__(self, env: simpy.Environment) -> None:
        """Stand for a message under way; the network sets what is to happen `on_abort`."""
        super().__init__(env)
        self.fate = "delivered"
        self.on_abort: Callable[[], None] = _nothing

    def abort(self) -> None:
        """Cut the message here; nothing happens if it has ended."""
        self.on_abort()


def _nothing() -> None:
    """Be what an abort does to a message that has never set out."""

"""Transfer: the numbers of one message's passage, and the delivery that its sender waits for.

Effects may change `propagation`, `jitter` and losses before the transfer starts; `channel.py` models what
happens then.
"""

from collections.abc import Callable
from dataclasses import dataclass

import simpy

from fedsim.net.message import Message
from fedsim.net.tcp.flow_control import PLAIN, Terms
from fedsim.net.tcp.window_reuse import CongestionWindow


@dataclass(slots=True, eq=False)
class Transfer:
    """`nbytes` from `src` to `dst`, those of the transport included; losses are per packet.

    `client` is the end that is a client: the sender between two peers, and the edge aggregator's node if
    neither end is a client.
    """

    src: int
    dst: int
    client: int
    upload: bool  # sent by `client`
    nbytes: int
    start: float  # seconds
    propagation: float  # seconds there and back, without jitter and queues
    jitter: float = 0.0  # longest extra delay of a packet, each way
    loss_up: float = 0.0  # of what `client` sends
    loss_down: float = 0.0  # of what it receives
    handshake_draw: float = 0.0  # in [0, 1): how many handshakes are lost
    loss_draw: float = 0.0  # in [0, 1): when the first packet is lost
    queue: float = 0.0  # seconds that packets wait on links that others keep full; updated by the network
    reused: bool = False  # uses a connection that is already open
    window: CongestionWindow | None = None  # in which its sender starts; None: as on a new connection
    pushed: bool = False  # needs no request, if it is a download on an open connection
    send_delay: float = 0.0  # seconds before its connection opens
    receive_delay: float = 0.0  # seconds from its last byte to its arrival
    terms: Terms = PLAIN  # of its transport

    @property
    def ends(self) -> tuple[int, int]:
        """Its sender and its receiver."""
        return self.src, self.dst

    @property
    def base_rtt(self) -> float:
        """Seconds of a round trip without a queue, with the mean jitter of both directions."""
        return self.propagation + self.jitter

    @property
    def rtt(self) -> float:
        """Seconds of a round trip, with mean jitter and standing queue."""
        return self.propagation + self.jitter + self.queue

    @property
    def loss(self) -> float:
        """Probability that a packet of data is lost."""
        return self.loss_up if self.upload else self.loss_down


class Lost(Exception):  # noqa: N818 - a message's fate, not an error
    """A message that did not arrive; `moved` is how many of its wire bytes had been sent."""

    def __init__(self, message: Message, moved: int) -> None:
        """Take the message and the wire bytes that moved in vain."""
        super().__init__(message, moved)  # SimPy copies the exception from its arguments
        self.message = message
        self.moved = moved

    def __str__(self) -> str:
        """Return a sentence for people."""
        ends = f"from {self.message.src} to {self.message.dst}"
        return f"'{self.message.kind}' {ends} was lost after {self.moved} bytes"


class Delivery(simpy.Event):
    """Succeeds with the message when it arrives, fails with Lost when it is cut; nobody has to wait for it.

    `fate` is what its row records if it arrives: set it to "late" if nobody waits for it any more, to
    "discarded" if it will not be used.  Once it has succeeded, `reopen` frees its connection for the reply,
    where that uses it.
    """

    def __init__(self, env: simpy.Environment) -> None:
        """Represent a message under way."""
        super().__init__(env)
        self.fate = "delivered"
        self.reopen: Callable[[], None] = _nothing


def _nothing() -> None:
    """Do nothing: no connection is kept for the reply."""

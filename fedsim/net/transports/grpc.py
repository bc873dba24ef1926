"""gRPC: frameworks that keep a channel between each client and the server, and carry each message in one unary call.

On the wire a message has 5 bytes before it, 9 bytes before each HTTP/2 frame of it (RFC 9113), and the
headers, trailers and window updates that go its way.  A new channel takes a round trip more than its TCP
connection, since its client waits for the server's SETTINGS.  Each end takes time to write or read a message
and to hand it over.  All defaults but that of `frame` were measured with gRPC 1.85 of Python and a message of
one bytes field.

By default the receiver's estimator of the bandwidth-delay product is on, as in gRPC: its window begins at 4
MiB, grows with what arrives, and limits nobody (measured up to a product of 6 MB).  A `window` is that of a
receiver without the estimator (64 KiB in gRPC).  For a unary call gRPC then makes room for the rest of the
`message`, up to 1 MiB more than the window at a time, as soon as it sees its beginning; a stream of pieces,
or another library, renews the window as its `bytes` are read.

Not modelled: that a channel shares one window among its calls; bytes of a new channel's SETTINGS (about 300);
larger frames, on which the ends of newer versions agree; limits on calls at the same time, and messages that
the client's program takes in pieces; keep-alive pings; TLS of its own (`network.tls_rtts`).
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt

from fedsim.core.units import Bytes, Seconds
from fedsim.net.tcp.flow_control import Terms
from fedsim.net.topology import Topology
from fedsim.net.transport import Transport

PREFIX, HEADER = 5, 9  # bytes before a message, and before a frame
MEGABYTE = 1e6
AHEAD = 2**20  # bytes beyond a window for which gRPC makes room at most (kMaxWindowDelta in its core)


@dataclass(frozen=True)
class Grpc(Transport):
    """What gRPC adds; half of all seconds are spent at either end."""

    call: Seconds = 1e-3  # of handing a message over
    per_megabyte: Seconds = 2e-3  # of writing and reading one
    overhead: Bytes = 100  # of headers, trailers and window updates that go with a message
    frame: Annotated[Bytes, Field(ge=16_384, le=16_777_215)] = 16384  # of data at most, within what HTTP/2 allows
    window: Annotated[Bytes, Field(ge=1)] | None = None  # of a receiver without the estimator
    renewed: Literal["message", "bytes"] = "message"  # for what the receiver makes room
    settings_rtts: NonNegativeInt = 1  # of a new channel, before its first call
    poll: Seconds = 0.0  # between two polls of a client for work; 0: it learns of it at once

    def __post_init__(self) -> None:
        """Raise ValueError if it is said how a window is renewed that has no fixed size."""
        if self.window is None and self.renewed != "message":
            raise ValueError("renewed: is about a window of a fixed size: give a window, such as 64 KiB")

    def before(self, upload: bool) -> float:
        """Return the sender's half of a call."""
        return self.call / 2

    def after(self, upload: bool) -> float:
        """Return the receiver's half."""
        return self.call / 2

    def handling(self) -> float:
        """Return the seconds of writing a byte, and of reading it."""
        return self.per_megabyte / MEGABYTE / 2

    def carried(self, nbytes: Any, upload: bool) -> Any:
        """Return the message with its prefix, frames and overhead."""
        frames = -(-(nbytes + PREFIX) // self.frame)
        return nbytes + PREFIX + HEADER * frames + self.overhead

    def terms(self) -> Terms:
        """Return the round trips of a new channel, and what the window allows, with the frames' headers."""
        if self.window is None:
            return Terms(self.settings_rtts)
        share = 1 + HEADER / self.frame
        if self.renewed == "bytes":
            return Terms(self.settings_rtts, window=self.window * share)
        return Terms(self.settings_rtts, self.window * share, (self.window + AHEAD) * share)

    def refuse(self, topology: Topology, asks: bool) -> str | None:
        """Return why not: there is no server to have a channel with, or nothing that a client could poll for."""
        if topology.has_peers:
            return "has a channel between each client and a server: take the topology 'star' or 'tree', or 'tcp'"
        if self.poll and not asks:
            return "polls for what clients are asked, and the protocol asks none: leave out poll"
        return None

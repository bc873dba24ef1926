"""Flower's SuperLink and SuperNodes: clients poll for work, and a process of its own does each piece of it.

In one exchange the server leaves its message with the SuperLink; the client's SuperNode fetches it at its
next poll, starts a ClientApp for it, takes over the reply and sends it; the ServerApp finds the reply at one
of its own polls. The defaults were measured with Flower 1.41, `start` in deployed runs of fedsim: a process
that imports torch takes 2.7 s of a core, and three to five that start at the same time on two cores take 6 to
7 s.  A deployed run tells its own; clients that import no torch took 1.6 s.  The links are TCP's.  Flower's
own requests took 8 kB down and 21 kB up a round and client beside a model of 307 kB, headers of packets
included: `own_down` and `own_up` put such bytes on the wire, none by default.

A message meets its client at any moment between two polls alike: it waits uniformly between 0 and `poll`,
drawn from the run's seed for each client and message.  In a round that waits for all, the client counts for
which wait and links together take longest.

Not modelled: that a SuperNode's polls start over when it has sent a reply, so that waits of one client depend
on each other; delays that grow with round trips or sizes; bytes of polls without work; messages that wait for
a client that is offline (they are lost); TLS of its own (`network.tls_rtts`).
"""

from dataclasses import dataclass
from typing import Any

from fedsim.core.units import Bytes, Seconds
from fedsim.net.topology import Topology
from fedsim.net.transport import Transport


@dataclass(frozen=True)
class FlowerSupernodes(Transport):
    """Seconds and bytes that one exchange takes beside the links; an option of 0 leaves its part out."""

    poll: Seconds = 3.0  # between two polls of a client for work
    start: Seconds = 6.0  # until the client's process has its task and runs
    reply: Seconds = 0.3  # until the reply is handed over to be sent
    collect: Seconds = 1.1  # until the server's program has found the reply
    objects: Seconds = 0.8  # requests for the several objects of a model, half of them each way
    own_down: Bytes = 0  # that go with a download, beside it
    own_up: Bytes = 0  # that go with an upload

    def before(self, upload: bool) -> float:
        """Return the hand-over of a reply, and the requests for the objects of either direction."""
        return (self.reply if upload else 0.0) + self.objects / 2

    def after(self, upload: bool) -> float:
        """Return the time until the server's program sees a reply, or a client's process its task."""
        return self.collect if upload else self.start

    def carried(self, nbytes: Any, upload: bool) -> Any:
        """Return the message and Flower's own bytes."""
        return nbytes + (self.own_up if upload else self.own_down)

    def refuse(self, topology: Topology, asks: bool) -> str | None:
        """Return why not: every client has a SuperNode that talks with the one server, which asks it for work."""
        if topology.has_edges or topology.has_peers:
            return "has one server that all clients talk with: take the topology 'star', or the transport 'tcp'"
        if not asks:
            return "carries what clients are asked and reply, and the protocol asks none: take the transport 'tcp'"
        return None

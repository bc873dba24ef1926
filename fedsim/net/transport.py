"""The contract of a transport: the program that carries messages between the server and its clients.

Links and TCP say how long bytes take.  A transport says what its program adds to that:

- seconds in which a message is on no link, because it waits to be fetched, or has arrived and is not handed over yet.
  They belong to the message: it is under way meanwhile, its row shows them between `sent` and `arrived`, and it is lost
  if its client goes offline in them;
- bytes that it sends along with a message: they are on the wire, not in the message;
- terms on which its connections carry data (`flow_control.Terms`): round trips of its own, and its flow control.

An implementation is a frozen dataclass of options without state, one file in `transports/`.  Not modelled:
messages of a transport's own between those of a run, and work that it takes from the processors of either
end.
"""

from typing import Any, ClassVar, TypeVar

import numpy as np

from fedsim.core.arrays import Floats, Ints
from fedsim.core.record import SERVER
from fedsim.core.seeds import Rng
from fedsim.net.draws import Draws
from fedsim.net.tcp.flow_control import Terms
from fedsim.net.topology import Topology
from fedsim.net.transfer import Transfer

Size = TypeVar("Size", int, Ints)  # of one message, or of many


class Transport:
    """What a program adds to the times and bytes of messages."""

    plain: ClassVar[bool] = False  # True if it adds nothing
    poll = 0.0  # seconds between two polls of a client, for the next of which a download waits; 0: it does not

    def before(self, upload: bool) -> float:
        """Return the further seconds between a message's sending and the opening of its connection."""
        return 0.0

    def after(self, upload: bool) -> float:
        """Return the seconds between a message's last byte and its arrival at what works with it."""
        return 0.0

    def handling(self) -> float:
        """Return the seconds a byte of a message that come to those before, and again to those after."""
        return 0.0

    def carried(self, nbytes: Size, upload: bool) -> Size:
        """Return the bytes that a connection carries for messages of so many, at least as many."""
        return nbytes

    def terms(self) -> Terms:
        """Return the terms on which its connections carry data."""
        return Terms()

    def refuse(self, topology: Topology, asks: bool) -> str | None:
        """Return why the topology, or a protocol that `asks` clients or does not, does not fit; None if both do."""
        return None


class Carrier:
    """What a transport adds to the messages of one network.

    At which moment between two polls a download meets its client depends only on the client, and on how many
    downloads it was sent before.
    """

    def __init__(self, transport: Transport, rng: Rng) -> None:
        """Draw from the stream `transport`, unless clients do not poll."""
        self._poll, self._handling, self.terms = transport.poll, transport.handling(), transport.terms()
        self._draws = Draws(int(rng("transport").integers(2**62)) if self._poll else 0)
        self.transport = transport

    def take(self, transfer: Transfer) -> None:
        """Set the seconds, bytes and terms of one message, whose client is sent or sends it next."""
        upload, nbytes = transfer.upload, transfer.nbytes
        transfer.send_delay = self.transport.before(upload) + self._handling * nbytes
        transfer.receive_delay = self.receive_delay(nbytes, upload)
        transfer.nbytes, transfer.terms = self.transport.carried(nbytes, upload), self.terms
        if self._poll and not upload:
            ends = SERVER, transfer.client
            transfer.send_delay += self._poll * self._draws.of(ends, self._draws.number(ends))[0]

    def send_delays(self, clients: Ints, nbytes: Ints, upload: bool) -> Floats:
        """Return the seconds (n,) for which the next message of each client is held before its connection opens."""
        seconds = np.asarray(self.transport.before(upload) + self._handling * nbytes, dtype=np.float64)
        if self._poll and not upload:
            pairs = [(SERVER, client) for client in clients.tolist()]
            seconds += self._poll * self._draws.many(pairs)[0]
            self._draws.count(pairs)
        return seconds

    def receive_delay(self, nbytes: Any, upload: bool) -> Any:
        """Return the seconds from the last byte to the arrival, of one message or of many."""
        return self.transport.after(upload) + self._handling * nbytes

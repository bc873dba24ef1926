"""The contract of a transport: the program that carries messages between the server and its clients.

Links and TCP say how long bytes take.  A transport says what its program adds to that:

- seconds in which a message is on no link, because it waits to be fetched, or has arrived and is not handed over yet.
  They belong to the message: it is under way meanwhile, its row shows them between `sent` and `arrived`, and it is lost
  if its client goes offline in them;
- bytes that it sends along with a message: they are on the wire, not in the message;
- terms on which its connections carry data (`transfer.Terms`): round trips of its own, and its flow control.

An implementation is a frozen dataclass of options without state, one file in `transports/`.  Not modelled: messages of
a transport's own between those of a run, and work that it takes from the processors of either end.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, overload

import numpy as np
import numpy.typing as npt

from fedsim.core.record import SERVER
from fedsim.net.draws import Draws
from fedsim.net.topology import Topology
from fedsim.net.transfer import Terms, Transfer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Transport(ABC):
    """What a program adds to the times and bytes of messages."""

    plain: ClassVar[bool] = False  # True if it adds nothing

    @abstractmethod
    def polling(self) -> float:
        """Return the seconds between two polls of a client, for the next of which a download waits; 0: it does not."""

    @abstractmethod
    def before(self, upload: bool) -> float:
        """Return the further seconds between a message's sending and the opening of its connection."""

    @abstractmethod
    def after(self, upload: bool) -> float:
        """Return the seconds between a message's last byte and its arrival at what works with it."""

    def handling(self) -> float:
        """Return the seconds a byte of a message that come to those before, and again to those after."""
        return 0.0

    @overload
    def carried(self, nbytes: int, upload: bool) -> int: ...
    @overload
    def carried(self, nbytes: Ints, upload: bool) -> Ints: ...
    def carried(self, nbytes: Any, upload: bool) -> Any:
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

    At which moment between two polls a download meets its client depends only on the client, and on how many downloads
    it was sent before.
    """

    def __init__(self, transport: Transport, rng: Callable[[str], np.random.Generator]) -> None:
        """Draw from the stream `transport`, unless clients do not poll."""
        self._polling = transport.polling()
        self._draws = Draws(int(rng("transport").integers(2**62)) if self._polling else 0)
        self._before = {up: transport.before(up) for up in (True, False)}
        self._after = {up: transport.after(up) for up in (True, False)}
        self._handling, self._transport, self.terms = transport.handling(), transport, transport.terms()

    def take(self, transfer: Transfer) -> None:
        """Set the seconds, bytes and terms of one message, whose client is sent or sends it next."""
        upload, nbytes = transfer.upload, transfer.nbytes
        transfer.held = self._before[upload] + self._handling * nbytes
        transfer.handed = self._after[upload] + self._handling * nbytes
        transfer.nbytes, transfer.terms = self._transport.carried(nbytes, upload), self.terms
        if self._polling and not upload:
            ends = SERVER, transfer.client
            transfer.held += self._polling * self._draws.of(ends, self._draws.number(ends))[0]

    def held(self, clients: Ints, nbytes: Ints, upload: bool) -> Floats:
        """Return the seconds (n,) for which the next message of each client is held before its connection opens."""
        found = self._seconds(self._before[upload], nbytes)
        if self._polling and not upload:
            pairs = [(SERVER, client) for client in clients.tolist()]
            found += self._polling * self._draws.many(pairs)[0]
            self._draws.count(pairs)
        return found

    def handed(self, nbytes: Ints, upload: bool) -> Floats:
        """Return the seconds (n,) from the last byte to the arrival."""
        return self._seconds(self._after[upload], nbytes)

    def carried(self, nbytes: Ints, upload: bool) -> Ints:
        """Return the bytes (n,) that connections carry for messages of so many."""
        return self._transport.carried(nbytes, upload)

    def _seconds(self, each: float, nbytes: Ints) -> Floats:
        found: Floats = np.full(len(nbytes), each)
        found += self._handling * nbytes
        return found

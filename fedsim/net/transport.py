"""The contract of a transport: the program that carries messages between the server and its clients.

Links and TCP say how long bytes take.  A transport says what its program adds to that: seconds in which a message is on
no link, because it waits to be fetched, or has arrived and is not handed over yet.  They belong to the message: it is
under way meanwhile, its row shows them between `sent` and `arrived`, and it is lost if its client goes offline in them.
Bytes stay those of the links.

An implementation is a frozen dataclass of options without state, one file in `transports/`.  Not modelled: bytes of a
transport's own messages, and work that it takes from the processors of either end.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fedsim.core.record import SERVER
from fedsim.net.draws import Draws
from fedsim.net.topology import Topology
from fedsim.net.transfer import Transfer

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Transport(ABC):
    """What a program adds to the times of messages."""

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

    def refuse(self, topology: Topology, asks: bool) -> str | None:
        """Return why the topology, or a protocol that `asks` clients or does not, does not fit; None if both do."""
        return None


class Delays:
    """The seconds that a transport adds to the messages of one network.

    At which moment between two polls a download meets its client depends only on the client, and on how many downloads
    it was sent before.
    """

    def __init__(self, transport: Transport, rng: Callable[[str], np.random.Generator]) -> None:
        """Draw from the stream `transport`, unless clients do not poll."""
        self._polling = transport.polling()
        self._draws = Draws(int(rng("transport").integers(2**62)) if self._polling else 0)
        self._before = {up: transport.before(up) for up in (True, False)}
        self._after = {up: transport.after(up) for up in (True, False)}

    def delay(self, transfer: Transfer) -> None:
        """Set the seconds of one message, whose client is sent or sends it next."""
        upload = transfer.upload
        transfer.held, transfer.handed = self._before[upload], self._after[upload]
        if self._polling and not upload:
            ends = SERVER, transfer.client
            transfer.held += self._polling * self._draws.of(ends, self._draws.number(ends))[0]

    def held(self, clients: Ints, upload: bool) -> Floats:
        """Return the seconds (n,) for which the next message of each client is held before its connection opens."""
        found = np.full(len(clients), self._before[upload])
        if self._polling and not upload:
            pairs = [(SERVER, client) for client in clients.tolist()]
            found += self._polling * self._draws.many(pairs)[0]
            self._draws.count(pairs)
        return found

    def handed(self, upload: bool) -> float:
        """Return the seconds from the last byte to the arrival."""
        return self._after[upload]

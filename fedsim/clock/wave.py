"""Wave: the asks of a whole cohort as arrays, without a process, a message or a row object for each.

A wave sends every client of a step its download, has it work, and receives its upload.  There are two: `PlannedWave`
(`planned_wave.py`) computes all passages at once where no link can be full, and `SharedWave` (`shared_wave.py`) takes
them event by event over links that can be.  Here is what both do: they write their rows together, once the last member
has ended and the fate of every reply is known.

Not modelled: codecs, and algorithms that send nothing; such clients are asked one by one.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import simpy

from fedsim.clock.clients import Clients
from fedsim.clock.masks import span_of
from fedsim.clock.unread import Unread
from fedsim.learner.batch import Replies
from fedsim.learner.contract import Learner
from fedsim.learner.ticket import Reply, Ticket
from fedsim.net.message import Message
from fedsim.net.network import Network

Columns = Mapping[str, Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
WriteMany = Callable[[Columns, Columns, Columns, npt.NDArray[np.float64]], None]
FATES = np.array(["", "delivered", "late", "discarded", "cut", "lost"])
NONE, DELIVERED, LATE, DISCARDED, CUT, LOST = range(len(FATES))
CODES = {str(name): code for code, name in enumerate(FATES)}
EVER = math.inf


class Home(Protocol):
    """The server, as a wave uses it."""

    env: simpy.Environment
    network: Network
    clients: Clients
    learner: Learner
    node: int
    version: int
    unread: Unread
    write_many: WriteMany | None

    def downloads(
        self, clients: Sequence[int], step: str, beside: Mapping[int, Any] | None
    ) -> tuple[Sequence[Ticket | None], Ints]:
        """Return the downloads of these clients, and their bytes (K,)."""
        ...

    def upload_bytes(self, step: str, upload: Ticket | None, beside: Any) -> int:
        """Return the bytes of a client's reply."""
        ...

    def uploads_bytes(
        self, clients: Sequence[int], step: str, uploads: Sequence[Ticket | None], beside: Mapping[int, Any]
    ) -> Ints:
        """Return the bytes (K,) of these clients' replies."""
        ...

    def note(self, lost: int = 0, late: int = 0) -> None:
        """Count further clients as lost or late."""
        ...

    def release(self, clients: Sequence[int]) -> None:
        """Mark these clients as free."""
        ...

    def release_one(self, client: int) -> None:
        """Mark one client as free."""
        ...


class Legs(NamedTuple):
    """What became of a wave's members, each a row (K,): its download, its work and its upload.

    `worked` is when the work ended and the upload was sent, `ended` when the span of the work ends (minus infinity
    without work), which is earlier if it was interrupted; `moved` are wire bytes, and `fates` indices of `FATES`.
    """

    down_end: Floats
    down_moved: Floats
    down_fates: npt.NDArray[np.int8]
    began: Floats
    ended: Floats
    worked: Floats
    up_end: Floats
    up_moved: Floats
    up_fates: npt.NDArray[np.int8]


class Wave(ABC):
    """The asks of clients in one step; `first` waits for replies, and `Clients` notifies the wave of changes.

    A member is *under way* until its upload has arrived or is cut.
    """

    def __init__(
        self, home: Home, clients: Sequence[int], step: str, number: int, beside: Mapping[int, Any] | None = None
    ) -> None:
        """Prepare the exchanges of these clients, whose asks are numbered from `number`.

        `beside` is what masking sends each client with its download.
        """
        self._home, self._step, self._number, self.version = home, step, number, home.version
        self._clients, self._numbers = np.array(clients, dtype=np.int64), [*clients]
        self._place = {client: k for k, client in enumerate(clients)}
        self.began, self._beside = home.env.now, beside or {}
        self._downloads, sizes = home.downloads(clients, step, beside)
        self._overhead = Message.carrying(home.node, 0, step, 0).nbytes
        self._down_bytes = self._overhead + sizes
        self._up_bytes = np.zeros(len(clients), dtype=np.int64)
        self._uploads: Sequence[Ticket | None] = [None] * len(clients)
        self._up_fate = np.full(len(clients), NONE, dtype=np.int8)
        self._open = True  # whether replies still count
        self.undecided = np.zeros(len(clients), dtype=bool)  # replies that are neither folded nor dropped yet
        self._written = False
        home.unread.plan(number, self)

    def begin(self) -> None:  # noqa: B027
        """Send the downloads, unless they are planned."""

    @abstractmethod
    def first(self, want: int, before: float = EVER) -> Generator[simpy.Event, Any, Sequence[Reply]]:
        """Wait for the first `want` replies, for at most `before` seconds; return them in order of arrival.

        Clients that have not replied by then are late: their uploads still arrive.
        """

    @abstractmethod
    def ended(self, client: int) -> bool:
        """Return whether this client's upload has arrived by now, even if not processed yet."""

    @abstractmethod
    def catch_up(self, client: int) -> None:
        """Update the client's memory if it has finished its job by now."""

    @abstractmethod
    def renew(self, client: int) -> None:
        """Note that the client has just received data, on which it works if its download has not arrived yet."""

    @abstractmethod
    def cut(self, client: int) -> None:
        """End this client's exchange: it has gone to sleep or left."""

    @abstractmethod
    def end(self) -> None:
        """End the exchanges under way."""

    def decide(self, places: Ints, fate: str) -> None:
        """Record the fate of replies that are undecided."""
        self._up_fate[places] = CODES[fate]
        self.undecided[places] = False
        if not self.undecided.any():
            self._post()

    @abstractmethod
    def _post(self) -> None:
        """Write all rows once they are final."""

    def _replies_of(self, places: Ints) -> Replies:
        """Return the replies of members whose uploads have arrived."""
        own = self._clients[places], self.version, self._downloads, self._uploads
        return Replies(*own, places, self._number)

    def _up_size(self, k: int) -> int:
        beside = self._beside.get(self._numbers[k])
        return self._overhead + self._home.upload_bytes(self._step, self._uploads[k], beside)

    def _write(self, legs: Legs) -> None:
        """Write the rows of all members; none ends later than now."""
        home, now, count = self._home, self._home.env.now, len(self._clients)
        assert home.write_many is not None
        self._written = True
        ups, worked = np.flatnonzero(legs.up_fates), np.flatnonzero(legs.ended >= self.began)
        spans = {"client": self._clients, "start": legs.began, "end": np.minimum(legs.ended, now)}
        downs = {
            "sent": np.full(count, self.began), "arrived": np.minimum(legs.down_end, now),
            "src": np.full(count, home.node), "dst": self._clients, "nbytes": self._down_bytes,
            "wire_bytes": legs.down_moved.astype(np.int64), "fate": FATES[legs.down_fates],
        }  # fmt: skip
        uploads = {
            "sent": np.minimum(legs.worked, now), "arrived": np.minimum(legs.up_end, now),
            "src": self._clients, "dst": np.full(count, home.node), "nbytes": self._up_bytes,
            "wire_bytes": legs.up_moved.astype(np.int64), "fate": FATES[legs.up_fates],
        }  # fmt: skip
        same = {"kind": self._step, "version": self.version}
        work = {**_picked(spans, worked), "what": span_of(self._step)}
        home.write_many({**downs, **same}, {**_picked(uploads, ups), **same}, work, legs.began[ups])
        home.unread.forget(self._number)


def _picked(columns: Columns, rows: npt.NDArray[np.int64]) -> dict[str, Any]:
    return {name: column[rows] for name, column in columns.items()}

"""Tickets and replies of a whole cohort as arrays.

What the clock does with a cohort (sizes, fates, order, the values to fold) needs no object for each client.  A `Ticket`
or a `Reply` is made where one client's is asked for, by an index or a loop, and then stays the same object.  Where
there is a record every ticket has a key of its own, and is made at once.
"""

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from fedsim.learner.ticket import Reply, Ticket

Ints = npt.NDArray[np.int64]


class Tickets(Sequence[Ticket]):
    """A cohort's tickets in its order; `sizes` (K,) are their bytes."""

    __slots__ = ("_made", "_values", "sizes")

    def __init__(self, sizes: Ints, values: Sequence[Any]) -> None:
        """Stand for values without keys."""
        self.sizes, self._values = sizes, values
        self._made: dict[int, Ticket] = {}

    @classmethod
    def of(cls, tickets: Sequence[Ticket]) -> "Tickets":
        """Return tickets that there are already."""
        found = cls(np.array([ticket.nbytes for ticket in tickets], dtype=np.int64), tickets)
        found._made = dict(enumerate(tickets))
        return found

    def __len__(self) -> int:
        """Return the number of tickets."""
        return len(self._values)

    @overload
    def __getitem__(self, place: int) -> Ticket: ...

    @overload
    def __getitem__(self, place: slice) -> list[Ticket]: ...

    def __getitem__(self, place: int | slice) -> Ticket | list[Ticket]:
        """Return one ticket, the same object each time, or those of a slice."""
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        place = range(len(self))[place]
        if (made := self._made.get(place)) is None:
            made = self._made[place] = Ticket(b"", int(self.sizes[place]), self._values[place])
        return made

    def value(self, place: int) -> Any:
        """Return a ticket's value, which only the learner looks at."""
        made = self._made.get(place)
        return self._values[place] if made is None else made.value


class Replies(Sequence[Reply]):
    """Replies of one wave: those of its members at `places`, whose asks are numbered from `first`.

    They all started from `version`, and none is discounted.
    """

    __slots__ = ("_made", "clients", "downloads", "first", "places", "uploads", "version")

    def __init__(
        self,
        clients: Ints,
        version: int,
        downloads: Sequence[Ticket | None],
        uploads: Sequence[Ticket | None],
        places: Ints,
        first: int,
    ) -> None:
        """Hold the replies of `clients` (K,), whose tickets are at `places` (K,) of the wave's."""
        self.clients, self.version, self.places, self.first = clients, version, places, first
        self.downloads, self.uploads = downloads, uploads
        self._made: dict[int, Reply] = {}  # by place, shared with those taken from these

    def __len__(self) -> int:
        """Return the number of replies."""
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> Reply: ...

    @overload
    def __getitem__(self, index: slice) -> list[Reply]: ...

    def __getitem__(self, index: int | slice) -> Reply | list[Reply]:
        """Return one reply, the same object each time, or those of a slice."""
        if isinstance(index, slice):
            return [self[k] for k in range(len(self))[index]]
        place = int(self.places[index])
        if (made := self._made.get(place)) is None:
            both = self.downloads[place], self.uploads[place]
            made = self._made[place] = Reply(int(self.clients[index]), self.version, *both, ask=self.first + place)
        return made

    def __iter__(self) -> Iterator[Reply]:
        """Yield the replies in order."""
        return (self[k] for k in range(len(self)))

    def take(self, rows: npt.NDArray[Any]) -> "Replies":
        """Return the replies of these rows: their indices, or a mask."""
        taken = self.clients[rows], self.version, self.downloads, self.uploads, self.places[rows], self.first
        found = Replies(*taken)
        found._made = self._made
        return found


def ordered(replies: Sequence[Reply]) -> Sequence[Reply]:
    """Return replies in order of the client, and of the ask if there are several of one."""
    if isinstance(replies, Replies):
        return replies.take(np.lexsort((replies.places, replies.clients)))
    return sorted(replies, key=lambda reply: (reply.client, reply.ask))


def clients_of(replies: Sequence[Reply]) -> list[int]:
    """Return whose replies these are."""
    if isinstance(replies, Replies):
        found: list[int] = replies.clients.tolist()
        return found
    return [reply.client for reply in replies]


def behind(replies: Sequence[Reply], version: int) -> float:
    """Return by how many versions replies are behind this one, on average; 0 without any."""
    if isinstance(replies, Replies):
        return float(version - replies.version) if len(replies) else 0.0
    return sum(version - reply.version for reply in replies) / max(1, len(replies))

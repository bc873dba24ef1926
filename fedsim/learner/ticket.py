"""Tickets: what the clock holds in place of states, downloads, uploads and shares.

A ticket's value lives as long as the ticket, which need not be released; only the learner looks at it.  What the clock
does with a cohort (sizes, fates, order) needs no ticket for each client: one is made where it is asked for.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from fedsim.core.arrays import Ints

UNKNOWN = -1  # bytes of an upload whose size is known only once it is trained; see `Learner.size`


class Ticket:
    """A value that the learner has or will have: the key of its provenance, and its size on the wire in bytes.

    The key (16 bytes) is a hash of the question that produced the value, not of its contents: equal keys mean equal
    values.  It is empty where nothing is recorded.
    """

    __slots__ = ("__weakref__", "key", "nbytes", "value")  # no dataclass: frozen ones cost more, and each ask makes two

    def __init__(self, key: bytes, nbytes: int = 0, value: Any = None) -> None:
        self.key, self.nbytes, self.value = key, nbytes, value


class Tickets(Sequence[Ticket]):
    """A cohort's tickets in its order; `sizes` (K,) are their bytes.

    Tickets that do not exist yet are None, and are made of sizes and values where one is asked for.
    """

    __slots__ = ("_tickets", "_values", "sizes")

    def __init__(self, sizes: Ints, values: Sequence[Any], tickets: Sequence[Ticket | None] | None = None) -> None:
        self.sizes, self._values = sizes, values
        self._tickets: list[Ticket | None] = [None] * len(values) if tickets is None else [*tickets]

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
        if (ticket := self._tickets[place]) is None:
            ticket = self._tickets[place] = Ticket(b"", int(self.sizes[place]), self._values[place])
        return ticket

    def take(self, places: Ints) -> "Tickets":
        """Return the tickets at these places."""
        chosen = places.tolist()
        return Tickets(self.sizes[places], [self._values[k] for k in chosen], [self._tickets[k] for k in chosen])

    def resized(self, sizes: Ints) -> "Tickets":
        """Return the same tickets with other sizes, because something travels along with them."""
        return Tickets(sizes, self._values, self._tickets)


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The part of its state that a peer or an edge sends: its ticket, whether it is finite, and the cost of merging it.

    `operations` are a multiply-add per number.
    """

    ticket: Ticket
    finite: bool
    operations: float


def values_of(tickets: Sequence[Any]) -> list[Any]:
    """Return the values of tickets, which only the learner looks at; None where there is no ticket."""
    if isinstance(tickets, Tickets):
        pairs = zip(tickets._values, tickets._tickets, strict=True)
        return [value if ticket is None else ticket.value for value, ticket in pairs]
    return [None if ticket is None else ticket.value for ticket in tickets]


class NoKeys:
    """Stands for the keys of a run that is not recorded: all are empty, and nothing is kept."""

    root = b""

    def _nothing(self, *_: Any, **__: Any) -> Any:
        return b""

    about = downloads = jobs = received = share = mixed = scored = _nothing
    arrived = done = spend = _nothing

"""What one client holds and remembers, as far as learning goes: data, memory, and what a codec keeps for it.

It models neither time nor whether the client is there.
"""

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from fedsim.data.graph import Graph, Period


class Finished(Protocol):
    """A job that has come to its end (`upload.py`)."""

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        ...


class Client:
    """One client; `seen` are the periods that it has met, `notes` what a codec keeps by step (error feedback)."""

    __slots__ = ("data", "last", "notes", "number", "period", "remembered", "seen")

    def __init__(self, number: int) -> None:
        """Hold nothing yet."""
        self.number = number
        self.data: Graph | None = None
        self.period = -1
        self.seen: list[Period] = []
        self.notes: dict[str, Any] = {}
        self.remembered: dict[str, Any] = {}  # the memory when it was last read
        self.last: Finished | None = None  # of the last finished job, where nobody has read the memory since

    def arrive(self, period: "Period") -> None:
        """Hold this period's graph from now on."""
        self.data, self.period = period.graph, period.number
        self.seen.append(period)

    @property
    def memory(self) -> dict[str, Any]:
        """The memory as the last finished job left it, which settles that job."""
        if self.last is not None:
            self.remembered, self.last = self.last.memory(), None
        return self.remembered


class Clients(dict[int, Client]):
    """All clients by number; whoever is asked for is there."""

    def __missing__(self, number: int) -> Client:
        """Return a client that holds nothing yet."""
        self[number] = client = Client(number)
        return client

    def met(self) -> list[Client]:
        """Return those that have met a period, in order of their numbers."""
        return [self[number] for number in sorted(self) if self[number].seen]

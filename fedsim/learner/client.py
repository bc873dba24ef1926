"""The learner's view of a client: its data, its memory, and its codec's memory.

Not modelled: time, and whether the client is available.
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
    """One client; `seen` are the periods that it has met, `notes` its codec's memory by step (error feedback)."""

    __slots__ = ("data", "last", "notes", "number", "period", "remembered", "seen")

    def __init__(self, number: int) -> None:
        """Start without data."""
        self.number = number
        self.data: Graph | None = None
        self.period = -1
        self.seen: list[Period] = []
        self.notes: dict[str, Any] = {}
        self.remembered: dict[str, Any] = {}  # the memory when it was last read
        self.last: Finished | None = None  # of the last finished job, if the memory was not read since

    def arrive(self, period: "Period") -> None:
        """Replace the data by this period's graph."""
        self.data, self.period = period.graph, period.number
        self.seen.append(period)

    @property
    def memory(self) -> dict[str, Any]:
        """The memory as the last finished job left it; reading it trains that job if it is pending."""
        if self.last is not None:
            self.remembered, self.last = self.last.memory(), None
        return self.remembered


class Clients(dict[int, Client]):
    """All clients by number, created on first access."""

    def __missing__(self, number: int) -> Client:
        """Return a client without data."""
        self[number] = client = Client(number)
        return client

    def met(self) -> list[Client]:
        """Return the clients that have met a period, by number."""
        return [self[number] for number in sorted(self) if self[number].seen]

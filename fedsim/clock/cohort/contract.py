"""The contract of a cohort: what its clients and the rows of its uploads need of it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from fedsim.core.arrays import Bools, Floats, Ints

Columns = Mapping[str, Any]
UNFINISHED = "replies were read before their exchange had ended: write `yield from world.exchange(...)`"
WriteCohort = Callable[[Columns, Columns, Columns, Floats], None]  # downloads, uploads, spans, uploads' requests


class Cohort(ABC):
    """Clients asked at once in one step; `undecided` (K,) are replies that are neither aggregated nor dropped yet."""

    undecided: Bools

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
        """End the exchanges under way: the run is over."""

    @abstractmethod
    def resolve(self, places: Ints, fate: str) -> None:
        """Record the fate of replies that are undecided."""

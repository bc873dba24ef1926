"""The contract of a carrier: brings questions to clients and their answers back, over whatever network there is.

`flower.py` implements it; tests have one that stays within the process.  Not modelled: time; what a carrier adds to it
is measured.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple


class Brought(NamedTuple):
    """An answer, or None and what went wrong; `carried` are the bytes that the carrier made of it."""

    number: int
    data: bytes | None
    carried: int = 0
    error: str = ""


class Post(ABC):
    """Carries questions to clients, which are numbered from 0."""

    @abstractmethod
    def send(self, number: int, client: int, data: bytes) -> int:
        """Send a client the question of that number, and return the bytes that the carrier made of it."""

    @abstractmethod
    def poll(self, seconds: float) -> list[Brought]:
        """Return the answers that have come, waiting at most that long for the first."""

"""Lane: messages under way on the same access link, or between the same two nodes, and what limits each of them.

An `AccessLane` (`access.py`) is one client's access link in one direction; a `Trunk` (`trunk.py`) is all that goes from
one node to another where no access link of its own lies between, because the links are part of the track.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import simpy

from fedsim.net.model import Model
from fedsim.net.sharing.line import Line
from fedsim.net.transfer import Transfer

BITS = 8


class Way(Protocol):
    """What carries flows: a shared `Link`, or a path over several."""

    def join(self, nbytes: float, ceiling: float, done: Callable[[Any], None], weight: float = 1.0) -> Any:
        """Add a flow; `done` is called with it when it has ended."""
        ...

    def leave(self, flow: Any) -> float:
        """Take a flow off and return the bytes it still had to go."""
        ...

    def set_ceiling(self, flow: Any, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s)."""
        ...

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return about the rate that one more flow would get."""
        ...

    def at_ceiling_since(self, flow: Any) -> float:
        """Return the time since which a flow has run at its ceiling without a break; infinity where it does not.

        A flow that has ended at this instant counts as it stood when it did.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """The shared links of a route: `way` carries the flows over these `lines`; the `slowest` has so many bytes/s."""

    way: Way
    lines: tuple[Line, ...]
    slowest: float
    shaped: bool = field(init=False)  # whether a token bucket is on it

    def __post_init__(self) -> None:
        """Look for a bucket once: links do not change theirs."""
        object.__setattr__(self, "shaped", any(line.burst for line in self.lines))


class Rider(Protocol):
    """What a lane needs of a transfer under way, which is a `passage.Passage`; `size` are its wire bytes."""

    transfer: Transfer
    track: Track
    size: float
    paused: bool

    def sent(self, flow: Any) -> None:
        """Hear that the bytes on the link have gone."""
        ...

    def __hash__(self) -> int:
        """Tell it from others."""
        ...


Passage = TypeVar("Passage", bound=Rider)


class Lane(ABC, Generic[Passage]):
    """The passages on it, those of them that move now, and how each goes on."""

    def __init__(self, env: simpy.Environment, model: Model) -> None:
        """Start empty."""
        self.passages: dict[Passage, None] = {}  # under way, in the order of their start
        self._env, self._model = env, model
        self._flows: dict[Passage, Any] = {}

    @abstractmethod
    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of so many that move."""

    @abstractmethod
    def lines(self, passage: Passage) -> tuple[Line, ...]:
        """Return all links that the passage crosses."""

    @abstractmethod
    def carry(self, nbytes: float) -> None:
        """Count bytes that have gone over the access links."""

    def shaped(self, passage: Passage) -> tuple[Line, ...]:
        """Return all links that the passage crosses if there is a token bucket among them, else nothing."""
        return self.lines(passage) if passage.track.shaped else ()

    def rate_if_joined(self, passage: Passage) -> float:
        """Return about the rate (bytes/s) that the passage would get if it joined now."""
        ceiling = self.ceiling(passage, len(self._flows) + 1)
        return passage.track.way.rate_if_joined(ceiling, self._model.weight(passage.transfer))

    def queue(self, passage: Passage) -> float:
        """Return the seconds that the passage's packets would wait behind those of others now."""
        return self._model.queue(passage.transfer, self.lines(passage), self._env.now)

    def start(self, passage: Passage) -> tuple[float, float]:
        """Return the seconds of slow start that leave the link idle, and the bytes that come after them."""
        return self._model.start(passage.transfer, passage.size, self.rate_if_joined(passage))

    def credit(self, passage: Passage, nbytes: float) -> float:
        """Return how many of these bytes would cost no time if the passage joined with them now."""
        shaped = self.shaped(passage)
        return self._model.credit(nbytes, self.rate_if_joined(passage), shaped) if shaped else 0.0

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Let the passage move; `passage.sent` is called when these bytes have gone."""
        ceiling, weight = self.ceiling(passage, len(self._flows) + 1), self._model.weight(passage.transfer)
        self._flows[passage] = passage.track.way.join(nbytes, ceiling, passage.sent, weight)

    def exit(self, passage: Passage) -> float:
        """Let the passage move no more and return the bytes that had not gone."""
        return passage.track.way.leave(self._flows.pop(passage))

    def refresh(self) -> None:
        """Set the ceilings again, after a client's rates have changed."""
        for passage, flow in self._flows.items():
            passage.track.way.set_ceiling(flow, self.ceiling(passage, len(self._flows)))

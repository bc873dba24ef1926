"""Channel: the passages under way over one access link, or between two nodes, and what limits each of them.

An `AccessChannel` (`access_channel.py`) is one client's access link in one direction.  A `PairChannel`
(`pair_channel.py`) holds what one node sends another if the route has no access link of its own, because all its links
are shared ones.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

import simpy

from fedsim.net.draws import Draws
from fedsim.net.model import Model
from fedsim.net.sharing.flows import Flow
from fedsim.net.sharing.link import Link
from fedsim.net.sharing.link_state import EXACT, LinkState
from fedsim.net.sharing.mesh_link import MeshLink
from fedsim.net.sharing.pool import Pool
from fedsim.net.transfer import Transfer
from fedsim.net.window import Start

BITS = 8


@dataclass(frozen=True, slots=True, eq=False)
class SharedRoute:
    """The shared part of a route: its `links`, the `pool` of flows over them, and the `slowest` link's bytes/s."""

    pool: Pool
    links: tuple[Link | MeshLink, ...]
    slowest: float
    overflows: Draws
    shaped: bool = field(init=False)  # whether one of the links has a token bucket

    def __post_init__(self) -> None:
        """Look for a bucket once: links keep theirs."""
        object.__setattr__(self, "shaped", any(link.burst for link in self.links))

    def join(self, trip: float) -> None:
        """Count a flow of this round trip (seconds) on all links."""
        for link in self.links:
            link.crossing.join(trip)

    def leave(self, trip: float) -> None:
        """Count a flow of this round trip as gone."""
        for link in self.links:
            link.crossing.leave(trip)


class Member(Protocol):
    """What a channel needs of a `passage.Passage`: `size` in wire bytes, and the `limit` of its window in bytes/s."""

    transfer: Transfer
    route: SharedRoute
    size: float
    limit: float

    def sent(self, flow: Flow) -> None:
        """Continue after the bytes on the link have been sent."""
        ...

    def __hash__(self) -> int:
        """Return a hash; members are keys of dicts."""
        ...


Passage = TypeVar("Passage", bound=Member)


class Channel(ABC, Generic[Passage]):
    """The passages on it, and the flows of those that move."""

    def __init__(self, env: simpy.Environment, model: Model) -> None:
        """Start empty."""
        self.passages: dict[Passage, None] = {}  # under way, in the order of their start
        self._env, self._model = env, model
        self._flows: dict[Passage, Flow] = {}

    @abstractmethod
    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of `flows` that move."""

    @abstractmethod
    def links(self, passage: Passage) -> tuple[LinkState, ...]:
        """Return all links that the passage crosses."""

    @abstractmethod
    def carry(self, passage: Passage, nbytes: float) -> None:
        """Count bytes of a passage that have crossed the access links."""

    def shaped(self, passage: Passage) -> tuple[LinkState, ...]:
        """Return all links that the passage crosses if one of them has a token bucket, else none."""
        return self.links(passage) if passage.route.shaped else ()

    def rate_if_joined(self, passage: Passage) -> float:
        """Return approximately the rate (bytes/s) that the passage would get if it joined now."""
        return self._rate_below(passage, self.ceiling(passage, len(self._flows) + 1))

    def queue(self, passage: Passage) -> float:
        """Return the seconds that the passage's packets would now wait behind those of others."""
        return self._model.queue(passage.transfer, self.links(passage), self._env.now)

    def start(self, passage: Passage) -> Start:
        """Return how the passage starts at the rate that it would get now."""
        ceiling = self.ceiling(passage, len(self._flows) + 1)
        rate = self._rate_below(passage, ceiling)
        full = passage.route.links if rate < ceiling * (1 - EXACT) else ()
        return self._model.start(passage.transfer, passage.size, rate, ceiling, full, passage.route.overflows)

    def limit(self, passage: Passage, start: Start, left: float) -> float:
        """Return what the window allows a passage that has just noticed its first loss and has `left` bytes to send."""
        return self._model.limit(passage.transfer, left, self.ceiling(passage, len(self._flows) + 1), start)

    def credit(self, passage: Passage, nbytes: float) -> float:
        """Return how many of these bytes would take no time if the passage joined with them now."""
        shaped = self.shaped(passage)
        return self._model.credit(nbytes, self.rate_if_joined(passage), shaped) if shaped else 0.0

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Start a passage's flow; `passage.sent` is called when these bytes have been sent."""
        ceiling, weight = self.ceiling(passage, len(self._flows) + 1), self._model.weight(passage.transfer)
        self._flows[passage] = passage.route.pool.join(nbytes, ceiling, passage.sent, weight)
        passage.route.join(passage.transfer.quiet_trip)

    def exit(self, passage: Passage) -> float:
        """Stop a passage's flow and return the bytes that had not been sent."""
        passage.route.leave(passage.transfer.quiet_trip)
        return passage.route.pool.leave(self._flows.pop(passage))

    def _rate_below(self, passage: Passage, ceiling: float) -> float:
        return passage.route.pool.rate_if_joined(ceiling, self._model.weight(passage.transfer))

    def refresh(self) -> None:
        """Set the ceilings again, after a client's rates have changed."""
        for passage, flow in self._flows.items():
            passage.route.pool.set_ceiling(flow, self.ceiling(passage, len(self._flows)))

"""Replies of clients: one by one, or those of a cohort as columns.

The clock's replies hold tickets, those that an algorithm is given hold what the tickets stand for.  The
functions here read the columns, or any other sequence of replies.  `Disclosed` says what they give away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedsim.core.arrays import Array, Ints

# updates: a model's parameters, or what training changed.  generators: a model that makes data.  prototypes: means,
# embeddings or gradients of classes or nodes.  features: those of nodes, or codes or sums of a few.  labels: those of
# nodes, or which classes there are.  edges: between a client's nodes, or from them to others'.
Readable = Literal["updates", "generators", "prototypes", "features", "labels", "edges"]


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """A client's reply: the version that it started from, its download and its upload.

    `weight` is the protocol's discount for staleness, `ask` the number of the request that it answers.
    """

    client: int
    version: int
    download: Any
    upload: Any
    weight: float = 1.0
    ask: int = 0


class Replies(Sequence[Reply]):
    """Replies of one cohort as columns (K,): all started from `version`, and none is discounted.

    A `Reply` is made where one is asked for, and then stays the same object.
    """

    __slots__ = ("_replies", "asks", "clients", "downloads", "opened", "uploads", "version")

    def __init__(
        self, clients: Ints, version: int, downloads: Sequence[Any], uploads: Sequence[Any], asks: Ints
    ) -> None:
        self.clients, self.version, self.asks = clients, version, asks
        self.downloads, self.uploads = downloads, uploads
        self.opened: Replies | None = None  # the same with what tickets stand for, kept by the learner
        self._replies: dict[int, Reply] = {}  # by ask, shared with those taken from these

    def __len__(self) -> int:
        """Return the number of replies."""
        return len(self.asks)

    def __getitem__(self, place: Any) -> Any:
        """Return one reply, the same object each time, or those of a slice."""
        if isinstance(place, slice):
            return [self[k] for k in range(len(self))[place]]
        ask = int(self.asks[place])
        if (reply := self._replies.get(ask)) is None:
            tickets = self.downloads[place], self.uploads[place]
            reply = self._replies[ask] = Reply(int(self.clients[place]), self.version, *tickets, ask=ask)
        return reply

    def take(self, places: Ints) -> Replies:
        """Return the replies at these places."""
        columns = taken(self.downloads, places), taken(self.uploads, places)
        some = Replies(self.clients[places], self.version, *columns, self.asks[places])
        some._replies = self._replies
        return some


def taken(column: Any, places: Array) -> Any:
    """Return the entries of a column at these places."""
    return column.take(places) if hasattr(column, "take") else [column[k] for k in places.tolist()]


def at(replies: Sequence[Reply], places: Sequence[int]) -> Sequence[Reply]:
    """Return the replies at these places."""
    if isinstance(replies, Replies):
        return replies.take(np.array(places, dtype=np.int64))
    return [replies[k] for k in places]


def in_client_order(replies: Sequence[Reply]) -> Sequence[Reply]:
    """Return replies in order of the client, and of the ask if there are several of one."""
    if isinstance(replies, Replies):
        return replies.take(np.lexsort((replies.asks, replies.clients)))
    return sorted(replies, key=lambda reply: (reply.client, reply.ask))


def staleness(replies: Sequence[Reply], version: int) -> float:
    """Return by how many versions replies are behind this one, on average; 0 without any."""
    if isinstance(replies, Replies):
        return float(version - replies.version) if len(replies) else 0.0
    return sum(version - reply.version for reply in replies) / max(1, len(replies))


def clients_of(replies: Sequence[Reply]) -> list[int]:
    """Return whose replies these are."""
    if isinstance(replies, Replies):
        clients: list[int] = replies.clients.tolist()
        return clients
    return [reply.client for reply in replies]


def uploads_of(replies: Sequence[Reply]) -> Sequence[Any]:
    """Return what they bring."""
    return replies.uploads if isinstance(replies, Replies) else [reply.upload for reply in replies]


def weights_of(replies: Sequence[Reply]) -> Sequence[float]:
    """Return the protocol's discounts."""
    return [1.0] * len(replies) if isinstance(replies, Replies) else [reply.weight for reply in replies]


@dataclass(frozen=True)
class Disclosed:
    """What others can read of a client with options as they are by default, if nothing is masked.

    Peers without a server read what a server would.
    """

    server: tuple[Readable, ...] = ()
    clients: tuple[Readable, ...] = ()  # where one client's own reaches another; not in a mean over many

    def __str__(self) -> str:
        """Return it in words: "updates, labels", or "updates; clients: features"."""
        others = f"clients: {', '.join(self.clients)}" if self.clients else ""
        return "; ".join(filter(None, (", ".join(self.server), others))) or "nothing"

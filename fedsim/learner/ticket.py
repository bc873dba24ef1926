"""Tickets: what the clock holds in place of states, downloads, uploads and shares.

A ticket's value lives as long as the ticket, which need not be released; only the learner looks at it.  Not modelled:
time.
"""

from dataclasses import dataclass
from typing import Any

UNKNOWN = -1  # bytes of an upload whose size is known only once it is trained; see `Learner.size`


class Ticket:
    """A value that the learner has or will have: the key of its provenance, and its size on the wire in bytes.

    The key (16 bytes) is a hash of the question that produced the value, not of its contents: equal keys mean equal
    values.
    """

    __slots__ = ("__weakref__", "key", "nbytes", "value")  # no dataclass: frozen ones cost more, and each ask makes two

    def __init__(self, key: bytes, nbytes: int = 0, value: Any = None) -> None:
        """Stand for the value of this key; `value` is the learner's, and nobody else looks at it."""
        self.key, self.nbytes, self.value = key, nbytes, value


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """A client's reply to an ask, as the clock sees it: the tickets of its download and of its upload.

    `version` is the one that the client started from, `weight` the protocol's discount for staleness, `ask` the number
    of the ask.  The exchanges of keys and shares in secure aggregation have no tickets.
    """

    client: int
    version: int
    download: Ticket | None
    upload: Ticket | None
    weight: float = 1.0
    ask: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """The part of its state that a peer or an edge sends: its ticket, whether it is finite, and the cost of merging it.

    `operations` are a multiply-add per number.
    """

    ticket: Ticket
    finite: bool
    operations: float

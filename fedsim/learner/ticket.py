"""Tickets: what the clock holds in place of states, downloads, uploads and shares.

A ticket's value stays with the learner for as long as somebody holds the ticket, and no longer; nobody has to give it
back.  It models nothing of time.
"""

from dataclasses import dataclass

UNKNOWN = -1  # bytes of an upload whose size only the finished work shows; see `Learner.size`


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Ticket:
    """Something that the learner has or will have: a key of how it came about, and its size on the wire in bytes.

    The key (16 bytes) is a hash of the question that made it, not of its contents: equal keys mean equal values.
    """

    key: bytes
    nbytes: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Reply:
    """What an ask has brought, as the clock has it: the tickets of what was sent down and of what came back.

    `version` is the one that the client started from, `weight` the protocol's discount for staleness, `ask` the number
    of the ask.  An exchange of the clock's own (keys and shares of secure aggregation) has no tickets.
    """

    client: int
    version: int
    download: Ticket | None
    upload: Ticket | None
    weight: float = 1.0
    ask: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """What a peer or an edge sends of its state: its ticket, whether it is finite, and what merging it takes.

    `operations` are a multiply-add for each of its numbers.
    """

    ticket: Ticket
    finite: bool
    operations: float

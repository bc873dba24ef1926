"""Message: what one host sends another, with the bytes it takes.

Models an envelope (who, to whom, what, which version) in front of one tree.  Connections, acknowledgements and
packet headers belong to the transfer, not to the message.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeGuard

from fedsim.net import wire
from fedsim.net.wire import Tree


class Promise(Protocol):
    """A payload that may not have been computed yet, though its size is known."""

    @property
    def nbytes(self) -> int:
        """The wire size of the tree, `wire.size(self.value())`."""
        ...

    def value(self) -> Tree:
        """Return the tree, computing it now if need be."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """From `src` to `dst` (node numbers; the server is -1), of a kind: the step's name, or "share"."""

    src: int
    dst: int
    kind: str
    payload: Tree | Promise
    version: int = 0
    _nbytes: list[int] = field(default_factory=list, init=False, repr=False)  # measured once

    @classmethod
    def sized(cls, src: int, dst: int, kind: str, nbytes: int) -> "Message":
        """Return a message that stands for exactly so many bytes and holds nothing."""
        message = cls(src, dst, kind, None)
        message._nbytes.append(nbytes)
        return message

    @property
    def nbytes(self) -> int:
        """Bytes of envelope and payload, equal to len(self.encode()); measured at the first call, then kept."""
        if not self._nbytes:
            payload = self.payload
            body = payload.nbytes if _is_promise(payload) else wire.size(payload)
            self._nbytes.append(_envelope_size(self.kind) + body)
        return self._nbytes[0]

    def contents(self) -> Tree:
        """Return the tree, whether it was given as such or as a promise."""
        return self.payload.value() if _is_promise(self.payload) else self.payload

    def encode(self) -> bytes:
        """Return the bytes of envelope and payload; opens a promise."""
        return wire.encode(self._envelope()) + wire.encode(self.contents())

    def _envelope(self) -> Tree:
        return _envelope(self.src, self.dst, self.kind, self.version)


def _envelope(src: int, dst: int, kind: str, version: int) -> Tree:
    return {"src": src, "dst": dst, "kind": kind, "version": version}


@lru_cache(maxsize=64)
def _envelope_size(kind: str) -> int:
    """Return the bytes of an envelope, in which every number takes as many."""
    return wire.size(_envelope(0, 0, kind, 0))


def _is_promise(payload: Any) -> TypeGuard[Promise]:
    return callable(getattr(payload, "value", None))  # no tree has that; asking for nbytes might compute the tree

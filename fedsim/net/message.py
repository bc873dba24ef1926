"""Message: what one host sends to another, with its size in bytes.

Models an envelope (sender, receiver, kind, version) in front of one tree.  Connections, acknowledgements and
packet headers belong to the transfer, not to the message.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from fedsim.core import wire
from fedsim.core.wire import Tree


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A message from `src` to `dst` (node numbers; the server is -1); `kind` is the step's name, or "share".

    `label` is set by the sender for observers of arriving messages; it does not travel.
    """

    src: int
    dst: int
    kind: str
    payload: Tree
    version: int = 0
    label: Any = None
    _nbytes: list[int] = field(default_factory=list, init=False, repr=False)  # measured once

    @classmethod
    def carrying(
        cls, src: int, dst: int, kind: str, payload_bytes: int, version: int = 0, label: Any = None
    ) -> "Message":
        """Return a message without contents whose payload has that many bytes."""
        message = cls(src, dst, kind, None, version, label)
        message._nbytes.append(envelope_size(kind) + payload_bytes)
        return message

    @classmethod
    def sized(cls, src: int, dst: int, kind: str, nbytes: int) -> "Message":
        """Return a message without contents of exactly that many bytes, envelope included."""
        message = cls(src, dst, kind, None)
        message._nbytes.append(nbytes)
        return message

    @property
    def nbytes(self) -> int:
        """Bytes of envelope and payload, equal to len(self.encode()); measured at the first call, then kept."""
        if not self._nbytes:
            self._nbytes.append(envelope_size(self.kind) + wire.size(self.payload))
        return self._nbytes[0]

    def encode(self) -> bytes:
        """Return the bytes of envelope and payload."""
        return wire.encode(_envelope(self.src, self.dst, self.kind, self.version)) + wire.encode(self.payload)


def _envelope(src: int, dst: int, kind: str, version: int) -> Tree:
    return {"src": src, "dst": dst, "kind": kind, "version": version}


@lru_cache(maxsize=64)
def envelope_size(kind: str) -> int:
    """Return the bytes of an envelope, in which all numbers have the same size."""
    return wire.size(_envelope(0, 0, kind, 0))

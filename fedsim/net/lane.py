"""Lane: what one client has under way in one direction.

Flows of one client in one direction get at most an equal part of its access rate each; what one of them cannot use
is not handed to the others.  Packets of one direction do not slow those of the other, but for acknowledgements.
"""

from typing import Generic, Protocol, TypeVar

from fedsim.net.link import Flow, Link
from fedsim.net.model import Access, Model
from fedsim.net.node import Nodes
from fedsim.net.transfer import Transfer

BITS = 8


class Rider(Protocol):
    """What a lane needs of a transfer under way, which is a `passage.Passage`."""

    transfer: Transfer
    paused: bool

    def sent(self, flow: Flow) -> None:
        """Hear that the bytes on the link have gone."""
        ...

    def __hash__(self) -> int:
        """Tell it from others."""
        ...


Passage = TypeVar("Passage", bound=Rider)


class Lane(Generic[Passage]):
    """The passages of one client in one direction, and those of them that are on the link now."""

    def __init__(self, nodes: Nodes, client: int, upload: bool, link: Link, server: float, model: Model) -> None:
        """Stand for a client's direction over a link; `server` is the server's own rate there in bytes/s."""
        own, opposite = (nodes.uplink, nodes.downlink) if upload else (nodes.downlink, nodes.uplink)
        self.link = link
        self.passages: dict[Passage, None] = {}  # under way, in the order of their start
        self._own, self._opposite, self._client, self._server, self._model = own, opposite, client, server, model
        self._flows: dict[Passage, Flow] = {}

    def ceiling(self, passage: Passage, flows: int) -> float:
        """Return the ceiling (bytes/s) of a passage that is one of so many on the link."""
        rate, reverse = float(self._own[self._client]) / BITS, float(self._opposite[self._client]) / BITS
        access = Access(rate, reverse, self._server, max(1, flows))
        return self._model.ceiling(passage.transfer, access, passage.paused)

    def rate_if_joined(self, passage: Passage) -> float:
        """Return about the rate (bytes/s) that the passage would get if it joined now."""
        return self.link.rate_if_joined(self.ceiling(passage, len(self._flows) + 1))

    def enter(self, passage: Passage, nbytes: float) -> None:
        """Put the passage on the link; `passage.sent` is called when these bytes have gone."""
        others = len(self._flows) + 1
        self._level(others)
        self._flows[passage] = self.link.join(nbytes, self.ceiling(passage, others), passage.sent)

    def exit(self, passage: Passage) -> float:
        """Take the passage off the link and return the bytes that had not gone."""
        left = self.link.leave(self._flows.pop(passage))
        self.refresh()
        return left

    def refresh(self) -> None:
        """Set the ceilings again, after the client's rates or the number of its flows have changed."""
        self._level(len(self._flows))

    def _level(self, flows: int) -> None:
        for passage, flow in self._flows.items():
            self.link.set_ceiling(flow, self.ceiling(passage, flows))

"""Pool: what shares a rate among flows; `Link` and `MeshPool` are pools."""

from collections.abc import Callable
from typing import Protocol

from fedsim.net.sharing.flows import Flow


class Pool(Protocol):
    """The flows that share one link, or the same links of a mesh."""

    def join(self, nbytes: float, ceiling: float, done: Callable[[Flow], None], weight: float = 1.0) -> Flow:
        """Add a flow; `done` is called with it when it has ended."""
        ...

    def leave(self, flow: Flow) -> float:
        """Remove a flow and return its remaining bytes."""
        ...

    def set_ceiling(self, flow: Flow, ceiling: float) -> None:
        """Change a flow's ceiling (bytes/s)."""
        ...

    def rate_if_joined(self, ceiling: float, weight: float = 1.0) -> float:
        """Return approximately the rate that one more flow would get."""
        ...

    def at_ceiling_since(self, flow: Flow) -> float:
        """Return the time since which a flow has run at its ceiling without a break; infinity if it does not.

        A flow that has ended at this instant counts as it was when it ended.
        """
        ...

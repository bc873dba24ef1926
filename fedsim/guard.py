"""Guard: the contract of who makes differentially private what a server folds (`learn/release.py`).

What is spent hangs on who took part alone, and what is released on the values that they sent: so the former belongs to
the clock's half of a point, the latter to its learning half, and they are asked for apart.
"""

from collections.abc import Sequence
from typing import Protocol

from fedsim.algorithm import Reply


class Guard(Protocol):
    """Makes private what is folded, and keeps count of what that has cost."""

    def drawn(self, chosen: int, among: int) -> None:
        """Hear that so many clients have been chosen by equal chances, and of how many."""
        ...

    def spend(self, clients: Sequence[int]) -> None:
        """Count a release of what these clients have sent; one that has sent twice is there twice."""
        ...

    def release(self, replies: Sequence[Reply]) -> list[Reply]:
        """Return what the algorithm may see of these opened replies."""
        ...

    @property
    def epsilon(self) -> float:
        """What all that has been spent amounts to."""
        ...

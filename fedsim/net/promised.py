"""An upload that a client has promised, and one that stands around another: squeezed, forged or masked.

What it does not model: time; whoever opens a promise has it at once.
"""

from typing import Any, Protocol

from fedsim.net.message import Promise
from fedsim.net.wire import Tree

DIFFERENCE = "update"  # the key of the difference to what was received, in an upload that names it


class WorkPromise(Promise, Protocol):
    """An upload that may not exist yet, and what comes with it."""

    @property
    def like(self) -> Tree | None:
        """A tree of the upload's size, or None where only the finished work tells it."""
        ...

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        ...

    def cancel(self) -> None:
        """Forget the job."""
        ...


class Around:
    """A promised upload that is the one inside it, but for what a subclass makes of that."""

    def __init__(self, inner: WorkPromise) -> None:
        """Stand around a promise, which nobody opens by that."""
        self._inner = inner

    @property
    def nbytes(self) -> int:
        """The upload's encoded size."""
        return self._inner.nbytes

    @property
    def like(self) -> Tree | None:
        """A tree of the upload's size, or None where only the finished work tells it."""
        return self._inner.like

    def value(self) -> Tree:
        """Return the upload."""
        return self._inner.value()

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        return self._inner.memory()

    def cancel(self) -> None:
        """Forget the job."""
        self._inner.cancel()

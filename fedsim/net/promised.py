"""An upload that a client has promised, and one that stands around another: squeezed, forged or masked.

What it does not model: time; whoever opens a promise has it at once.
"""

from abc import ABC, abstractmethod
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


class Once(Around, ABC):
    """One whose outcome is made when somebody first opens it; `opened` is that outcome, or None before.

    A checkpoint keeps what is opened.
    """

    def __init__(self, inner: WorkPromise) -> None:
        """Make nothing yet."""
        super().__init__(inner)
        self.opened: Any = None

    def reopen(self, opened: Any) -> None:
        """Take over what a checkpoint holds as opened."""
        self.opened = opened

    def outcome(self) -> Any:
        """Return the outcome, always the same."""
        if self.opened is None:
            self.opened = self._made()
        return self.opened

    @abstractmethod
    def _made(self) -> Any:
        """Return what comes of the promise inside; never None."""

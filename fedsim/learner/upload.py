"""An upload from the job that makes it to the values that its receiver gets, computed when somebody needs them.

What happens to it on its way is a list of transforms, in their order.  It models no time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Job
from fedsim.learner.client import Client
from fedsim.learner.ticket import UNKNOWN


class Promise(Protocol):
    """The upload of a job that may not have been trained yet."""

    @property
    def job(self) -> Job:
        """The job."""
        ...

    @property
    def declared(self) -> int | None:
        """The encoded size where it is known before the work."""
        ...

    @property
    def like(self) -> Tree | None:
        """A tree of the upload's size, or None where only the finished work shows it."""
        ...

    @property
    def nbytes(self) -> int:
        """The encoded size."""
        ...

    def value(self) -> Tree:
        """Return the upload, training whatever is pending."""
        ...

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        ...

    def cancel(self) -> None:
        """Forget the job."""
        ...


class Transform(NamedTuple):
    """One thing that happens to uploads: what it makes of one, and its size rule, a tree as large as what travels.

    `remembers`: whether it is part of what the client remembers, so that a client's uploads pass in order of its jobs.
    """

    apply: "Callable[[Upload, Tree], Tree]"
    like: Callable[[Tree], Tree]
    remembers: bool = False


class Upload:
    """One client's upload in one step."""

    __slots__ = ("_nbytes", "opened", "owner", "promise", "step", "transforms")

    def __init__(self, promise: Promise, owner: Client, step: str, transforms: Sequence[Transform] = ()) -> None:
        """Compute nothing yet."""
        self.promise, self.owner, self.step, self.transforms = promise, owner, step, transforms
        self.opened: tuple[Tree] | None = None
        self._nbytes: int | None = None

    def declared(self) -> int:
        """Return the bytes that travel where they are known before the work, or else UNKNOWN."""
        known = self.promise.declared
        if known is None:
            return UNKNOWN
        return self.nbytes() if self.transforms else known

    def nbytes(self) -> int:
        """Return the bytes that travel, training where only the finished work shows them."""
        if not self.transforms:
            return self.promise.nbytes
        if self._nbytes is None:
            tree = self.promise.value() if self.promise.like is None else self.promise.like
            for transform in self.transforms:
                tree = transform.like(tree)
            self._nbytes = wire.size(tree)
        return self._nbytes

    def sent(self) -> Tree:
        """Return the upload as the client has it, or a tree of its shapes."""
        return self.promise.value() if self.promise.like is None else self.promise.like

    def value(self) -> Tree:
        """Return the upload as its receiver has it, the same each time."""
        if not self.transforms:
            return self.promise.value()
        if self.opened is None:
            tree = self.promise.value()
            for transform in self.transforms:
                tree = transform.apply(self, tree)
            self.opened = (tree,)
        return self.opened[0]

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        if any(transform.remembers for transform in self.transforms):
            self.value()
        return self.promise.memory()

"""An upload: from the job that produces it to the values that its receiver gets, computed on demand.

On its way it passes a list of transforms, in order.  Not modelled: time.
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
        """The encoded size, None if it is known only after training."""
        ...

    @property
    def like(self) -> Tree | None:
        """A tree of the upload's size, None if it is known only after training."""
        ...

    @property
    def nbytes(self) -> int:
        """The encoded size."""
        ...

    def value(self) -> Tree:
        """Return the upload, after training all pending jobs."""
        ...

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""
        ...

    def cancel(self) -> None:
        """Forget the job."""
        ...


class Transform(NamedTuple):
    """A transform of uploads: `apply` returns the new tree, and `like` a tree of the encoded size.

    `remembers`: whether it changes the client's memory, so that a client's uploads must pass in the order of its jobs.
    """

    apply: "Callable[[Upload, Tree], Tree]"
    like: Callable[[Tree], Tree]
    remembers: bool = False


class Upload:
    """One client's upload in one step."""

    __slots__ = ("_nbytes", "beside", "opened", "owner", "promise", "step", "transforms")

    def __init__(
        self, promise: Promise, owner: Client, step: str, transforms: Sequence[Transform] = (), beside: int = 0
    ) -> None:
        """Compute nothing yet; `beside` is the bytes of what else the message carries."""
        self.beside = beside
        self.promise, self.owner, self.step, self.transforms = promise, owner, step, transforms
        self.opened: tuple[Tree] | None = None
        self._nbytes: int | None = None

    def declared(self) -> int:
        """Return the encoded bytes, UNKNOWN if they are known only after training."""
        known = self.promise.declared
        if known is None:
            return UNKNOWN
        return self.nbytes() if self.transforms else known + self.beside

    def nbytes(self) -> int:
        """Return the encoded bytes, training if they are known only then."""
        if not self.transforms:
            return self.promise.nbytes + self.beside
        if self._nbytes is None:
            tree = self.sent()
            for transform in self.transforms:
                tree = transform.like(tree)
            self._nbytes = wire.size(tree) + self.beside
        return self._nbytes

    def sent(self) -> Tree:
        """Return the upload before transforms, or a tree of its shapes."""
        return self.promise.value() if self.promise.like is None else self.promise.like

    def value(self) -> Tree:
        """Return the upload as received, the same object each time."""
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
        if self.transforms and any(transform.remembers for transform in self.transforms):
            self.value()
        return self.promise.memory()

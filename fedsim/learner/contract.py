"""The contract of a learner: all that the clock asks, whole cohorts at a time, and all that it reports.

Questions have plain answers (tickets, numbers, names, rows of scores) that depend on what was asked before and never on
the time.  Reports have none.  `recorded.Recorded` answers for algorithms that train, from values or from a record of
earlier answers; behind it stand `trained.Trained` and `untrained.Untrained`.  What learns nothing is `traffic.Traffic`.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedsim.learner.ticket import Reply, Share, Ticket

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Floats = npt.NDArray[np.float64]
States = Ticket | Mapping[int, Ticket]  # one state for all clients, or each client's own
Rows = list[dict[str, Any]]  # blocks of the table of scores, without time and version


class Work(NamedTuple):
    """The uploads of a cohort, in its order, and the floating-point operations (K,) that its jobs take."""

    uploads: list[Ticket]
    operations: Floats


class Folded(NamedTuple):
    """The state after folding, the same ticket where nothing has changed, and epsilon so far where there is privacy."""

    state: Ticket
    epsilon: float | None


class Scores(NamedTuple):
    """Blocks of rows, and the headline's mean value, None where nothing was scored."""

    rows: Rows
    headline: float | None


class Learner(ABC):
    """Whoever learns, as the clock sees it."""

    talks: bool = True  # False where nothing travels: an ask only starts the client's own work
    prepares: frozenset[str] = frozenset()  # steps that leave the model as it is, and count no update

    @abstractmethod
    def start(self) -> Ticket:
        """Return the first state."""

    @abstractmethod
    def steps(self, state: Ticket) -> list[str]:
        """Return the names of the exchanges of the coming round."""

    @abstractmethod
    def more(self, state: Ticket, step: str) -> list[str]:
        """Return the exchanges that the outcome of this step calls for."""

    @abstractmethod
    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> list[Ticket]:
        """Return what each client is sent, as it will be received."""

    @abstractmethod
    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> Work:
        """Begin a job of each client with what it holds now; nothing is trained yet.

        `travels`: whether the uploads are sent, and may be forged and compressed on their way.
        """

    @abstractmethod
    def size(self, upload: Ticket) -> int:
        """Return an upload's bytes on the wire, training it where only the finished work shows them."""

    @abstractmethod
    def numbers(self, upload: Ticket) -> int:
        """Return how many numbers an upload holds, as its sender has them."""

    @abstractmethod
    def finite(self, replies: Sequence[Reply]) -> list[bool]:
        """Return of each reply whether all values of its upload are finite, as they are received."""

    @abstractmethod
    def masses(self, replies: Sequence[Reply]) -> list[float]:
        """Return how much each reply weighs in a mean over several servers' clients."""

    @abstractmethod
    def operations(self, state: Ticket, replies: Sequence[Reply], step: str) -> float:
        """Return the floating-point operations of folding these replies."""

    @abstractmethod
    def fold(self, state: Ticket, replies: Sequence[Reply], step: str) -> Folded:
        """Fold replies (one at least), in their order."""

    @abstractmethod
    def share(self, state: Ticket, sender: int | None = None) -> Share:
        """Return what travels of a state; of a peer (`sender`) as it is received, forged and compressed."""

    @abstractmethod
    def mix(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> Ticket:
        """Return the state after merging shares."""

    @abstractmethod
    def score(self, states: States) -> Scores:
        """Score every client on all periods that it has met, and on all periods where that is asked for."""

    @abstractmethod
    def score_unmet(self, states: States, arrived: "Sequence[tuple[int, Period]]") -> Scores:
        """Score periods that have just reached clients by the models that have not met them."""

    @abstractmethod
    def arrive(self, client: int, period: "Period") -> None:
        """Note that a client holds this period's graph from now on; a job that has begun does not see it."""

    @abstractmethod
    def done(self, client: int, upload: Ticket) -> None:
        """Note that a client has come to the end of a job, which it remembers from now on."""

    @abstractmethod
    def dropped(self, upload: Ticket) -> None:
        """Note that a job was broken off: it leaves no trace."""

    @abstractmethod
    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Note that a client's last job never began: the next one takes its number, and with it its seed."""

    @abstractmethod
    def drawn(self, chosen: int, among: int) -> None:
        """Note that so many clients were drawn by equal chances, out of so many."""

"""The contract of a learner: what the clock asks it, for whole cohorts at a time, and what the clock reports to it.

Questions have plain answers (tickets, numbers, names, rows of scores), which depend on earlier questions and reports
but never on time.  Reports have no answer.  `recorded.Recorded` implements the contract: it answers from values, made
by `trained.Trained`, or from a record of earlier answers.  What does the work behind `Trained` is a cohort that trains
(`learn/cohort.py`), `untrained.Estimates`, or `traffic.Plain` for algorithms that learn nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fedsim.learner.batch import Tickets
from fedsim.learner.ticket import Reply, Share, Ticket

if TYPE_CHECKING:
    from fedsim.data.graph import Period

Floats = npt.NDArray[np.float64]
States = Ticket | Mapping[int, Ticket]  # one state for all clients, or each client's own
Rows = list[dict[str, Any]]  # blocks of the table of scores, without time and version


class Work(NamedTuple):
    """The uploads of a cohort, in its order, and the floating-point operations (K,) that its jobs take."""

    uploads: Tickets
    operations: Floats


class Folded(NamedTuple):
    """The state after folding (the same ticket if unchanged), and epsilon so far, None without differential privacy."""

    state: Ticket
    epsilon: float | None


class Scores(NamedTuple):
    """Blocks of rows, and the mean of the first metric, None if nothing was scored."""

    rows: Rows
    headline: float | None


class Learner(ABC):
    """The learner, as the clock sees it."""

    talks: bool = True  # False if nothing travels: an ask only starts the client's own work
    learns: bool = True  # False if nothing is trained: a job depends on its client and number, not on when it begins
    reports: bool = False  # True if every upload that travels carries the client's loss
    prepares: frozenset[str] = frozenset()  # steps that leave the model as it is, and count no update

    @abstractmethod
    def start(self) -> Ticket:
        """Return the first state."""

    @abstractmethod
    def steps(self, state: Ticket) -> list[str]:
        """Return the names of the exchanges of the coming round."""

    @abstractmethod
    def more(self, state: Ticket, step: str) -> list[str]:
        """Return further exchanges that the result of this step requires."""

    @abstractmethod
    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> Tickets:
        """Return each client's download."""

    @abstractmethod
    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> Work:
        """Begin a job of each client with its current data and memory; nothing is trained yet.

        `travels`: whether the uploads are sent, so that they may be forged and compressed.
        """

    @abstractmethod
    def size(self, upload: Ticket) -> int:
        """Return an upload's bytes on the wire, training it if they are known only then."""

    @abstractmethod
    def numbers(self, upload: Ticket) -> int:
        """Return the count of numbers in an upload, before compression."""

    @abstractmethod
    def finite(self, replies: Sequence[Reply]) -> list[bool]:
        """Return for each reply whether all values of its upload are finite, as received."""

    @abstractmethod
    def losses(self, replies: Sequence[Reply]) -> list[float]:
        """Return the loss that came with each reply; NaN where the job has not trained."""

    @abstractmethod
    def masses(self, replies: Sequence[Reply]) -> list[float]:
        """Return each reply's weight in a mean over several servers' clients."""

    @abstractmethod
    def operations(self, state: Ticket, replies: Sequence[Reply], step: str) -> float:
        """Return the floating-point operations of folding these replies."""

    @abstractmethod
    def fold(self, state: Ticket, replies: Sequence[Reply], step: str) -> Folded:
        """Fold one or more replies, in order."""

    @abstractmethod
    def share(self, state: Ticket, sender: int | None = None) -> Share:
        """Return the part of a state that travels; a peer's (`sender`) may be forged and compressed."""

    @abstractmethod
    def mix(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> Ticket:
        """Return the state after merging shares."""

    @abstractmethod
    def score(self, states: States) -> Scores:
        """Score every client on the periods it has met, and on all periods if that split was asked for."""

    @abstractmethod
    def score_unmet(self, states: States, arrived: "Sequence[tuple[int, Period]]") -> Scores:
        """Score models on periods that have just arrived, before they are trained on them."""

    @abstractmethod
    def arrive(self, client: int, period: "Period") -> None:
        """Hand a client this period's graph; a job that has begun does not see it."""

    @abstractmethod
    def done(self, client: int, upload: Ticket) -> None:
        """Note that a client has finished a job, which now determines its memory."""

    def all_done(self, clients: Sequence[int], uploads: Tickets, places: Sequence[int]) -> None:
        """Note the same of several clients, whose uploads are at these places."""
        for client, place in zip(clients, places, strict=True):
            self.done(client, uploads[place])

    @abstractmethod
    def dropped(self, upload: Ticket) -> None:
        """Note that a job was interrupted: it has no effect."""

    @abstractmethod
    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Note that a client's last job never began: the next one reuses its number, and thus its seed."""

    @abstractmethod
    def drawn(self, chosen: int, among: int) -> None:
        """Note that `chosen` clients were drawn uniformly out of `among`."""

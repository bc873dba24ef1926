"""The contracts of a learner (what the clock asks it, for whole cohorts at a time, and reports to it) and its backend.

Questions have plain answers (tickets, numbers, names, rows of scores), which depend on earlier questions and reports
but never on time.  Reports have no answer.  `live.Live` answers by asking the algorithm, `recorded.Recorded` also keeps
a record of its answers and can replay it.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from fedsim.core.arrays import Floats, Ints
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Job
from fedsim.learn.replies import Reply
from fedsim.learner.ticket import Share, Ticket, Tickets

if TYPE_CHECKING:
    from fedsim.data.graph import Period

States = Ticket | Mapping[int, Ticket]  # one state for all clients, or each client's own
ScoreBlocks = list[dict[str, Any]]  # blocks of the table of scores, without time and version


class CohortWork(NamedTuple):
    """The uploads of a cohort, in its order, and the floating-point operations (K,) that its jobs take."""

    uploads: Tickets
    operations: Floats


class Opened(NamedTuple):
    """Replies as received: those that can be aggregated, in the order given, and those that are not finite.

    `losses` are those that came with the accepted replies, NaN where a job has not trained; empty unless clients report
    them.  `operations` are the floating-point operations of aggregating the accepted replies.
    """

    accepted: Sequence[Reply]
    refused: Sequence[Reply]
    losses: Sequence[float]
    operations: float


class Aggregated(NamedTuple):
    """The state after an update (the same ticket if unchanged), and epsilon, None without differential privacy."""

    state: Ticket
    epsilon: float | None


class Scores(NamedTuple):
    """Blocks of rows, and the mean of the first metric, None if nothing was scored."""

    rows: ScoreBlocks
    headline: float | None


class Payloads(ABC):
    """What travels in an exchange, down and up, and the work in between: that of a learner, or of secure aggregation.

    `span` is the name of that work in the table of spans.
    """

    span: ClassVar[str] = "train"

    @abstractmethod
    def downloads(self, state: Ticket, clients: Sequence[int], step: str) -> Tickets:
        """Return each client's download."""

    @abstractmethod
    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Ticket | None], *, travels: bool = True
    ) -> CohortWork:
        """Begin a job of each client with its current data and memory; nothing is trained yet.

        `travels`: whether the uploads are sent, so that they may be forged and compressed.
        """

    @abstractmethod
    def size(self, client: int, upload: Ticket) -> int:
        """Return the bytes of a client's upload on the wire, training it if they are known only then."""

    @abstractmethod
    def sizes(self, clients: Sequence[int], uploads: Tickets) -> Ints:
        """Return the bytes (K,) of these clients' uploads."""

    @abstractmethod
    def done(self, clients: Sequence[int], uploads: Sequence[Ticket]) -> None:
        """Note that clients have finished their jobs, which now determine their memory."""

    @abstractmethod
    def dropped(self, upload: Ticket) -> None:
        """Note that a job was interrupted: it has no effect."""

    @abstractmethod
    def withdrawn(self, client: int, upload: Ticket) -> None:
        """Note that a client's last job never began: the next one reuses its number, and thus its seed."""

    def label(self, client: int, download: Ticket) -> tuple[Ticket | None, Tree]:
        """Return what a client receives, for those who record it: the download, and what travels along with it."""
        return download, None


class Learner(Payloads):
    """The learner, as the clock sees it."""

    talks: bool = True  # False if nothing travels: an ask only starts the client's own work
    one_step: bool = False  # True if every round is the one exchange "train", so that nobody asks for steps
    private: bool = False  # True if draws of clients spend privacy, so that it has to be told of them
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
    def numbers(self, upload: Ticket) -> int:
        """Return the count of numbers in an upload, before compression."""

    @abstractmethod
    def open(self, state: Ticket, replies: Sequence[Reply], step: str) -> Opened:
        """Return which replies can be aggregated, and what that takes; nothing is drawn or spent yet."""

    @abstractmethod
    def aggregate(self, state: Ticket, replies: Sequence[Reply], step: str) -> Aggregated:
        """Aggregate one or more accepted replies into the state, in order."""

    @abstractmethod
    def aggregation_weights(self, replies: Sequence[Reply]) -> list[float]:
        """Return each reply's weight in a mean over several servers' clients."""

    @abstractmethod
    def share(self, state: Ticket, sender: int | None = None) -> Share:
        """Return the part of a state that travels; a peer's (`sender`) may be forged and compressed."""

    @abstractmethod
    def mix(self, state: Ticket, shares: Sequence[Share], weights: Sequence[float]) -> Ticket:
        """Return the state after merging shares."""

    @abstractmethod
    def score(self, states: States, arrived: "Sequence[tuple[int, Period]] | None" = None) -> Scores:
        """Score every client on the periods it has met, and on all periods if that split was asked for.

        Or on periods that have just arrived, before models are trained on them.
        """

    @abstractmethod
    def arrive(self, client: int, period: "Period") -> None:
        """Hand a client this period's graph; a job that has begun does not see it."""

    @abstractmethod
    def drawn(self, chosen: int, among: int) -> None:
        """Note that `chosen` clients were drawn uniformly out of `among`."""


class Promise(Protocol):
    """The upload of a job that may not have been trained yet."""

    @property
    def job(self) -> Job:
        """The job."""

    @property
    def declared(self) -> int | None:
        """The encoded size, None if it is known only after training."""

    @property
    def like(self) -> Tree | None:
        """A tree of the upload's size, None if it is known only after training."""

    @property
    def nbytes(self) -> int:
        """The encoded size."""

    def value(self) -> Tree:
        """Return the upload, after training all pending jobs."""

    def memory(self) -> dict[str, Any]:
        """Return the client's memory as the job leaves it."""

    def cancel(self) -> None:
        """Forget the job."""


class Backend(Protocol):
    """Executes jobs: a cohort that trains, or a stand-in that does not."""

    def submit(self, job: Job) -> Promise:
        """Queue a job."""

    def flops(self, job: Job) -> float:
        """Return the floating-point operations that the job takes."""

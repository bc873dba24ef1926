"""Trained: the values behind the tickets, made by an algorithm and by a backend that trains as late as possible.

Values go in and come out; who holds them, and under which keys, is for `recorded.py`.  A job sees the download, the
data and the memory of the moment at which it began.  It models no time: how long work takes is for the clock to say.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fedsim.core import wire
from fedsim.core.seeds import Streams
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Algorithm, Job, Reply, State
from fedsim.learner import transforms
from fedsim.learner.client import Client, Clients
from fedsim.learner.contract import Scores
from fedsim.learner.transforms import Sent
from fedsim.learner.upload import Promise, Transform, Upload
from fedsim.net.codec import Codec
from fedsim.net.finite import is_finite
from fedsim.net.forged import Forgers

if TYPE_CHECKING:
    from fedsim.data.graph import Period
    from fedsim.learner.release import Release
    from fedsim.learner.scoring import Scoring


class Backend(Protocol):
    """Who does the work: a cohort that trains (`learn/cohort.py`), or one that does not."""

    def submit(self, job: Job) -> Promise:
        """Queue a job."""
        ...

    def flops(self, job: Job) -> float:
        """Return the floating-point operations that the job takes."""
        ...


class Trained:
    """An algorithm at work; `rng` gives the random stream of a name, which belongs to the learner alone.

    `up` and `down` compress what travels to the server and from it, `forgers` are the byzantine clients, `guard` makes
    private what is folded, and `scoring` scores; the last two are None where the scenario asks for neither.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        backend: Backend,
        rng: Streams,
        *,
        up: Codec | None = None,
        down: Codec | None = None,
        forgers: Forgers | None = None,
    ) -> None:
        """Begin with clients that hold nothing."""
        self.algorithm, self.backend, self.rng = algorithm, backend, rng
        self.up, self.down = up, down
        self.forgers = Forgers([]) if forgers is None else forgers
        self.guard: Release | None = None
        self.scoring: Scoring | None = None
        self.clients = Clients()
        self._compressed = [] if up is None else [transforms.compressed(up, rng)]

    def start(self) -> State:
        """Return the first state."""
        return self.algorithm.start()

    def steps(self, state: State) -> list[str]:
        """Return the exchanges of a round."""
        return [*self.algorithm.steps(state)]

    def more(self, state: State, step: str) -> list[str]:
        """Return the exchanges that the outcome of a step calls for."""
        return [*self.algorithm.more(state, step)]

    def downloads(self, state: State, clients: Sequence[int], step: str) -> list[Sent]:
        """Return what each client is sent."""
        sizes = wire.Sizes()  # most of a cohort are sent the same parts
        return [
            transforms.sent_down(self.down, self.algorithm.download(state, client, step), client, self.rng, sizes)
            for client in clients
        ]

    def work(self, client: int, step: str, download: Tree, seed: int, travels: bool) -> tuple[Upload, float]:
        """Return the upload of a job that begins now, and the operations that it takes."""
        owner = self.clients[client]
        job = Job(client, step, owner.period, download, owner.data, dict(owner.memory), seed)  # type: ignore[arg-type]
        upload = self.upload(self.backend.submit(job), owner, step, travels)
        return upload, float(self.backend.flops(job))

    def upload(self, promise: Promise, owner: Client, step: str, travels: bool) -> Upload:
        """Return the upload of a promise, with all that happens to it on its way."""
        return Upload(promise, owner, step, self._transforms(owner.number) if travels else ())

    def finite(self, upload: Upload) -> bool:
        """Return whether all values of an upload are finite, as it is received."""
        return is_finite(upload.value())

    def mass(self, reply: Reply) -> float:
        """Return how much an opened reply weighs."""
        return float(self.algorithm.mass(reply))

    def operations(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the operations of folding opened replies."""
        return float(self.algorithm.server_flops(state, replies, step))

    def fold(self, state: State, replies: Sequence[Reply], step: str) -> tuple[State, float | None]:
        """Return the state after folding opened replies, and epsilon."""
        if self.guard is None:
            return self.algorithm.update(state, replies, step), None
        self.guard.spend([reply.client for reply in replies])
        return self.algorithm.update(state, self.guard.release(replies), step), self.guard.epsilon

    def share(self, state: State, sender: int | None) -> tuple[Sent, bool, float]:
        """Return what travels of a state, whether it is finite, and the operations of merging it."""
        tree = self.algorithm.share(state)
        if sender is None:
            sent = Sent(tree, tree, wire.size(tree))
        else:
            sent = transforms.sent_between_peers(self.up, self.forgers, tree, sender, self.rng)
        return sent, sender is None or is_finite(sent.tree), wire.array_bytes(sent.tree) / 2

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state after merging shares."""
        return self.algorithm.mix(state, shares, weights)

    def score(self, state_of: Callable[[int], State]) -> Scores:
        """Score what clients have met."""
        return Scores([], None) if self.scoring is None else self.scoring.met(state_of)

    def score_unmet(self, state_of: Callable[[int], State], arrived: "Sequence[tuple[int, Period]]") -> Scores:
        """Score what clients have not met yet."""
        return Scores([], None) if self.scoring is None else self.scoring.unmet(state_of, arrived)

    def _transforms(self, client: int) -> list[Transform]:
        if client not in self.forgers:
            return self._compressed
        return [transforms.forged(self.forgers, client, self.rng), *self._compressed]


def opened(reply: Any, download: Tree, upload: Upload) -> Reply:
    """Return a reply as an algorithm has it, with the trees in place of its tickets."""
    return Reply(reply.client, reply.version, download, upload.value(), reply.weight, reply.ask)

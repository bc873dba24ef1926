"""Trained: computes the values behind the tickets, with an algorithm and a backend that trains as late as possible.

Values go in and come out; `recorded.py` keeps them, by key.  A job sees the download, the data and the memory of the
moment at which it began.  Not modelled: time; how long work takes is up to the clock.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from fedsim.core import wire
from fedsim.core.seeds import Streams
from fedsim.core.wire import Tree
from fedsim.learn import reported
from fedsim.learn.algorithm import Algorithm, Job, Reply, State
from fedsim.learn.replies import Replies, clients_of
from fedsim.learner import batch, ticket, transforms
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
    """Executes jobs: a cohort that trains (`learn/cohort.py`), or a stand-in that does not."""

    def submit(self, job: Job) -> Promise:
        """Queue a job."""
        ...

    def flops(self, job: Job) -> float:
        """Return the floating-point operations that the job takes."""
        ...


class Trained:
    """An algorithm at work; `rng` returns the random stream of a name, from streams of the learner alone.

    `up` and `down` compress uploads and downloads, `forgers` are the byzantine clients, `guard` applies differential
    privacy to what is folded, and `scoring` scores; the last two are None unless the scenario asks for them.  With
    `reports` every upload that travels carries the client's loss.
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
        reports: bool = False,
    ) -> None:
        """Start with clients without data."""
        self.reports = reports
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
        """Return further exchanges that the result of a step requires."""
        return [*self.algorithm.more(state, step)]

    def downloads(self, state: State, clients: Sequence[int], step: str) -> list[Sent]:
        """Return the download of each client; clients that are sent the same parts share it."""
        trees = [self.algorithm.download(state, client, step) for client in clients]
        if self.down is None:
            sizes, whole = wire.Sizes(), dict[Any, Sent]()
            parts = [wire.identities(tree) if type(tree) is dict else id(tree) for tree in trees]
            for part, tree in zip(parts, trees, strict=True):
                if part not in whole:
                    whole[part] = Sent(tree, tree, sizes.of(tree))
            return [whole[part] for part in parts]
        asked = zip(trees, clients, strict=True)
        return [transforms.sent_down(self.down, tree, client, self.rng) for tree, client in asked]

    def work(
        self, clients: Sequence[int], step: str, downloads: Sequence[Tree], seeds: Sequence[int], travels: bool
    ) -> tuple[list[Upload], list[float]]:
        """Return the uploads of jobs that begin now, and the operations that they take."""
        uploads, operations, submit, flops = [], [], self.backend.submit, self.backend.flops
        for client, download, seed in zip(clients, downloads, seeds, strict=True):
            owner = self.clients[client]
            memory = {**owner.memory}
            memory.pop(reported.KEY, None)
            job = Job(client, step, owner.period, download, owner.data, memory, seed)  # type: ignore[arg-type]
            uploads.append(self.upload(submit(job), owner, step, travels))
            operations.append(float(flops(job)))
        return uploads, operations

    def upload(self, promise: Promise, owner: Client, step: str, travels: bool) -> Upload:
        """Return the upload of a promise, with its transforms."""
        if not travels:
            return Upload(promise, owner, step)
        return Upload(promise, owner, step, self._transforms(owner.number), reported.BYTES if self.reports else 0)

    def losses(self, uploads: Sequence[Upload]) -> list[float]:
        """Return the loss that each upload carries; NaN where the job has not trained."""
        return [reported.of(upload.promise.memory()) for upload in uploads]

    def finite(self, upload: Upload) -> bool:
        """Return whether all values of an upload are finite, as received."""
        return is_finite(upload.value())

    def finite_all(self, uploads: Sequence[Upload]) -> list[bool]:
        """Return the same of several uploads; where they share a value, as those of traffic do, it is read once."""
        values = [upload.value() for upload in uploads]
        found = {place: is_finite(value) for place, value in {id(value): value for value in values}.items()}
        return [found[id(value)] for value in values]

    def mass(self, reply: Reply) -> float:
        """Return an opened reply's weight in a mean over several servers' clients."""
        return float(self.algorithm.mass(reply))

    def operations(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the operations of folding opened replies."""
        return float(self.algorithm.server_flops(state, replies, step))

    def fold(self, state: State, replies: Sequence[Reply], step: str) -> tuple[State, float | None]:
        """Return the state after folding opened replies, and epsilon, None without differential privacy."""
        if self.guard is None:
            return self.algorithm.update(state, replies, step), None
        self.guard.spend(clients_of(replies))
        return self.algorithm.update(state, self.guard.release(replies), step), self.guard.epsilon

    def share(self, state: State, sender: int | None) -> tuple[Sent, bool, float]:
        """Return the part of a state that travels, whether it is finite, and the operations of merging it."""
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
        """Score clients on the periods they have met."""
        return Scores([], None) if self.scoring is None else self.scoring.met(state_of)

    def score_unmet(self, state_of: Callable[[int], State], arrived: "Sequence[tuple[int, Period]]") -> Scores:
        """Score clients on periods they have not met yet."""
        return Scores([], None) if self.scoring is None else self.scoring.unmet(state_of, arrived)

    def _transforms(self, client: int) -> list[Transform]:
        if client not in self.forgers:
            return self._compressed
        return [transforms.forged(self.forgers, client, self.rng), *self._compressed]


def opened(replies: Sequence[ticket.Reply], uploads: Sequence[Upload]) -> Replies:
    """Return replies as an algorithm sees them, with trees in place of tickets."""

    def reply(place: int, upload: Tree) -> Reply:
        one = replies[place]
        download = None if one.download is None else one.download.value.tree
        return Reply(one.client, one.version, download, upload, one.weight, one.ask)

    plain = isinstance(replies, batch.Replies)
    weights = [1.0] * len(replies) if plain else [one.weight for one in replies]
    return Replies(batch.clients_of(replies), [upload.value() for upload in uploads], weights, reply)

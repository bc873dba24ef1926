"""The contract of an algorithm: what is computed and what is sent, never when or with whom.

An algorithm is a frozen dataclass of hyper-parameters, and of the `Context` that a run hands in.  State goes in and
comes out, so that old versions cost nothing.  `work` reads like a script for one client, and yields a `Fit` to train.

Everything random in an algorithm draws from a generator seeded by `job.seed` (on a client) or by `task.seed` and
something kept in the state (on the server), never from torch's default generator, whose order depends on batching.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar

from fedsim.core import mean, wire
from fedsim.core.errors import UserError
from fedsim.core.span import Span
from fedsim.core.wire import Tree
from fedsim.learn.replies import uploads_of
from fedsim.learn.sight import Seen, Sight

if TYPE_CHECKING:
    from torch import Tensor

    from fedsim.data.graph import Graph
    from fedsim.data.temporal import Overview
    from fedsim.learn.model import Model
    from fedsim.learn.task import Task

State = dict[str, Any]  # of the server, with the algorithm's own keys
Memory = Mapping[str, Any]  # of a client, read-only


@dataclass(frozen=True, eq=False)
class Job:
    """One client's local work, as the client sees it at the moment it begins.

    `memory` belongs to the client: it outlives jobs and never travels.  Entries are replaced, never changed in place,
    so that an interrupted job has no effect.
    """

    client: int
    step: str
    period: int
    download: Tree
    data: Graph
    memory: dict[str, Any]
    seed: int


@dataclass(frozen=True, eq=False)
class Fit:
    """A request for training; those of many clients may be trained at once.

    `loss` takes (parameters, graph, given), all with a leading client axis K, and returns (K,).  `given` is a tree of
    arrays and graphs that it reads as constants.  The optimiser's state is kept in the client's memory under `slot`;
    None starts afresh.  `steps` is the range of local steps, if a job is trained in several parts.  `each` trains
    client by client, for a loss that cannot keep the client axis.

    `correct` changes gradients before the optimiser uses them.  It is called in every local step, after the backward
    pass and before clipping, weight decay and momentum, with (gradients, given), and returns the gradients to use:

    - Both carry the client axis.  A weight (F, H) in `start` has the gradient (K, F, H), which is zero where the loss
      does not depend on it; a tensor of `given` is stacked the same way, and a number of `given` is a tensor (K,).
    - What it returns is subtracted, times the learning rate.  A term that is added here moves the parameters against
      itself: to pull them towards w, add (parameters - w), not the reverse.
    - It returns a tree of the form of `start`, of new tensors, and reads nothing but its arguments and the algorithm's
      options: one call serves many clients.

    It sees no parameter; a correction that depends on them belongs in `loss`.  SCAFFOLD is the example
    (algorithms/scaffold.py).
    """

    start: Tree
    loss: Callable[[Tree, Graph, Tree], Tensor]
    given: Tree = None
    data: Graph | None = None
    correct: Callable[[Tree, Tree], Tree] | None = None
    slot: str | None = "model"
    each: bool = False
    steps: tuple[int, int | None] = (0, None)


Work = Generator[Fit, Tree, Tree]  # yields requests, is sent trained parameters, returns the upload


@dataclass(frozen=True, eq=False)
class Reply:
    """A client's reply to an ask: the version that it started from, its download and its upload.

    `weight` is the protocol's discount for staleness, `ask` the number of the ask.
    """

    client: int
    version: int
    download: Tree
    upload: Tree
    weight: float = 1.0
    ask: int = 0


@dataclass(frozen=True, eq=False)
class Context:
    """What a run provides to its algorithm beside the algorithm's own options; constant during the run."""

    task: Task  # what is learned, and the model that learns it
    _: KW_ONLY
    learning_rate: float  # of the clients' optimiser
    local_steps: int  # training steps of a job
    momentum: float  # of the clients' optimiser, 0 unless it is SGD
    clients: int  # number of clients, those that are offline included
    overview: Overview | None = None  # the whole graph at all times and who owns which vertex, where it changes
    optimiser: str = "sgd"  # the clients' optimiser, as training.optimiser names it
    schedule: str = "constant"  # the course of its rate over a job's steps
    clip: float | None = None  # largest norm of a client's gradient
    alone: bool = False  # whether each client has a state of its own, which folds only its own replies


if TYPE_CHECKING:
    Handed = Context | None
else:
    Handed = Any  # not validated, which would need torch: no scenario has a context


@dataclass(frozen=True, eq=False)
class Algorithm(ABC):
    """A federated algorithm: its subclasses are frozen dataclasses whose fields are its options.

    A run passes in its context with `dataclasses.replace(algorithm, context=...)` before it starts.  An option may not
    have the name of anything that this class has: it would replace it, for all that is inherited too.
    """

    context: Handed = field(default=None, kw_only=True, repr=False, compare=False, metadata={"option": False})
    title: ClassVar[str] = ""  # the published name, where the class's own name is another; not inherited
    talks: ClassVar[bool] = True  # False where nothing travels: an ask only starts the client's own work
    learns: ClassVar[bool] = True  # False where nothing is trained: no data, no model, no scores
    prepares: ClassVar[frozenset[str]] = frozenset()  # steps that leave the model as it is, and count no update
    tunes: ClassVar[Mapping[str, Span]] = {}  # which hyper-parameters `--tune` searches, and where
    own_steps: ClassVar[bool] = False  # True where `steps` names other exchanges than "train" (see `declared`)
    sees_more: ClassVar[bool] = False  # True where `sees` or `sees_all` adds to the graph (see `declared`)
    sees_past: ClassVar[bool] = False  # True where `sees` also knows earlier periods' graphs, so that all are scored
    pairs: ClassVar[bool] = False  # True where any model that a task judges pairs with will do (see `declared`)
    evolves: ClassVar[bool] = False  # True where `work` turns models whose weights evolve (see `declared`)

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise UserError, with the remedy, for an option or a method that would replace what a run provides."""
        super().__init_subclass__(**options)
        provided = {"context", *(one.name for one in fields(Context))} & vars(Algorithm).keys()
        for owner in cls.__mro__:
            if owner in Algorithm.__mro__:
                continue
            annotated = {name for name, kind in get_annotations(owner).items() if "ClassVar" not in str(kind)}
            if hidden := sorted(provided & vars(owner).keys() | vars(Algorithm).keys() & annotated):
                name, whose = hidden[0], f"{owner.__name__} ({owner.__module__})"
                has = "a run provides to every algorithm" if name in provided else "every algorithm has"
                remedy = f"give the option another name, such as own_{name}"
                raise UserError(f"{whose} defines {name!r}, which is the name of something that {has}: {remedy}")

    @property
    def task(self) -> Task:
        """The task, with the model that learns it."""
        return self._given.task

    @property
    def overview(self) -> Overview | None:
        """The whole graph at all times and who owns which vertex, for servers that know it; None where it is static."""
        return self._given.overview

    @property
    def learning_rate(self) -> float:
        """The learning rate of the clients' optimiser."""
        return self._given.learning_rate

    @property
    def local_steps(self) -> int:
        """The training steps of a job."""
        return self._given.local_steps

    @property
    def momentum(self) -> float:
        """The momentum of the clients' optimiser, 0 unless it is SGD."""
        return self._given.momentum

    @property
    def clients(self) -> int:
        """The number of clients, those that are offline included."""
        return self._given.clients

    @property
    def _given(self) -> Context:
        if self.context is None:
            name = type(self).__name__
            hint = "pass one in with dataclasses.replace(algorithm, context=Context(...))"
            raise RuntimeError(f"{name} has no context yet, which a run passes in before it starts; elsewhere, {hint}")
        return self.context

    def tunable(self) -> Mapping[str, Span]:
        """Return those of `tunes` that change something with the other options as they are: what `--tune` searches."""
        return self.tunes

    def backbone(self, model: Model) -> Model:
        """Return the model that is trained: the scenario's, or one of the algorithm's own of the scenario's size."""
        return model

    @abstractmethod
    def start(self) -> State:
        """Return the server's first state."""

    @abstractmethod
    def download(self, state: State, client: int, step: str) -> Tree:
        """Return what the server sends this client."""

    @abstractmethod
    def work(self, job: Job) -> Tree | Work:
        """Return what the client sends back; a generator may yield `Fit`s on the way."""

    @abstractmethod
    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state after folding these replies (one at least)."""

    def steps(self, state: State) -> Sequence[str]:
        """Return the exchanges of the next round, all with the same cohort; none means that nothing is sent."""
        return ("train",)

    def more(self, state: State, step: str) -> Sequence[str]:
        """Return further exchanges that the result of this step requires before the round continues."""
        return ()

    @property
    def averages(self) -> bool:
        """Whether it uses nothing of uploads but the weighted mean of their "update" (see `declared`).

        Only then can privacy be guaranteed, as the mean may come from a masked sum, or with noise.  Uploads may hold
        "samples" as the weight and nothing else.  A class declares it with `averages = True`.
        """
        return False

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters that the server would have this client predict with."""
        return state["model"]

    def common(self, state: State) -> Tree | None:
        """Return the common model of all clients, used for pooled tests, or None if there is none."""
        return state["model"]

    def personal(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters that the client's last job left in its memory, or else the predictor."""
        own = memory.get("local")
        return self.predictor(state, client, memory) if own is None else own

    @property
    def recalls(self) -> bool:
        """Whether `sees_all` knows what clients knew in each period, so that all are scored, each as of its own."""
        return False

    def sees(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph with what the client knows of its vertices, such as the states of a recurrent model.

        Vertices that it knows of beside the graph's own come after these.  If an algorithm overrides this, only each
        client's latest period is scored, to which that knowledge belongs, unless it declares `sees_past` or `recalls`.
        """
        return graph

    def sees_all(self, sights: Sequence[Sight]) -> Sequence[Seen]:
        """Return what clients that are scored together see, and the bytes of it: by default `sees`, and none."""
        return [Seen(self.sees(sight.memory, sight.graph)) for sight in sights]

    def share(self, state: State) -> Tree:
        """Return the part of the state that peers (gossip), or edge aggregators and the cloud, send each other."""
        return {"model": state["model"]}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state after merging shares, by default their weighted mean; one's own share may be among them."""
        return {**state, "model": mean.weighted([share["model"] for share in shares], weights)}

    def mass(self, reply: Reply) -> float:
        """Return a reply's weight in a mean over several servers' clients, in any unit; not negative."""
        return 1.0

    def flops(self, job: Job) -> float:
        """Return the operations of a job; used only if the algorithm does not learn: else the task estimates them."""
        return 0.0

    def upload_like(self, job: Job) -> Tree | None:
        """Return a tree of the upload's size, or None if it is known only after training."""
        return None

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state after these replies as far as sizes and operations hang on it, for `--explain`.

        Nothing is computed: uploads hold zeros.  An algorithm that sends something once notes here who has it, as its
        `update` does.
        """
        return state

    def dry_work(self, job: Job) -> None:  # noqa: B027 -- most leave nothing of the kind
        """Note in the memory what a job leaves there that sizes and operations of later ones hang on.

        As `dry_update`, without training, and the same whether it is called once or twice for a job.
        """

    def effort(self, job: Job) -> float:
        """Return this job's training cost as a multiple of the task's estimate."""
        return 1.0

    def extra_steps(self, job: Job) -> float:
        """Return the job's work beside training, in multiples of the task's estimate of one training step."""
        return 0.0

    @property
    def ranks_replies(self) -> bool:
        """Whether the server compares the replies of a cohort, so that it cannot fold them one at a time."""
        return False

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the operations of one update on the server: by default, a multiply-add per received number."""
        return sum(wire.array_bytes(upload) / 2 for upload in uploads_of(replies))


DECLARED: Mapping[str, tuple[frozenset[str], bool]] = {  # the methods that each is about, and the safe answer
    "averages": (frozenset({"update", "upload_like", "steps"}), False),
    "aggregates": (frozenset({"update"}), False),
    "own_steps": (frozenset({"steps"}), True),
    "sees_more": (frozenset({"sees", "sees_all"}), True),
    "evolves": (frozenset({"work"}), False),
    "pairs": (frozenset({"backbone", "start", "work", "fit", "loss", "update", "sees", "sees_all"}), False),
}


def declared(algorithm: Algorithm, name: str) -> bool:
    """Return what an algorithm's class declares about its methods, or else the safe default.

    A declaration covers the class that makes it and its bases.  A subclass that overrides one of the methods without
    declaring again gets the safe default: privacy is not guaranteed for an `update` by what a base class declared.
    """
    methods, safe = DECLARED[name]
    for owner in type(algorithm).__mro__:
        if name in vars(owner):
            return bool(getattr(algorithm, name))
        if methods & vars(owner).keys():
            break
    return safe


def title_of(cls: type[Algorithm]) -> str:
    """Return an algorithm's name in reports: the title of this very class, or else the class's name."""
    return str(vars(cls).get("title") or cls.__name__)

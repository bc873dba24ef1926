"""The contract of an algorithm: what is computed and what is sent, never when or with whom.

An algorithm is a frozen dataclass of hyper-parameters, and of the `Context` that a run hands in.  State goes in and
comes out, so that old versions cost nothing.  `work` reads like a script for one client, and yields a `Fit` to train.

Everything random in an algorithm draws from a generator seeded by `job.seed` (on a client) or by `task.seed` and
something kept in the state (on the server), never from torch's default generator, whose order depends on batching.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fedsim.core import mean, wire
from fedsim.core.span import Span
from fedsim.core.wire import Tree

if TYPE_CHECKING:
    from torch import Tensor

    from fedsim.data.graph import Graph
    from fedsim.data.temporal import Overview
    from fedsim.learn.model import Model
    from fedsim.learn.task import Task

State = dict[str, Any]  # the server's, by names of the algorithm's own
Memory = Mapping[str, Any]  # a client's, as others may read it


@dataclass(frozen=True, eq=False)
class Job:
    """One client's local work, as the client sees it at the moment it begins.

    `memory` is the client's own notebook: it survives jobs and never travels.  Entries are replaced, never changed
    in place, so that an interrupted job leaves no trace.
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
    """A request for training: the cohort may train many at once.

    `loss` takes (parameters, graph, given) with a leading client axis K everywhere and returns (K,).  `given` are
    constants that it reads: a tree of arrays and graphs.  The optimiser's state is kept in the client's memory under
    `slot`; None starts afresh.  `steps` are the first and the end of the local steps that it takes, of a job that is
    trained in parts.  `each` trains client by client, for a loss that cannot keep the client axis.

    `correct` changes gradients on their way to the optimiser.  It is called in every local step, after the backward
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


Work = Generator[Fit, Tree, Tree]  # a client's work that trains: yields wishes, is sent parameters, returns the upload


@dataclass(frozen=True, eq=False)
class Reply:
    """What an ask has brought: the client, the version it had started from, what it was sent and what came back.

    `weight` is the protocol's discount for staleness, `ask` the number of the ask that brought it.
    """

    client: int
    version: int
    download: Tree
    upload: Tree
    weight: float = 1.0
    ask: int = 0


@dataclass(frozen=True, eq=False)
class Context:
    """What a run tells its algorithm beside the algorithm's own options, the same for the whole run."""

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
    alone: bool = False  # whether each client continues from a state of its own, which folds nobody else's replies


if TYPE_CHECKING:
    Handed = Context | None
else:
    Handed = Any  # no scenario holds a context: nothing checks its type, which would need torch


@dataclass(frozen=True, eq=False)
class Algorithm(ABC):
    """A federated algorithm: its subclasses are frozen dataclasses whose fields are its options.

    A run hands in its context with `dataclasses.replace(algorithm, context=...)` before it starts.
    """

    context: Handed = field(default=None, kw_only=True, repr=False, compare=False, metadata={"option": False})
    title: ClassVar[str] = ""  # the published name, where the class's own name is another; not inherited
    talks: ClassVar[bool] = True  # False where nothing travels: an ask only starts the client's own work
    learns: ClassVar[bool] = True  # False where nothing is trained: no data, no model, no scores
    prepares: ClassVar[frozenset[str]] = frozenset()  # steps that leave the model as it is, and count no update
    tunes: ClassVar[Mapping[str, Span]] = {}  # which hyper-parameters `--tune` searches, and where
    own_steps: ClassVar[bool] = False  # True where `steps` names other exchanges than "train" (see `declared`)
    sees_more: ClassVar[bool] = False  # True where `sees` adds something to the graph (see `declared`)

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
            hint = "hand one in with dataclasses.replace(algorithm, context=Context(...))"
            raise RuntimeError(f"{name} has no context yet, which a run hands in before it starts; elsewhere, {hint}")
        return self.context

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
        """Return the exchanges of the coming round, all with the same cohort; none means that nothing is sent."""
        return ("train",)

    def more(self, state: State, step: str) -> Sequence[str]:
        """Return the exchanges that what this step has brought calls for before the round goes on."""
        return ()

    @property
    def averages(self) -> bool:
        """Whether all that it learns from uploads is the weighted mean of their "update" (see `declared`).

        Only then can privacy be promised: the mean may come from a masked sum, or with noise.  "samples" may be the
        weight beside it, nothing else.  A class declares it with `averages = True`.
        """
        return False

    def predictor(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters that the server would have this client predict with."""
        return state["model"]

    def common(self, state: State) -> Tree | None:
        """Return the one model that stands for all clients, which pooled tests ask, or None where there is none."""
        return state["model"]

    def personal(self, state: State, client: int, memory: Memory) -> Tree:
        """Return the parameters that the client's last job left it with, or the predictor where there was none."""
        own = memory.get("local")
        return self.predictor(state, client, memory) if own is None else own

    def sees(self, memory: Memory, graph: Graph) -> Graph:
        """Return the graph with what the client knows of its vertices beside it, such as states of a recurrent model.

        Vertices that it knows of elsewhere come behind the graph's own.
        Where an algorithm overrides this only each client's latest period is scored: what it knows is of now.
        """
        return graph

    def share(self, state: State) -> Tree:
        """Return what travels between peers (gossip), and between edge aggregators and the cloud."""
        return {"model": state["model"]}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state after merging shares, one's own among them where it is to count: their weighted mean."""
        return {**state, "model": mean.weighted([share["model"] for share in shares], weights)}

    def mass(self, reply: Reply) -> float:
        """Return how much an opened reply weighs in a mean over several servers' clients; any unit, not negative."""
        return 1.0

    def flops(self, job: Job) -> float:
        """Return the operations of a job of an algorithm that does not learn; else the task tells them."""
        return 0.0

    def upload_like(self, job: Job) -> Tree | None:
        """Return a tree of the upload's size, or None where only the finished work tells it."""
        return None

    def effort(self, job: Job) -> float:
        """Return how many times the task's own estimate of training this job takes."""
        return 1.0

    def extra_steps(self, job: Job) -> float:
        """Return how many training steps' work the job takes beside its training (the task's estimate of one step)."""
        return 0.0

    @property
    def ranks_replies(self) -> bool:
        """Whether the server compares the replies of a cohort, which one reply at a time does not allow."""
        return False

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the server's work of one update in floating-point operations: a multiply-add a received number."""
        return sum(wire.array_bytes(reply.upload) / 2 for reply in replies)


DECLARED: Mapping[str, tuple[frozenset[str], bool]] = {  # the methods that each is about, and the safe answer
    "averages": (frozenset({"update", "upload_like", "steps"}), False),
    "aggregates": (frozenset({"update"}), False),
    "own_steps": (frozenset({"steps"}), True),
    "sees_more": (frozenset({"sees"}), True),
}


def declared(algorithm: Algorithm, name: str) -> bool:
    """Return what an algorithm's class declares of its methods, or the safe answer where it does not.

    A declaration speaks for the class that makes it and for those above.  A subclass that overrides one of the methods
    that it is about, without declaring it anew, gets the safe answer: no privacy is promised for an `update` by what a
    base class declared of its own.
    """
    methods, safe = DECLARED[name]
    for owner in type(algorithm).__mro__:
        if name in vars(owner):
            return bool(getattr(algorithm, name))
        if methods & vars(owner).keys():
            break
    return safe


def title_of(cls: type[Algorithm]) -> str:
    """Return the name by which reports call an algorithm: the title of the very class, or else the class's name."""
    return str(vars(cls).get("title") or cls.__name__)

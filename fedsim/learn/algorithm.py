"""The contract of an algorithm: what is computed and what is sent, never when or with whom.

An algorithm is a frozen dataclass of hyper-parameters, and of the `Context` that a run hands in.  State goes
in and comes out, so that old versions cost nothing.  `work` reads like a script for one client, and yields a
`Fit` to train.

Everything random in an algorithm draws from a generator seeded by `job.seed` (on a client) or by `task.seed`
and something kept in the state (on the server), never from torch's default generator, whose order depends on
batching.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedsim.core import mean, wire
from fedsim.core.errors import UserError
from fedsim.core.span import Span
from fedsim.core.wire import Tree
from fedsim.learn.job import Fit, Job, Memory, Seen, Sight, State, Work
from fedsim.learn.replies import Disclosed, Reply, uploads_of

if TYPE_CHECKING:
    from torch import Tensor

    from fedsim.data.graph import Graph
    from fedsim.data.time.temporal import Overview
    from fedsim.learn.aggregation import Aggregation
    from fedsim.learn.model import Model, Parameters
    from fedsim.learn.task import Task

# embed: it uses embeddings.  vectors: it makes or changes rows, which are vectors without features of edges.
# own buffers: clients have models of their own, of whose buffers there is no mean.  no buffers: it runs models outside
# of their clients' work, as on the server.
Needs = Literal["embed", "vectors", "own buffers", "no buffers"]
FREE = frozenset({"backbone", "start", "work", "fit", "loss", "update", "sees", "sees_all"})
__all__ = ["Algorithm", "Context", "Disclosed", "Fit", "Job", "Memory", "Reply", "State", "Tree", "Work", "title_of"]


@dataclass(frozen=True, eq=False)
class Context:
    """What a run provides to its algorithm beside the algorithm's own options; constant during the run."""

    task: Task  # what is learned, and the model that learns it
    _: KW_ONLY
    learning_rate: float  # of the clients' optimiser
    local_steps: int  # training steps of a job
    momentum: float  # of the clients' optimiser, 0 unless it is SGD
    clients: int  # number of clients, those that are offline included
    overview: Overview | None = None  # the whole graph at all times and who owns which node, where it changes
    optimiser: str = "sgd"  # the clients' optimiser, as training.optimiser names it
    schedule: str = "constant"  # the course of its rate over a job's steps
    clip: float | None = None  # largest norm of a client's gradient
    alone: bool = False  # whether each client has a state of its own, which folds only its own replies
    aggregation: Aggregation | None = None  # of the differences of a cohort; None: their weighted mean


@dataclass(frozen=True, eq=False)
class Algorithm(ABC):
    """A federated algorithm: its subclasses are frozen dataclasses whose fields are its options.

    A run passes in its context with `dataclasses.replace(algorithm, context=...)` before it starts.  An
    option may not have the name of anything that this class has: it would replace it, for all that is
    inherited too.

    What a class says of its methods (`averages = True`) covers itself and its bases.  A subclass that
    overrides one of these methods says it again, or gets the safe answer (`declares`).
    """

    # not annotated with its type, Context, whose validation would need torch
    context: Any = field(default=None, kw_only=True, repr=False, compare=False, metadata={"option": False})
    title: ClassVar[str] = ""  # the published name, where the class's own name is another; not inherited
    talks: ClassVar[bool] = True  # False where nothing travels: an ask only starts the client's own work
    learns: ClassVar[bool] = True  # False where nothing is trained: no data, no model, no scores
    prepares: ClassVar[frozenset[str]] = frozenset()  # steps that leave the model as it is, and count no update
    tunes: ClassVar[Mapping[str, Span]] = {}  # which hyper-parameters `--tune` searches, and where
    aggregates: ClassVar[bool] = False  # True where `update` follows the scenario's `aggregation`
    averages: ClassVar[bool] = False  # True where uploads are "update" and "samples", and only their mean is used
    own_steps: ClassVar[bool] = False  # True where `steps` names other exchanges than "train"
    any_model: ClassVar[bool] = False  # True where nothing is done with a model that needs fedsim's own layers
    needs: ClassVar[frozenset[Needs]] = frozenset()  # what it asks of a torch module beside that
    discloses: ClassVar[Disclosed | None] = None  # what others can read of a client; None: nobody has said
    any_targets: ClassVar[bool] = False  # True where only the task's loss reads targets, so that they may be numbers
    evolves: ClassVar[bool] = False  # True where a download brought to the client's period is all that `work` needs
    sees_more: ClassVar[bool] = False  # True where `sees` or `sees_all` adds to the graph
    sees_past: ClassVar[bool] = False  # True where `sees` also knows earlier periods' graphs, so that all are scored
    # the methods that each of these is about, and the safe answer
    declares: ClassVar[Mapping[str, tuple[frozenset[str], bool | None]]] = {
        "aggregates": (frozenset({"update"}), False),
        "averages": (frozenset({"update", "upload_like", "steps"}), False),
        "own_steps": (frozenset({"steps"}), True),
        "evolves": (frozenset({"work"}), False),
        "any_model": (FREE, False),
        "any_targets": (FREE, False),
        "discloses": (frozenset({"work", "download"}), None),
        "sees_more": (frozenset({"sees", "sees_all"}), True),
    }

    def __init_subclass__(cls, **options: Any) -> None:
        """Raise UserError, with the remedy, for an option or a method that would replace what a run provides.

        Take back declarations that no longer hold, since one of the methods that they are about is overridden.
        """
        super().__init_subclass__(**options)
        provided = {"context", *(one.name for one in fields(Context))} & vars(Algorithm).keys()
        for owner in cls.__mro__:
            if owner in Algorithm.__mro__:
                continue
            annotated = {name for name, kind in get_annotations(owner).items() if "ClassVar" not in str(kind)}
            if hidden := sorted(provided & vars(owner).keys() | vars(Algorithm).keys() & annotated):
                name, elsewhere = hidden[0], "" if owner is cls else f" ({owner.__module__})"
                has = "a run provides to every algorithm" if name in provided else "every algorithm has"
                remedy = f"give the option another name, such as own_{name}"
                raise UserError(
                    f"{owner.__name__}{elsewhere} defines {name!r}, which is the name of something that {has}: {remedy}"
                )
        for name, (methods, safe) in cls.declares.items():
            nearest = next(owner for owner in cls.__mro__ if vars(owner).keys() & {name, *methods})
            if name not in vars(nearest):
                setattr(cls, name, safe)

    @property
    def task(self) -> Task:
        """The task, with the model that learns it."""
        return (self.context or self._given).task

    @property
    def overview(self) -> Overview | None:
        """The whole graph at all times and who owns which node, for servers that know it; None where it is static."""
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
        return self.context  # type: ignore[no-any-return]

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
        """Return what the client sends back; a generator may yield `Fit` requests on the way."""

    def loss(self, params: Parameters, data: Graph, given: Tree) -> Tensor:
        """Return the task's loss, of each client: what a `Fit` usually descends."""
        return self.task.loss(params, data)

    @abstractmethod
    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state after folding these replies (one at least)."""

    def steps(self, state: State) -> Sequence[str]:
        """Return the exchanges of the next round, all with the same cohort; none means that nothing is sent."""
        return ("train",)

    def more(self, state: State, step: str) -> Sequence[str]:
        """Return further exchanges that the result of this step requires before the round continues."""
        return ()

    # ---- whose parameters predict, and what a client knows of a graph on which it is scored

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
        """Return the graph with what the client knows of its nodes, such as the states of a recurrent model.

        Nodes that it knows of beside the graph's own come after these.  If an algorithm overrides this, only
        each client's latest period is scored, to which that knowledge belongs, unless it declares `sees_past`
        or `recalls`.
        """
        return graph

    def sees_all(self, sights: Sequence[Sight]) -> Sequence[Seen]:
        """Return what clients that are scored together see, and the bytes of it: by default `sees`, and none."""
        return [Seen(self.sees(sight.memory, sight.graph)) for sight in sights]

    # ---- what servers of a tree, or peers, send each other of their states

    def share(self, state: State) -> Tree:
        """Return the part of the state that peers (gossip), or edge aggregators and the cloud, send each other."""
        return {"model": state["model"]}

    def mix(self, state: State, shares: Sequence[Tree], weights: Sequence[float]) -> State:
        """Return the state after merging shares, by default their weighted mean; one's own share may be among them."""
        return {**state, "model": mean.weighted([share["model"] for share in shares], weights)}

    def mass(self, reply: Reply) -> float:
        """Return a reply's weight in a mean over several servers' clients, in any unit; not negative."""
        return 1.0

    # ---- bytes and operations, and what `--explain` needs to know of them

    def flops(self, job: Job) -> float:
        """Return the operations of a job; used only if the algorithm does not learn: else the task estimates them."""
        return 0.0

    def upload_like(self, job: Job) -> Tree | None:
        """Return a tree of the upload's size, or None if it is known only after training."""
        return None

    def untrained_upload(self, job: Job) -> Tree:
        """Return what `work` sends where training changes nothing; the memory stays as it is.

        A class whose work is cheap beside training, and sends as much whatever is learned, can say
        `upload_like = Algorithm.untrained_upload` instead of stating the size itself.
        """
        work, params = self.work(replace(job, memory={**job.memory})), None
        if not isinstance(work, Generator):
            return work
        try:
            while True:
                params = work.send(params).start
        except StopIteration as finished:
            return finished.value

    def dry_update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Return the state after these replies as far as sizes and operations hang on it, for `--explain`.

        Nothing is computed: uploads hold zeros.  If something is sent once, note here who has it, as `update` does.
        """
        return state

    def dry_work(self, job: Job) -> None:  # noqa: B027
        """Note in the memory what a job leaves there that sizes and operations of later ones hang on.

        As `dry_update`, without training, and the same whether it is called once or twice for a job.
        """

    def effort(self, job: Job) -> float:
        """Return this job's training cost as a multiple of the task's estimate."""
        return 1.0

    def extra_steps(self, job: Job) -> float:
        """Return the job's work beside training, in multiples of the task's estimate of one training step."""
        return 0.0

    def server_flops(self, state: State, replies: Sequence[Reply], step: str) -> float:
        """Return the operations of one update on the server: by default, a multiply-add per received number."""
        return sum(wire.array_bytes(upload) / 2 for upload in uploads_of(replies))


def title_of(cls: type[Algorithm]) -> str:
    """Return an algorithm's name in reports: the title of this very class, or else the class's name."""
    return str(vars(cls).get("title") or cls.__name__)

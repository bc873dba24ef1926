"""What an algorithm is handed: a client's job, with what it may ask for on the way, and graphs to predict on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedsim.core.wire import Tree

if TYPE_CHECKING:
    from torch import Tensor

    from fedsim.data.graph import Graph

State = dict[str, Any]  # of the server, with the algorithm's own keys
Memory = Mapping[str, Any]  # of a client, read-only


@dataclass(frozen=True, eq=False)
class Job:
    """One client's local work, as the client sees it at the moment it begins.

    `memory` belongs to the client: it outlives jobs and never travels.  Entries are replaced, never changed
    in place, so that an interrupted job has no effect.
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

    `loss` takes (parameters, graph, given), all with a leading client axis K, and returns (K,).  `given` is a
    tree of arrays and graphs that it reads as constants.  A loss that takes gradients itself takes those by
    `task.model.variables(parameters)`.  The optimiser's state is kept in the client's
    memory under `slot`; None starts afresh.  `steps` is the range of local steps, if a job is trained in
    several parts.  `each` trains client by client, for a loss that cannot keep the client axis.

    `correct` changes gradients before the optimiser uses them.  It is called in every local step, after the
    backward pass and before clipping, weight decay and momentum, with (gradients, given), and returns the
    gradients to use:

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
class Sight:
    """A graph on which a client's model is about to be scored (`Algorithm.sees_all`).

    For a graph of a later period `Seen` stands for the exchange that a prediction on it requires.  Nothing is
    sent and no time passes: its bytes are written beside the scores.

    `period` is the number of the graph's own period, which may be later than the client's; `params` are the
    model's, `state` is the server's, and `memory` the client's, read-only.  `met` is the client's period for
    which the graph is scored, an earlier one where the algorithm `recalls`; None: its latest.
    """

    client: int
    period: int
    graph: Graph
    params: Tree
    state: Mapping[str, Any]
    memory: Mapping[str, Any]
    met: int | None = None


@dataclass(frozen=True, eq=False)
class Seen:
    """The graph of a `Sight` with what the client knows of it, and the bytes that the client exchanges to know it."""

    graph: Graph
    up: int = 0
    down: int = 0

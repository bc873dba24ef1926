"""Models whose weights evolve between periods (EvolveGCN): when the model of a federation takes its step.

A model with a `turn` begins each period with the weights that the last one has led to.  The server does not
know when a period begins: its state and downloads say which period the model belongs to (`turned`), a client
that has arrived in a later one turns the model before it trains, by its own graph of its last period, and its
upload says so.  Whoever is asked later in the period is sent a model that has turned already.  A client
without an earlier graph takes the present one, which only matters to models that evolve by what they see
(EvolveGCN-H).

`evolving` adds this to an algorithm whose clients train what they are sent, and which knows nothing of it.
Where clients keep models of their own, an algorithm calls the functions itself (`fed_proto`, `feddgl`,
`local`).

The step counts as no operations of the client: it is one evolution of the weights, where each training step
holds one.  Not modelled: peers, edges and cloud that mix models of different periods; the result counts as of
the mixer's own.
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn.algorithm import Algorithm, Job, Reply, State, Work, title_of
from fedsim.learn.engine import tree
from fedsim.learn.model import Model, Parameters

KEY = "turned"  # the period that a model belongs to, in states, downloads and uploads


def evolving(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm with its downloads brought to a client's period, where it says that this will do."""
    if not (algorithm.evolves and algorithm.task.model.turns()):
        return algorithm
    own = type(algorithm)
    cls = type(own.__name__, (Evolution, own), {"title": title_of(own)})
    return cls(**{field.name: getattr(algorithm, field.name) for field in fields(algorithm)})  # type: ignore[no-any-return]


class Evolution(Algorithm):
    """What stands before an algorithm of fixed weights: it trains the model that `work` is handed, and sends "update".

    The trained model is the client's own, in its memory ("local"); what travels is the difference from what was sent.
    """

    def start(self) -> State:
        """Return the first state, whose model belongs to period 0."""
        return {**super().start(), KEY: 0}  # type: ignore[safe-super]

    def download(self, state: State, client: int, step: str) -> Tree:
        """Send what the algorithm sends, and a model with its period."""
        sent = super().download(state, client, step)  # type: ignore[safe-super]
        return {**sent, **entry(state)} if "model" in sent else sent

    def work(self, job: Job) -> Tree | Work:
        """Work on a model of the client's period."""
        return self._entered(job) if KEY in job.download else super().work(job)  # type: ignore[safe-super]

    def _entered(self, job: Job) -> Work:
        sent = yield from super().work(entered(self.task.model, job))  # type: ignore[safe-super]
        return {**sent, "update": tree.sub(job.memory["local"], job.download["model"]), **mark(job)}

    def upload_like(self, job: Job) -> Tree | None:
        """Return a tree as large as the upload."""
        like = super().upload_like(job)
        return None if like is None else {**like, **mark(job)}

    def update(self, state: State, replies: Sequence[Reply], step: str) -> State:
        """Update, and note the latest period."""
        return {**super().update(state, replies, step), **noted(state, replies)}  # type: ignore[safe-super]


def first(model: Model) -> dict[str, int]:
    """Return what a server's first state holds beside the model; nothing for models that do not turn."""
    return {KEY: 0} if model.turns() else {}


def entry(holder: Tree) -> dict[str, int]:
    """Return the entry of a state or a download, for what is sent on; nothing where there is none."""
    return {KEY: holder[KEY]} if KEY in holder else {}


def mark(job: Job) -> dict[str, int]:
    """Return what an upload says of the period that its model belongs to."""
    return {KEY: max(job.period, job.download[KEY])} if KEY in job.download else {}


def noted(state: State, replies: Sequence[Reply]) -> dict[str, int]:
    """Return the entry of the state after these replies."""
    periods = [reply.upload[KEY] for reply in replies if KEY in reply.upload]
    return {KEY: max([state[KEY], *periods])} if KEY in state else {}


def entered(model: Model, job: Job) -> Job:
    """Return the job with its downloaded model at the beginning of the job's period; note the graph in its memory."""
    if KEY not in job.download:
        return job
    before = noticed(job.memory, job.period, job.data)
    params = begun(model, job.download["model"], job.period - job.download[KEY], before)
    return replace(job, download={**job.download, "model": params})


def kept(model: Model, job: Job, params: Parameters) -> Parameters:
    """Return a client's own model, of the period that it last trained in, at the beginning of the job's period.

    A first model is of period 0.  The graph is noted in the job's memory.
    """
    since = job.memory.get("present_period", 0)
    return begun(model, params, job.period - since, noticed(job.memory, job.period, job.data))


def noticed(memory: dict[str, Any], period: int, graph: Graph) -> Graph:
    """Note the graph of a job's period in a client's memory; return that of the period before, or else this one."""
    if memory.get("present_period") != period:
        memory.update(past=memory.get("present"), present=graph, present_period=period)
    past: Graph | None = memory["past"]
    return graph if past is None else past


def begun(model: Model, params: Parameters, periods: int, before: Graph) -> Parameters:
    """Return the parameters after that many periods have ended, each with this graph."""
    for _ in range(periods):
        params = tree.at(model.turn(tree.stack([params]), before), 0)
    return params

"""Training on all snapshots so far, with gradients through time (`bptt`), for a model whose clients exchange nothing.

In every job of period t the client replays its snapshots 0, …, t, those in which it worked, from states of zero
(`unrolling.py`), and is billed for training on all of them.  It keeps every one, with its features; the
states from which it predicts are those of the same replay with the parameters that it has just trained, which is
billed too, as a forward pass for each earlier snapshot.  It hands no states over: a vertex with a new owner begins
there at zero.
"""

from algorithms.dg_colearn import unrolling
from algorithms.dg_colearn.incremental import Terms
from fedsim.core.wire import Tree
from fedsim.data.graph import Graph
from fedsim.learn import tree
from fedsim.learn.algorithm import Job, Memory
from fedsim.learn.model import Parameters


def earlier(memory: Memory, period: int) -> tuple[Graph, ...]:
    """Return the client's snapshots before this period, also where it has not yet entered it."""
    past: tuple[Graph, ...] = memory.get("past", ())
    return (*past, memory["graph"]) if "graph" in memory and memory["period"] != period else past


def given(job: Job, received: Parameters) -> Tree:
    """Return what the loss reads beside the present snapshot."""
    return {"received": received, "past": job.memory.get("past", ())}


def remember(terms: Terms, job: Job, trained: Parameters) -> None:
    """Keep the states before this period, replayed with the trained parameters."""
    past = job.memory.get("past", ())
    if past:
        after = unrolling.states(terms.task, tree.stack([trained]), past)
        job.memory["states"] = past[-1]["vertex"], after


def share(terms: Terms, job: Job) -> tuple[float, float]:
    """Return the operations on earlier snapshots and on all, in multiples of those on the present one."""
    own = max(1.0, terms.task.flops(job.data))
    before = sum(terms.task.flops(graph) for graph in earlier(job.memory, job.period)) / own
    return before, before + 1.0

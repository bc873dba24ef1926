"""Incremental learning at a client (DG-CoLearn, section 4): what it trains on in a period, and keeps for the next one.

When a new period begins, the previous one is closed: the states of its nodes are computed with the client's last
parameters, and those of nodes that it no longer owns go to the server.  What is kept is in the client's memory, by
the names in `fedsim/learn/continual/snapshots.py`.
Not modelled: a client that trains on two periods at once, or returns to an earlier one.

Forgetting cannot be scored without earlier periods as a client would predict on them now (`score_past`).  A later
snapshot is predicted from the states that the client's own period left, so that a model on period j needs the states of
period j and not today's, which know what came since.  When a period ends the client keeps its snapshot, the states
before it and the corrections received in it; a score on it recomputes the states after it from these with the client's
present parameters.  So what is compared are parameters: FM does not see how old states age.  The states before the
snapshot stay as the parameters of that time made them, since no client goes through the whole stream again.  Memory
grows by S floats a node and period.  Nothing travels: what clients would exchange to predict there is counted as on
later graphs, as if the server had no row of that snapshot any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from algorithms.dg_colearn.exchange import TWO_LAYERS
from fedsim.core.errors import ScenarioError
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, with_keys
from fedsim.learn.algorithm import Job
from fedsim.learn.continual import snapshots
from fedsim.learn.continual.snapshots import NodeRows, dressed, lasting, places, states_after, whole
from fedsim.learn.job import Sight
from fedsim.learn.layers.convolution import Norm
from fedsim.learn.task import Task


@dataclass(frozen=True)
class Terms:
    """The terms of a client's work: its task, the number of hops a change spreads, and what crosses the cuts.

    `hops`: None trains on the whole graph.  `halo`: states around the affected part are read.  `bptt`: every snapshot
    is kept, and no states are handed over.  `recalls`: what each period was predicted with is kept.
    """

    task: Task
    hops: int | None
    halo: bool
    exchange: str
    bptt: bool = False
    recalls: bool = False

    @property
    def norm(self) -> Norm:
        """How the model weighs its sums over neighbours."""
        norm: Norm = getattr(self.task.model, "norm", "sum")
        return norm

    @property
    def width(self) -> int:
        """The number of values that the model remembers of a node."""
        return self.task.model.state_width(self.task.features, self.task.outputs)


def check(terms: Terms, *, changes: bool) -> None:
    """Raise ScenarioError for a model, or a graph (which `changes` or not), that the options do not go with."""
    widths = terms.task.model.delta_widths(terms.task.features, terms.task.outputs)
    exchanges, given = terms.exchange != "none", repr(terms.exchange)
    moving, states = "needs a graph that changes, under the stream 'snapshots'", "needs a model that keeps states"
    if terms.bptt and (exchanges or terms.hops is not None):
        key, why = "bptt", "true replays whole graphs without an exchange; take exchange: none and retrain: full"
    elif terms.bptt and not terms.width:
        key, why = "bptt", f"true {states}, such as {{name: gcrn_baseline}}; or leave it out"
    elif terms.bptt and not changes:
        key, why = "bptt", f"true {moving}; or leave it out"
    elif exchanges and not changes:
        key, why = "exchange", f"{given} {moving}; or say exchange: none"
    elif exchanges and not widths:
        key, why = "exchange", f"{given} needs a model whose sums can be corrected, such as {{name: roland}}"
        why += "; or say exchange: none"
    elif terms.exchange in TWO_LAYERS and len(widths) != 2:
        key, why = "exchange", f"{given} is defined for two layers, and the model has {len(widths)}; take layerwise"
    elif terms.exchange == "layerwise" and not terms.width:
        key, why = "exchange", f"{given} {states}, such as {{name: roland}}; take exact"
    elif terms.recalls and terms.exchange == "fedgcn":
        key, why = "score_past", "true needs an exchange about one snapshot, and fedgcn's sums outlast it; "
        why += "take another, or leave it out"
    else:
        return
    raise ScenarioError.at(f"algorithm.{key}", why)


def enter(terms: Terms, job: Job) -> Tree:
    """Close the previous period if this is a new one; return states of nodes that the client no longer owns.

    They go into the upload of the training, also if an earlier step enters the period.  None if there are none.
    """
    memory, left = job.memory, None
    if memory.get("period") == job.period:
        return memory.pop("left", None) if job.step == "train" else None
    if "graph" in memory and terms.recalls:
        known = {key: memory.get(key) for key in ("period", "graph", "states", "received")}
        memory["kept"] = {**memory.get("kept", {}), memory["period"]: known}
    if "graph" in memory and "node" in job.data:
        memory["before"] = whole(memory, memory["graph"], terms.hops)
        if terms.bptt:
            memory["past"] = (*memory.get("past", ()), memory["graph"])
    if _leaves_states(terms, memory) and "node" in job.data:
        memory["states"] = states = states_after(terms.task.model, memory["local"], memory, terms.hops)
        gone = _gone(memory, job.data)
        if len(gone) and not terms.bptt:
            left = {"ids": gone.int(), "states": states[1][places(states[0], gone)[0]]}
    if "node" in job.data and memory.get("sent") is not None:  # who comes back may have changed elsewhere
        mine = places(job.data["node"], memory["sent"][0])[1]
        memory["sent"] = memory["sent"][0][mine], memory["sent"][1][mine]
    nobody = job.data["edges"].new_zeros(0)
    nodes = job.data.get("node", nobody)
    memory.update(period=job.period, graph=job.data, received=lasting(memory, nodes), asked=nobody)
    memory.pop("optimiser.model", None)  # a new optimiser every snapshot
    if job.step != "train" and left is not None:
        memory["left"], left = left, None
    return left


def left_like(terms: Terms, job: Job) -> Tree:
    """Return a tree as large as the states that the client is about to hand over, None if there are none."""
    memory, count = job.memory, 0
    if terms.bptt:
        return None
    if memory.get("period") != job.period and _leaves_states(terms, memory):
        count = len(_gone(memory, job.data))
    elif memory.get("left") is not None:
        count = len(memory["left"]["ids"])
    if not count:
        return None
    return {"ids": Spec((count,), "int32"), "states": Spec((count, terms.width), "float32")}


def trained_on(terms: Terms, job: Job) -> Graph:
    """Return what the client trains on, the same object while nothing changes, since unions of it are cached."""
    if "node" not in job.data:
        return job.data
    memory = job.memory
    knows = memory.get("states"), memory.get("received")
    known = memory.get("data")
    if known is None or known[0] is not knows[0] or known[1] is not knows[1] or known[2] != job.period:
        part = job.data
        if terms.hops is not None:
            part = snapshots.part(job.data, terms.hops, halo=terms.halo)[0]
        memory["data"] = known = (*knows, job.period, dressed(memory, part))
    graph: Graph = known[3]
    return graph


def share(terms: Terms, graph: Graph) -> float:
    """Return the affected part's share of training on the whole graph."""
    if terms.hops is None or "node" not in graph:
        return 1.0
    part = snapshots.part(graph, terms.hops, halo=terms.halo)[0]
    return terms.task.flops(part) / max(1.0, terms.task.flops(graph))


def edges(terms: Terms, graph: Graph) -> int:
    """Return the undirected edges that the client trains on, its weight in the average."""
    if terms.hops is None or "node" not in graph:
        return graph["edges"].shape[1] // 2
    source, target = graph["edges"]
    affected = snapshots.near(graph, terms.hops)
    return int((affected[source] & affected[target]).sum()) // 2


def is_later(memory: Mapping[str, Any], graph: Graph) -> bool:
    """Return whether the graph is of another period than the last one in which the client worked."""
    return "node" in graph and "graph" in memory and graph["edges"] is not memory["graph"]["edges"]


def sees(terms: Terms, memory: Mapping[str, Any], graph: Graph) -> Graph:
    """Return the graph with the client's states: before its own period, or after it for a later graph."""
    if is_later(memory, graph):
        return sees_later(terms, graph, left(terms, memory), lasting(memory, graph["node"]))
    return whole(memory, graph, terms.hops) if "node" in graph and "graph" in memory else graph


def left(terms: Terms, memory: Mapping[str, Any]) -> NodeRows | None:
    """Return the states after the period in which the client last worked, None if its model has none."""
    return states_after(terms.task.model, memory["local"], memory, terms.hops) if terms.width else None


def sees_later(terms: Terms, graph: Graph, after: NodeRows | None, received: Mapping[str, NodeRows] | None) -> Graph:
    """Return a later graph with the states `after` the client's own period, and what it has `received` for this one."""
    seen = dressed({"states": after, "received": received}, graph)
    if terms.hops is None or after is None:
        return seen
    stays = ~snapshots.near(graph, terms.hops) & places(after[0], graph["node"])[1]
    return with_keys(seen, {"halo": stays})  # what a later change does not reach keeps its states there, too


def _leaves_states(terms: Terms, memory: Mapping[str, Any]) -> bool:
    return terms.width > 0 and memory.get("local") is not None


def _gone(memory: Mapping[str, Any], graph: Graph) -> Tensor:
    """Return the nodes, ascending, that the client owned in its last period and no longer owns."""
    before = memory["graph"].get("node")
    return before[~places(graph["node"], before)[1]] if before is not None else torch.zeros(0, dtype=torch.long)


def recalled(sight: Sight) -> Sight:
    """Return the sight with the client's memory as of the period that it is for, the last one in which it worked then.

    Its parameters are those of today.  A period before it ever worked is seen without states.
    """
    memory, met = sight.memory, sight.met
    if met is None or "graph" not in memory or met >= memory["period"]:
        return sight
    periods = memory.get("kept", {})
    last = max((period for period in periods if period <= met), default=None)
    return replace(sight, memory={**periods.get(last, {}), "local": memory.get("local")})

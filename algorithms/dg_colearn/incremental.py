"""Incremental learning at a client (DG-CoLearn, section 4): what it trains on in a period, and keeps for the next one.

When a new period begins, the previous one is closed: the states of its vertices are computed with the client's last
parameters, and those of vertices that it no longer owns go to the server.  What is kept is in the client's memory, by
the names in `fedsim/learn/snapshots.py`.
Not modelled: a client that trains on two periods at once, or returns to an earlier one.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from algorithms.dg_colearn.recalled import keep
from fedsim.core.wire import Spec, Tree
from fedsim.data.graph import Graph, with_keys
from fedsim.learn import affected
from fedsim.learn.algorithm import Job
from fedsim.learn.convolution import Norm
from fedsim.learn.snapshots import Rows, dressed, joined, lasting, places, states_after, whole
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
        """The number of values that the model remembers of a vertex."""
        return self.task.model.state_width(self.task.features, self.task.outputs)


def enter(terms: Terms, job: Job) -> Tree:
    """Close the previous period if this is a new one; return states of vertices that the client no longer owns.

    They go into the upload of the training, also if an earlier step enters the period.  None if there are none.
    """
    memory, left = job.memory, None
    if memory.get("period") == job.period:
        return memory.pop("left", None) if job.step == "train" else None
    if "graph" in memory and terms.recalls:
        keep(memory)
    if "graph" in memory and "vertex" in job.data:
        memory["before"] = whole(memory, memory["graph"], terms.hops)
        if terms.bptt:
            memory["past"] = (*memory.get("past", ()), memory["graph"])
    if _leaves_states(terms, memory) and "vertex" in job.data:
        memory["states"] = states = states_after(terms.task.model, memory["local"], memory, terms.hops)
        gone = _gone(memory, job.data)
        if len(gone) and not terms.bptt:
            left = {"ids": gone.int(), "states": states[1][places(states[0], gone)[0]]}
    if "vertex" in job.data and memory.get("sent") is not None:  # who comes back may have changed elsewhere
        mine = places(job.data["vertex"], memory["sent"][0])[1]
        memory["sent"] = memory["sent"][0][mine], memory["sent"][1][mine]
    nobody = job.data["edges"].new_zeros(0)
    vertices = job.data.get("vertex", nobody)
    memory.update(period=job.period, graph=job.data, received=lasting(memory, vertices), asked=nobody)
    memory.pop("optimiser.model", None)  # a new optimiser every snapshot
    if job.step != "train" and left is not None:
        memory["left"], left = left, None
    return left


def take_over(memory: MutableMapping[str, Any], moved: Mapping[str, Tensor]) -> None:
    """Keep the states of vertices that were another client's."""
    if memory.get("states") is not None:
        memory["states"] = joined(memory["states"], (moved["ids"].long(), moved["states"]))


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
    if "vertex" not in job.data:
        return job.data
    memory = job.memory
    knows = memory.get("states"), memory.get("received")
    known = memory.get("data")
    if known is None or known[0] is not knows[0] or known[1] is not knows[1] or known[2] != job.period:
        part = job.data
        if terms.hops is not None:
            part = affected.part(job.data, terms.hops, halo=terms.halo)[0]
        memory["data"] = known = (*knows, job.period, dressed(memory, part))
    graph: Graph = known[3]
    return graph


def share(terms: Terms, graph: Graph) -> float:
    """Return the affected part's share of training on the whole graph."""
    if terms.hops is None or "vertex" not in graph:
        return 1.0
    part = affected.part(graph, terms.hops, halo=terms.halo)[0]
    return terms.task.flops(part) / max(1.0, terms.task.flops(graph))


def edges(terms: Terms, graph: Graph) -> int:
    """Return the undirected edges that the client trains on, its weight in the average."""
    if terms.hops is None or "vertex" not in graph:
        return graph["edges"].shape[1] // 2
    source, target = graph["edges"]
    own = affected.near(graph, terms.hops)
    return int((own[source] & own[target]).sum()) // 2


def is_later(memory: Mapping[str, Any], graph: Graph) -> bool:
    """Return whether the graph is of another period than the last one in which the client worked."""
    return "vertex" in graph and "graph" in memory and graph["edges"] is not memory["graph"]["edges"]


def sees(terms: Terms, memory: Mapping[str, Any], graph: Graph) -> Graph:
    """Return the graph with the client's states: before its own period, or after it for a later graph."""
    if is_later(memory, graph):
        return sees_later(terms, graph, left(terms, memory), lasting(memory, graph["vertex"]))
    return whole(memory, graph, terms.hops) if "vertex" in graph and "graph" in memory else graph


def left(terms: Terms, memory: Mapping[str, Any]) -> Rows | None:
    """Return the states after the period in which the client last worked, None if its model has none."""
    return states_after(terms.task.model, memory["local"], memory, terms.hops) if terms.width else None


def sees_later(terms: Terms, graph: Graph, after: Rows | None, received: Mapping[str, Rows] | None) -> Graph:
    """Return a later graph with the states `after` the client's own period, and what it has `received` for this one."""
    seen = dressed({"states": after, "received": received}, graph)
    if terms.hops is None or after is None:
        return seen
    stays = ~affected.near(graph, terms.hops) & places(after[0], graph["vertex"])[1]
    return with_keys(seen, {"halo": stays})  # what a later change does not reach keeps its states there, too


def _leaves_states(terms: Terms, memory: Mapping[str, Any]) -> bool:
    return terms.width > 0 and memory.get("local") is not None


def _gone(memory: Mapping[str, Any], graph: Graph) -> Tensor:
    """Return the vertices, ascending, that the client owned in its last period and no longer owns."""
    before = memory["graph"].get("vertex")
    return before[~places(graph["vertex"], before)[1]] if before is not None else torch.zeros(0, dtype=torch.long)

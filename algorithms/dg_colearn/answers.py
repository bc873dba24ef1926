"""A client's part in an exchange over the cuts: rows of its vertices for the server, corrections in return.

The server asks by numbers of vertices (`ids`) and the client answers with their rows: features (`h0`), unless it has
sent the same ones before, and sums of them over its own neighbours or a layer's output (`h1`, …).  It keeps what it
receives under `received` until the period ends, and whole sums in place of features until it receives new ones.  The
other side is `overseer.py`.  Answers are about the last period in which the client worked, whatever has arrived since.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from algorithms.dg_colearn.exchange import TWO_LAYERS
from algorithms.dg_colearn.incremental import Terms
from fedsim.core.wire import Tree
from fedsim.data.graph import as_dense
from fedsim.learn.algorithm import Job
from fedsim.learn.convolution import aggregate
from fedsim.learn.recurrent import Recurrent
from fedsim.learn.snapshots import Rows, dressed, joined, places, spread, states_after


def rows_asked_for(terms: Terms, job: Job) -> Tree:
    """Return rows of the vertices asked for: sums over local neighbours, and features that the server does not have."""
    memory, graph = job.memory, job.memory["graph"]  # not job.data: the next period may have come already
    own = graph["vertex"].device
    if "degree" in job.download:
        degree = graph["vertex"], job.download["degree"].to(own).float()
        memory["received"] = {**(memory["received"] or {}), "degree": degree}
    vertices = memory["asked"] = job.download["ids"].long().to(own)
    place = places(graph["vertex"], vertices)[0]
    x = as_dense(graph["x"])[place]
    known = memory.get("sent") if memory.get("turn", 0) == job.download["heard"] else None  # else one was lost
    fresh = _fresh(known, vertices, x)
    memory.update(sent=(vertices, x) if known is None else joined(known, (vertices, x)), turn=job.download["heard"] + 1)
    upload = {"ids": vertices.int(), "fresh": vertices[fresh].int(), "h0": x[fresh], "turn": memory["turn"]}
    return {**upload, "h1": _sums(terms, memory)[place]} if terms.exchange in TWO_LAYERS else upload


def take_corrections(terms: Terms, job: Job) -> Tree:
    """Apply corrections; return what the server needs of this layer if another one follows."""
    memory, graph = job.memory, job.memory["graph"]
    came = {key: part.to(graph["vertex"].device) for key, part in job.download.items() if key != "period"}
    ids = came.pop("ids").long()
    rows = {key: (ids, part) for key, part in came.items()}
    if "x" in rows:  # FedGCN: whole sums replace the features
        sums = ids, _sums(terms, memory)[places(graph["vertex"], ids)[0]] + rows["x"][1]
        before = (memory["received"] or {}).get("x")
        rows["x"] = sums if before is None else joined(before, sums)
    if terms.exchange == "paper" and "far" in rows:  # layers pass δ on to neighbours, but Eq. 6 does not
        first, far = (spread(graph["vertex"], rows[key]) for key in ("delta1", "far"))
        carried = aggregate(first, dressed({"received": memory["received"]}, graph), terms.norm)
        rows["far"] = graph["vertex"], far - carried
    memory["received"] = {**(memory["received"] or {}), **rows}
    if "x" in rows:
        return {"took": len(ids)}
    return {} if job.step == "correct" else _output(terms, memory, int(job.step.removeprefix("layer")))


def _output(terms: Terms, memory: Mapping[str, Any], layer: int) -> Tree:
    """Return the rows that this layer sums: the previous layer's output at the vertices asked for."""
    task, graph, vertices = terms.task, memory["graph"], memory["asked"]
    assert isinstance(task.model, Recurrent)
    after = states_after(task.model, memory["local"], memory, terms.hops)[1]
    at = sum(task.model.layer_state(inputs) for inputs in task.model.widths(task.features, 0)[: layer - 2])
    wide = task.model.delta_widths(task.features, task.outputs)[layer - 1]
    return {"ids": vertices.int(), f"h{layer - 1}": after[places(graph["vertex"], vertices)[0], at : at + wide]}


def _sums(terms: Terms, memory: Mapping[str, Any]) -> Tensor:
    """Return L X (n, F) of all of the client's vertices."""
    graph, received = memory["graph"], memory["received"] or {}
    degree = {"received": {"degree": received["degree"]} if "degree" in received else None}
    return aggregate(as_dense(graph["x"]), dressed(degree, graph), terms.norm)


def _fresh(sent: Rows | None, vertices: Tensor, x: Tensor) -> Tensor:
    """Return which rows x (m, F) differ from those last sent for these vertices."""
    if sent is None:
        return torch.ones(len(vertices), dtype=torch.bool, device=x.device)
    return ~places(sent[0], vertices)[1] | (spread(vertices, sent) != x).any(1)

"""A client's part in an exchange over the cuts: rows of its nodes for the server, corrections in return.

The server asks by numbers of nodes (`ids`) and the client answers with their rows: features (`h0`), unless it has
sent the same ones before, and sums of them over its own neighbours or a layer's output (`h1`, …).  It keeps what it
receives under `received` until the period ends, and whole sums in place of features until it receives new ones.  The
other side is `overseer.py`.  Answers are about the last period in which the client worked, whatever has arrived since.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from algorithms.dg_colearn.exchange import TWO_LAYERS
from algorithms.dg_colearn.incremental import Terms
from fedsim.data.graph import Graph, as_dense
from fedsim.learn.algorithm import Job, Tree
from fedsim.learn.continual.snapshots import NodeRows, dressed, joined, places, spread, states_after
from fedsim.learn.layers.convolution import aggregate
from fedsim.learn.layers.recurrent import Recurrent


def rows_asked_for(terms: Terms, job: Job) -> Tree:
    """Return rows of the nodes asked for: sums over local neighbours, and features that the server does not have."""
    memory, graph = job.memory, job.memory["graph"]  # not job.data: the next period may have come already
    own = graph["node"].device
    if "degree" in job.download:
        degree = graph["node"], job.download["degree"].to(own).float()
        memory["received"] = {**(memory["received"] or {}), "degree": degree}
    nodes = memory["asked"] = job.download["ids"].long().to(own)
    place = places(graph["node"], nodes)[0]
    x = as_dense(graph["x"])[place]
    known = memory.get("sent") if memory.get("turn", 0) == job.download["heard"] else None  # else one was lost
    fresh = fresh_rows(known, nodes, x)
    memory.update(sent=(nodes, x) if known is None else joined(known, (nodes, x)), turn=job.download["heard"] + 1)
    upload = {"ids": nodes.int(), "fresh": nodes[fresh].int(), "h0": x[fresh], "turn": memory["turn"]}
    return {**upload, "h1": sums(terms, graph, memory["received"])[place]} if terms.exchange in TWO_LAYERS else upload


def take_corrections(terms: Terms, job: Job) -> Tree:
    """Apply corrections; return what the server needs of this layer if another one follows."""
    memory, graph = job.memory, job.memory["graph"]
    came = {key: part.to(graph["node"].device) for key, part in job.download.items() if key != "period"}
    ids = came.pop("ids").long()
    memory["received"] = corrected(terms, graph, memory["received"], ids, came)
    if "x" in came:
        return {"took": len(ids)}
    if job.step == "correct":
        return {}
    layer, nodes = int(job.step.removeprefix("layer")), memory["asked"]
    after = states_after(terms.task.model, memory["local"], memory, terms.hops)[1]
    return {"ids": nodes.int(), f"h{layer - 1}": output(terms, after, layer)[places(graph["node"], nodes)[0]]}


def corrected(
    terms: Terms, graph: Graph, received: Mapping[str, NodeRows] | None, ids: Tensor, came: Mapping[str, Tensor]
) -> Mapping[str, NodeRows]:
    """Return what the client has received for this graph, with the corrections of these nodes that came now."""
    rows = {key: (ids, part) for key, part in came.items()}
    if "x" in rows:  # FedGCN: whole sums replace the features
        whole = ids, sums(terms, graph, received)[places(graph["node"], ids)[0]] + rows["x"][1]
        before = (received or {}).get("x")
        rows["x"] = whole if before is None else joined(before, whole)
    if terms.exchange == "paper" and "far" in rows:  # layers pass δ on to neighbours, but Eq. 6 does not
        first, far = (spread(graph["node"], rows[key]) for key in ("delta1", "far"))
        carried = aggregate(first, dressed({"received": received}, graph), terms.norm)
        rows["far"] = graph["node"], far - carried
    return {**(received or {}), **rows}


def output(terms: Terms, states: Tensor, layer: int) -> Tensor:
    """Return what this layer sums, the output of the layer before, from the states (n, S) of all layers."""
    task = terms.task
    assert isinstance(task.model, Recurrent)
    at = sum(task.model.layer_state(inputs) for inputs in task.model.widths(task.features, 0)[: layer - 2])
    return states[:, at : at + task.model.delta_widths(task.features, task.outputs)[layer - 1]]


def sums(terms: Terms, graph: Graph, received: Mapping[str, NodeRows] | None) -> Tensor:
    """Return L X (n, F) of all of the client's nodes."""
    degree = {"received": {"degree": received["degree"]} if received and "degree" in received else None}
    return aggregate(as_dense(graph["x"]), dressed(degree, graph), terms.norm)


def fresh_rows(sent: NodeRows | None, nodes: Tensor, x: Tensor) -> Tensor:
    """Return which rows x (m, F) differ from those last sent for these nodes."""
    if sent is None:
        return torch.ones(len(nodes), dtype=torch.bool, device=x.device)
    return ~places(sent[0], nodes)[1] | (spread(nodes, sent) != x).any(1)

"""Experience replay on graphs: select nodes of a finished period, and keep them in a buffer.

A buffer is a graph of isolated nodes, features and labels only, each of them a training node: replayed without
edges, so that a buffer node's output depends on itself alone, unless it is attached to a graph by learned
edges.  Used by Fed-ERGNN, Fed-DSLR and POWER.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from fedsim.core.span import Span
from fedsim.data.graph import Graph, as_dense, graph_of, take_rows, under
from fedsim.learn.algorithm import Job
from fedsim.learn.model import Parameters
from fedsim.learn.task import Task

BETA = Span(0.01, 0.5, log=True)  # span for tuning the new period's share in all replay methods


def isolated(graph: Graph, rows: Tensor) -> Graph:
    """Return these nodes of one client's graph as a buffer."""
    x, y = take_rows(graph["x"], rows), graph["y"][rows]
    return graph_of(x, graph["edges"].new_zeros(2, 0), y, torch.ones_like(y, dtype=torch.bool))


def empty(graph: Graph) -> Graph:
    """Return a buffer of no nodes with features as wide as the graph's."""
    return isolated(graph, torch.zeros(0, dtype=torch.long, device=graph["y"].device))


def joined(first: Graph, second: Graph) -> Graph:
    """Return the nodes of two buffers as one."""
    rows = [torch.cat([first[name], second[name]]) for name in ("y", "train", "val", "test")]
    return graph_of(under([first["x"], second["x"]]), first["edges"], *rows)


def attached(graph: Graph, buffer: Graph, edges: Tensor | None = None) -> Graph:
    """Return the graph with the buffer's nodes after its own and these edges (2, E) added, to train on the buffer.

    Only the buffer's nodes are training nodes there; the graph's own pass messages.
    """
    train = torch.cat([torch.zeros_like(graph["train"]), torch.ones_like(buffer["train"])])
    every = graph["edges"] if edges is None else torch.cat([graph["edges"], edges], dim=1)
    return graph_of(under([graph["x"], buffer["x"]]), every, torch.cat([graph["y"], buffer["y"]]), train)


def coverage(z: Tensor, epsilon: float, *, scale: str) -> Tensor:
    """Return which nodes each one covers: (n, n) bool, from embeddings z (n, H) of one class (POWER, Eq. 3).

    Node i covers j where their distance is below ε times a scale: `node`, the mean distance from i (as printed),
    or `class`, the mean of all distances (as in the authors' code).  Zero self-distances count in both.
    """
    distance = torch.cdist(z, z, compute_mode="donot_use_mm_for_euclid_dist")
    reach = distance.mean(1, keepdim=True) if scale == "node" else distance.mean()
    return distance < epsilon * reach


def most_covering(covers: Tensor, keep: int) -> Tensor:
    """Return the `keep` nodes that cover most, ties to the lowest index (POWER, Eq. 4): at most all of them."""
    return torch.argsort(covers.sum(1), descending=True, stable=True)[:keep]


def greedy_cover(covers: Tensor, keep: int) -> Tensor:
    """Return `keep` nodes, each covering most of what is not covered yet (DSLR and POWER's published code).

    Once nine tenths of the class are covered, all but the chosen nodes count as uncovered again.
    """
    n = len(covers)
    chosen: list[int] = []
    left = covers.clone()
    covered = torch.zeros(n, dtype=torch.bool, device=covers.device)
    while len(chosen) < min(keep, n):
        counts = left.sum(0)
        counts[torch.tensor(chosen, dtype=torch.long, device=covers.device)] = -1
        best = int(counts.argmax())
        chosen.append(best)
        hit = left[best].clone()
        hit[best] = True
        covered |= hit
        left[hit] = False
        left[:, hit] = False
        if int(covered.sum()) >= 0.9 * n:
            covered.zero_()
            covered[chosen] = True
            left = covers.clone()
            left[chosen] = False
            left[:, chosen] = False
    return torch.tensor(chosen, dtype=torch.long, device=covers.device)


def closed(job: Job, select: Callable[[dict[str, Any]], Graph]) -> Graph:
    """Return the client's buffer, adding what `select` keeps of a period that has ended since its last job.

    The client's memory holds the buffer, and under `last` the algorithm's notes on its last job, at least `period`.
    """
    buffer = job.memory["buffer"] if "buffer" in job.memory else empty(job.data)
    if closes(job):
        buffer = joined(buffer, select(job.memory["last"]))
        job.memory["last"] = None
    job.memory["buffer"] = buffer
    return buffer


def closes(job: Job) -> bool:
    """Return whether this job is the first since a period of the client's has ended."""
    last = job.memory.get("last")
    return last is not None and last["period"] != job.period


def dry(job: Job, keep: int) -> None:
    """Note what a job leaves in the memory, with the first nodes of each class in place of those chosen."""
    closed(job, lambda last: of_each_class(last["data"], lambda rows: torch.arange(min(keep, len(rows)))))
    job.memory["last"] = {"period": job.period, "data": job.data}


def replayed(job: Job, keep: int) -> float:
    """Return the replayed nodes as a share of the graph's: roughly the extra cost of a step."""
    rows = len(job.memory["buffer"]["y"]) if "buffer" in job.memory else 0
    if closes(job):
        ended = job.memory["last"]["data"]
        rows += int(ended["y"][ended["train"]].bincount().clamp(max=keep).sum())
    return rows / max(1, len(job.data["y"]))


def of_each_class(graph: Graph, choose: Callable[[Tensor], Tensor]) -> Graph:
    """Return a buffer of what `choose` picks (indices into the rows it is given) of each class's training rows."""
    kept = [rows[choose(rows)] for rows in class_rows(graph)]
    return isolated(graph, torch.cat(kept)) if kept else empty(graph)


def class_rows(graph: Graph) -> list[Tensor]:
    """Return the training nodes of each class that has some, in order of the class."""
    rows = graph["train"].nonzero().squeeze(1)
    labels = graph["y"][rows]
    return [rows[labels == label] for label in sorted(set(labels.tolist()))]


def dense(graph: Graph, rows: Tensor) -> Tensor:
    """Return the features of these nodes as a dense tensor (n, F)."""
    return as_dense(take_rows(graph["x"], rows))


def embedding(task: Task, params: Parameters, data: Graph) -> Tensor:
    """Return the embedding (N, H), dense where it is the features themselves."""
    return as_dense(task.embed(params, data))


def mixed(task: Task, params: Parameters, data: Graph, buffer: Graph, beta: float | Tensor) -> Tensor:
    """Return β L_new + (1 − β) L_buffer for each client, L_new alone where its buffer is empty: (K,) (POWER, Eq. 7).

    β is one number, or each client's own (K,).
    """
    old = (1 - beta) * (buffer["sizes"] > 0)
    return (1 - old) * task.loss(params, data) + old * task.loss(params, buffer)

"""Assign nodes that no stage places: newcomers, and nodes without any edge.

Newcomers have arrived since the last snapshot; they join the existing parts, and no other node moves.  The
paper has one sentence on it and its code nothing; the rule here is a reconstruction.
"""

import heapq

import numpy as np

from fedsim.data.colearn.parts import PartStatistics
from fedsim.data.colearn.stages import Way


def join(parts: PartStatistics, new: np.ndarray, dealt: int) -> int:
    """Assign each new node to a part, one after the other; return how many were assigned in turn so far.

    The node with the most neighbours that have an owner comes first, recounted after every assignment; ties
    go to the lowest node.  It joins the part with most of its neighbours; ties go to the part with most
    two-hop ties (the sum over its neighbours of their neighbours there), then to the one with the fewest
    edges, then to the lowest.  When no node left has a neighbour with an owner, the lowest is assigned in
    turn (`dealt` counts the turns), so a component that arrives as a whole stays whole unless it touches
    others later.
    """
    waiting = np.zeros(parts.web.size, dtype=bool)
    waiting[new] = True
    at, near = parts.web.around(new)
    ties = np.bincount(at[parts.owner[near] >= 0], minlength=len(new))
    count = dict(zip(new.tolist(), ties.tolist(), strict=True))
    queue = [(-held, node) for node, held in count.items()]
    heapq.heapify(queue)
    while queue:
        held, node = heapq.heappop(queue)
        if not waiting[node] or count[node] != -held:
            continue  # outdated: its count has grown since
        waiting[node] = False
        owned_by = parts.neighbours_by_part(node)
        if owned_by:
            part = _choose(parts, node, owned_by)
        else:
            part, dealt = dealt % parts.count, dealt + 1
        parts.place(node, part, owned_by)
        for other in parts.web.row(node).tolist():
            if waiting[other]:
                count[other] += 1
                heapq.heappush(queue, (-count[other], other))
    return dealt


def _choose(parts: PartStatistics, node: int, near: dict[int, int]) -> int:
    most = max(near.values())
    tied = [part for part, held in near.items() if held == most]
    if len(tied) == 1:
        return tied[0]
    _, second = parts.web.around(parts.web.row(node))
    owners = parts.owner[second]
    ties = np.bincount(owners[owners >= 0], minlength=parts.count)
    return min(tied, key=lambda part: (-int(ties[part]), int(parts.edges[part]), part))


def deal(parts: PartStatistics, alone: np.ndarray, way: Way, before: np.ndarray | None = None) -> int:
    """Assign these nodes; return how many turns of the round-robin that took.

    round_robin: in turn, parts that own nothing yet first.  labels: all to the part with the most different
    labels.  stay: where they were `before` (N,), the others in turn.
    """
    if way == "labels":
        parts.settle(alone, np.full(len(alone), int((parts.labels > 0).sum(axis=1).argmax()), dtype=np.int64))
        return 0
    if way == "stay" and before is not None:
        known = (before[alone] >= 0) & (before[alone] < parts.count)
        parts.settle(alone[known], before[alone[known]])
        alone = alone[~known]
    empty = np.flatnonzero(parts.sizes == 0)[: len(alone)]
    turns = len(alone) - len(empty)
    parts.settle(alone, np.concatenate([empty, np.arange(turns) % parts.count]))
    return turns

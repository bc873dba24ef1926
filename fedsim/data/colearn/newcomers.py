"""Newcomers: vertices that arrived since the last snapshot join the existing parts; no other vertex moves.

The paper has one sentence on it and its code nothing; the rule here is a reconstruction.
"""

import heapq

import numpy as np

from fedsim.data.colearn.parts import Parts


def join(parts: Parts, new: np.ndarray, dealt: int) -> int:
    """Assign each new vertex to a part, one after the other; return how many were assigned in turn so far.

    The vertex with the most neighbours that have an owner comes first, recounted after every assignment; ties go to the
    lowest vertex.  It joins the part with most of its neighbours; ties go to the part with most two-hop ties (the sum
    over its neighbours of their neighbours there), then to the one with the fewest edges, then to the lowest.  When no
    vertex left has a neighbour with an owner, the lowest is assigned in turn (`dealt` counts the turns), so a component
    that arrives as a whole stays whole unless it touches others later.
    """
    waiting = np.zeros(parts.web.size, dtype=bool)
    waiting[new] = True
    at, near = parts.web.around(new)
    ties = np.bincount(at[parts.owner[near] >= 0], minlength=len(new))
    count = dict(zip(new.tolist(), ties.tolist(), strict=True))
    queue = [(-held, vertex) for vertex, held in count.items()]
    heapq.heapify(queue)
    while queue:
        held, vertex = heapq.heappop(queue)
        if not waiting[vertex] or count[vertex] != -held:
            continue  # outdated: its count has grown since
        waiting[vertex] = False
        beside = parts.beside(vertex)
        if beside:
            part = _choose(parts, vertex, beside)
        else:
            part, dealt = dealt % parts.count, dealt + 1
        parts.place(vertex, part, beside)
        for other in parts.web.row(vertex).tolist():
            if waiting[other]:
                count[other] += 1
                heapq.heappush(queue, (-count[other], other))
    return dealt


def _choose(parts: Parts, vertex: int, beside: dict[int, int]) -> int:
    most = max(beside.values())
    tied = [part for part, held in beside.items() if held == most]
    if len(tied) == 1:
        return tied[0]
    _, second = parts.web.around(parts.web.row(vertex))
    owners = parts.owner[second]
    ties = np.bincount(owners[owners >= 0], minlength=parts.count)
    return min(tied, key=lambda part: (-int(ties[part]), int(parts.edges[part]), part))

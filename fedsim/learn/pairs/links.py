"""The links that a link predictor learns from: each client's edges, and non-edges for each, redrawn in each step.

Every undirected edge with both ends among the client's training nodes counts once; loops and directions do not.
Negatives are drawn uniformly, with replacement, from the pairs of distinct training nodes of the same client that
no edge joins.  They depend only on the client's seed and on their place in the client's own graph, not on batching
or the device.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsim.data.graph import Graph
from fedsim.data.graphs.pairs import Absent, absent, pair_numbers, pairs_of
from fedsim.learn.engine import layout, ops
from fedsim.learn.engine.blocks import Matrix, selection


@dataclass(frozen=True)
class Links:
    """A graph's links, client by client, and what is needed to draw as many non-edges."""

    ends: Tensor  # (2, L) rows of the graph
    client: Tensor  # (L,) the client of each link
    place: Tensor  # (L,) its place among its client's
    pool: Matrix  # (K, L) sums the links of each client
    counts: Tensor  # (K,) links of each client
    members: Tensor  # (M,) rows of the training nodes
    first: Tensor  # (K,) start of each client's training nodes in `members`
    free: Absent  # pairs of training nodes that no edge joins, numbered by their places in `members`


def of(graph: Graph) -> Links:
    """Return the graph's links, derived once as long as its training mask is the same tensor."""
    return layout.once(graph, "links", (graph["train"],), lambda: _derive(graph))


def negatives(links: Links, seeds: Tensor, times: int = 1) -> Tensor:
    """Return `times` non-edges for each link, drawn from its client's seed (K,); loops if there are none.

    The result is (2, times · L): one for every link, then a second for every link, and so on.

    Pairs of clients without non-edges (`free.counts`) are invalid.
    """
    client = links.client.repeat(times)
    turn = torch.arange(times, device=client.device).repeat_interleave(len(links.client))
    place = links.place.repeat(times) + turn * links.counts[client]
    room = links.free.counts[client]
    drawn = ops.words(seeds[client], place) >> 1 & 2**62 - 1
    numbers = links.free.pick(drawn % room.clamp(min=1), client)
    return links.members[links.first[client] + torch.where(room > 0, pairs_of(numbers), 0)]


def scores(first: Tensor, other: Tensor) -> Tensor:
    """Return the inner products of the embeddings (…, H) of the ends of pairs: (…,)."""
    return (first * other).sum(-1)


def _derive(graph: Graph) -> Links:
    mask, sizes = graph["train"], graph["sizes"]
    clients = len(sizes)
    members = mask.nonzero().squeeze(1)
    owner = torch.repeat_interleave(torch.arange(clients, device=sizes.device), sizes)
    count = torch.bincount(owner[members], minlength=clients)
    first = count.cumsum(0) - count
    place = mask.long().cumsum(0) - 1 - first[owner]
    source, target = graph["edges"]
    inside = (source != target) & mask[source] & mask[target]
    source, target = source[inside], target[inside]
    possible = count * (count - 1) // 2
    start = possible.cumsum(0) - possible
    codes = torch.unique(pair_numbers(place[source], place[target]) + start[owner[source]])
    which = torch.searchsorted(start + possible, codes, right=True)
    numbers = codes - start[which]
    counts = torch.bincount(which, minlength=clients)
    return Links(
        ends=members[first[which] + pairs_of(numbers)],
        client=which,
        place=torch.arange(len(which), device=which.device) - (counts.cumsum(0) - counts)[which],
        pool=selection(which, clients).transpose,
        counts=counts,
        members=members,
        first=first,
        free=absent(numbers, which, possible),
    )

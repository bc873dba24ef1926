"""Mean reciprocal rank of links, one value per owner.

`mrr` is ROLAND's (You, Du and Leskovec, KDD 2022): every node with a positive is a source; its best positive (or
their mean, or the worst) is ranked among negatives drawn for it.  With 1000 negatives, random scores give H(1001) /
1001 = 0.0075 for one positive per source and 0.013 for two, so a few percent are a lot.  `sampled_rows` ranks a
source's positives among the few pairs that were drawn for scoring, as in EvolveGCN's code: random scores reach 0.5 and
more; it is here only to explain published numbers.

Edges are undirected: both ends of a link are sources.  NaN scores rank last.
"""

from typing import Literal

import torch
from torch import Tensor

from fedsim.data.graphs.pairs import Absent, absent
from fedsim.learn.engine import ops
from fedsim.learn.metric import Judged
from fedsim.learn.pairs.links import scores

RankRule = Literal["max", "mean", "min"]
AT_ONCE = 2**24  # numbers gathered for one chunk of sources


def mrr(
    h: Tensor,
    positives: Tensor,
    owner: Tensor,
    owners: int,
    group: Tensor,
    seed: int,
    *,
    rule: RankRule = "max",
    count: int = 1000,
) -> Tensor:
    """Return the mean over each owner's sources of 1 / (1 + negatives that score at least the positive): (owners,).

    h (N, H) embeddings; positives (2, P) rows of h; owner (P,) of each; group (N,): a source's negatives are
    `count` rows of its own group, drawn uniformly with replacement, except itself and its own positives.  A source
    joined to the whole group has no negatives and is left out; an owner without sources gets NaN.  Draws depend on the
    seed, the group and the source's place in it, not on the owners or the order of the positives.
    """
    order = torch.argsort(group, stable=True)
    groups, which_group, sizes = torch.unique(group, return_inverse=True, return_counts=True)
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(order)
    place[order] = torch.arange(len(order), device=h.device)
    place = place - starts[which_group]

    source, target = torch.cat([positives, positives.flip(0)], 1)
    keys, which = torch.unique(owner.repeat(2) * len(h) + source, return_inverse=True)
    own = keys % len(h) if len(keys) else keys  # the row of each source
    at = which_group[own]
    free = absent(torch.cat([place[target], place[own]]), torch.cat([which, _count(own)]), sizes[at])
    wanted = _wanted(scores(h[source], h[target]), which, len(own), rule)

    ranks = [torch.zeros(0, dtype=torch.long, device=h.device)]
    ranked = (free.counts > 0).nonzero().squeeze(1)
    for some in torch.split(ranked, max(1, AT_ONCE // (count * max(1, h.shape[1])))):
        drawn = _draw(free, some, seed, groups[at[some]], place[own[some]], count)
        negative = scores(h[own[some]].unsqueeze(1), h[order[drawn + starts[at[some]].unsqueeze(1)]])
        ranks.append(1 + (~(negative < wanted[some].unsqueeze(1))).sum(1))
    return _mean(1 / torch.cat(ranks).double(), keys[ranked] // max(1, len(h)), owners)


def sampled_rows(logits: Tensor, pairs: Tensor, links: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the mean over each owner's sources of the mean of 1 / rank over their positives: (owners,).

    logits (P,), links (P,) bool, owner (P,) of pairs (2, P).  A positive's rank is its place among all pairs of its
    source, other positives included; in ties negatives come first.
    """
    which = owner.repeat(2) * (int(pairs.max()) + 1 if pairs.numel() else 1) + pairs.flatten()
    there, value = links.repeat(2), torch.where(logits.isnan(), -torch.inf, logits).repeat(2)
    order = torch.argsort(there.long(), stable=True)
    order = order[torch.argsort(value[order], descending=True, stable=True)]
    order = order[torch.argsort(which[order], stable=True)]
    _, row, sizes = torch.unique_consecutive(which[order], return_inverse=True, return_counts=True)
    rank = _count(row) - (sizes.cumsum(0) - sizes)[row] + 1
    hit = there[order]
    owner_of_row = owner.repeat(2)[order][sizes.cumsum(0) - sizes]
    some = torch.bincount(row[hit], minlength=len(sizes)) > 0
    return _mean(_mean(1 / rank[hit].double(), row[hit], len(sizes))[some], owner_of_row[some], owners)


def _draw(free: Absent, which: Tensor, seed: int, group: Tensor, place: Tensor, count: int) -> Tensor:
    """Return `count` places of each source's group that are neither its own nor its positives': (S, count)."""
    seeds = ops.words(torch.full_like(place, seed), group)
    counter = place.unsqueeze(1) * count + torch.arange(count, device=place.device)
    bits = ops.words(seeds.unsqueeze(1), counter) >> 1 & 2**62 - 1
    return free.pick(bits % free.counts[which].unsqueeze(1), which.unsqueeze(1).expand_as(bits))


def _wanted(score: Tensor, which: Tensor, sources: int, rule: RankRule) -> Tensor:
    """Return the score to rank for each source: that of its best or worst positive, or the mean of all."""
    order = torch.argsort(which, stable=True)
    lengths = torch.bincount(which, minlength=sources)
    return torch.segment_reduce(score[order], rule, lengths=lengths) if sources else score


def _mean(values: Tensor, which: Tensor, count: int) -> Tensor:
    """Return the mean of the values (n,) of each of `count` sorted groups, NaN where there are none."""
    return sums(values, which, count) / torch.bincount(which, minlength=count)


def _count(like: Tensor) -> Tensor:
    return torch.arange(len(like), device=like.device)


def levels(judged: Judged) -> tuple[Tensor, ...]:
    """Count links and other pairs at each owner's distinct scores, and at all higher ones, owner after owner.

    Returns links, others, links above, others above and the owner, each (levels,), and the totals (2, owners).
    """
    logits, y, owner, owners = judged.logits, judged.y, judged.owner, judged.owners
    value = torch.where(logits.isnan(), -torch.inf, logits)
    order = torch.argsort(value, descending=True, stable=True)
    order = order[torch.argsort(owner[order], stable=True)]
    value, who, link = value[order], owner[order], y[order].long()
    fresh = torch.ones_like(link, dtype=torch.bool)
    fresh[1:] = (value[1:] != value[:-1]) | (who[1:] != who[:-1])
    level = fresh.long().cumsum(0) - 1
    whose = who[fresh]
    counts = [torch.bincount(level[link == wanted], minlength=len(whose)) for wanted in (1, 0)]
    total = torch.stack([torch.bincount(who[link == wanted], minlength=owners) for wanted in (1, 0)])
    before = total.cumsum(1) - total
    above = [count.cumsum(0) - count - past[whose] for count, past in zip(counts, before, strict=True)]
    return *counts, *above, whose, total


def sums(values: Tensor, whose: Tensor, owners: int) -> Tensor:
    """Add up the values (n,) of each owner, sorted by owner, in a fixed order: (owners,) float64."""
    lengths = torch.bincount(whose, minlength=owners)
    if not len(values):
        return torch.zeros(owners, dtype=torch.double, device=values.device)
    return torch.segment_reduce(values.double(), "sum", lengths=lengths, initial=0)

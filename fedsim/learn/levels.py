"""Counts of links and other pairs by the score that they are given, from which metrics of rankings are computed."""

import torch
from torch import Tensor

from fedsim.learn.metric import Judged


def of(judged: Judged) -> tuple[Tensor, ...]:
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

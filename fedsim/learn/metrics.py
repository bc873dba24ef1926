"""Metrics: pure functions of (logits, labels, owner, owners) over the scored rows, one value per owner.

owner (n,) int64 in 0..owners-1: the owner of each row.  An owner without rows gets NaN.
Of vertices (`ALL`), logits (n, C), y (n,) int64: argmax runs over all C logits, no masking of classes not yet seen.
Of links (`LINKS`), logits (n,), y (n,) bool, whether the pair is joined: NaN logits rank last.
"""

import torch
from torch import Tensor


def accuracy(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the share of rows whose largest logit is the label's: (owners,) float64."""
    right = (logits.argmax(1) == y).double()
    hits = torch.bincount(owner, right, minlength=owners).double()  # without rows bincount changes the type
    return hits / torch.bincount(owner, minlength=owners)


def macro_f1(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the unweighted mean of the classes' F1 over the classes that occur as label or prediction."""
    true, predicted, actual = _counts(logits, y, owner, owners)
    f1 = 2 * true / (predicted + actual).clamp(min=1)
    present = (predicted + actual) > 0
    return (f1 * present).sum(1) / present.sum(1)


def micro_f1(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return F1 over all decisions together; with one label per row it equals the accuracy."""
    true, predicted, actual = _counts(logits, y, owner, owners)
    return 2 * true.sum(1) / (predicted + actual).sum(1)


def _counts(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, Tensor, Tensor]:
    classes, guess = logits.shape[1], logits.argmax(1)
    cells = owners * classes

    def tally(label: Tensor, of: Tensor) -> Tensor:
        return torch.bincount(of * classes + label, minlength=cells).view(owners, classes).double()

    hit = guess == y
    return tally(y[hit], owner[hit]), tally(guess, owner), tally(y, owner)


def link_accuracy(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the share of pairs whose probability is above one half exactly where they are joined: (owners,)."""
    right = owner[(logits > 0) == y]
    return torch.bincount(right, minlength=owners).double() / torch.bincount(owner, minlength=owners)


def auc(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the probability that a link scores above a non-link, ties counting half: (owners,) float64.

    NaN for an owner without links or without non-links.
    """
    links, others, _, others_above, whose, total = _levels(logits, y, owner, owners)
    others_below = total[1][whose] - others_above - others
    won = _sums(links * (others_below + others / 2), whose, owners)
    return won / (total[0] * total[1])


def average_precision(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the sum over thresholds of the gain in recall times the precision: (owners,), NaN without links.

    The area under the step curve, without interpolation; its mean over snapshots is called MAP.
    """
    links, others, links_above, others_above, whose, total = _levels(logits, y, owner, owners)
    precision = (links_above + links) / (links_above + links + others_above + others)
    return _sums(links * precision, whose, owners) / total[0]


def _levels(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, ...]:
    """Count links and other pairs at each owner's distinct scores, and at all higher ones, owner after owner.

    Returns links, others, links above, others above and the owner, each (levels,), and the totals (2, owners).
    """
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


def _sums(values: Tensor, whose: Tensor, owners: int) -> Tensor:
    """Add up the values (n,) of each owner, sorted by owner, in a fixed order: (owners,) float64."""
    lengths = torch.bincount(whose, minlength=owners)
    if not len(values):
        return torch.zeros(owners, dtype=torch.double, device=values.device)
    return torch.segment_reduce(values.double(), "sum", lengths=lengths, initial=0)


LINKS = {"accuracy": link_accuracy, "auc": auc, "average_precision": average_precision}
ALL = {"accuracy": accuracy, "macro_f1": macro_f1, "micro_f1": micro_f1}

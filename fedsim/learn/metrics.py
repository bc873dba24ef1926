"""Metrics: pure functions of (logits, labels, owner, owners) over the scored rows, one value an owner.

logits (n, C), y (n,) int64, owner (n,) int64 in 0..owners-1: whose row each is.  An owner without rows gets NaN.
Argmax runs over all C logits: no masking of classes not yet seen.
"""

import torch
from torch import Tensor


def accuracy(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the share of rows whose largest logit is the label's: (owners,) float64."""
    right = (logits.argmax(1) == y).double()
    hits = torch.bincount(owner, right, minlength=owners).double()  # without rows bincount forgets the type
    return hits / torch.bincount(owner, minlength=owners)


def macro_f1(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return the unweighted mean of the classes' F1 over the classes that occur as label or prediction."""
    true, predicted, actual = _counts(logits, y, owner, owners)
    f1 = 2 * true / (predicted + actual).clamp(min=1)
    present = (predicted + actual) > 0
    return (f1 * present).sum(1) / present.sum(1)


def micro_f1(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> Tensor:
    """Return F1 over all decisions together; with one label a row it equals the accuracy."""
    true, predicted, actual = _counts(logits, y, owner, owners)
    return 2 * true.sum(1) / (predicted + actual).sum(1)


def _counts(logits: Tensor, y: Tensor, owner: Tensor, owners: int) -> tuple[Tensor, Tensor, Tensor]:
    classes, guess = logits.shape[1], logits.argmax(1)
    cells = owners * classes

    def tally(label: Tensor, of: Tensor) -> Tensor:
        return torch.bincount(of * classes + label, minlength=cells).view(owners, classes).double()

    hit = guess == y
    return tally(y[hit], owner[hit]), tally(guess, owner), tally(y, owner)


ALL = {"accuracy": accuracy, "macro_f1": macro_f1, "micro_f1": micro_f1}

"""Accuracy: the share of right predictions, by the largest logit, or by a pair's probability above one half."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of right predictions."""

    of = ("classes", "links")
    mean = True

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,), NaN without rows."""
        guess = judged.logits > 0 if judged.logits.ndim == 1 else judged.logits.argmax(1)
        right, owner, owners = (guess == judged.y).double(), judged.owner, judged.owners
        return right.new_zeros(owners).index_add_(0, owner, right) / torch.bincount(owner, minlength=owners)

"""Accuracy: the share of right predictions, by the largest logit, or by a pair's probability above one half."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class Accuracy(Metric):
    """The share of right predictions."""

    of: ClassVar[Sequence[str]] = ("classes", "links")
    mean: ClassVar[bool] = True

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        guess = judged.logits > 0 if judged.logits.ndim == 1 else judged.logits.argmax(1)
        return judged.share(guess == judged.y)

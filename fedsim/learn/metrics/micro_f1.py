"""Micro-averaged F1: over all decisions together; with one label for each node it equals the accuracy."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class MicroF1(Metric):
    """F1 of the sums over classes."""

    of = ("classes",)
    mean = True

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        true, predicted, actual = judged.counts()
        return 2 * true.sum(1) / (predicted + actual).sum(1)

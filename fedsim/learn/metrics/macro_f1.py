"""Macro-averaged F1: the unweighted mean of the F1 of the classes that occur as label or prediction."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class MacroF1(Metric):
    """The mean of F1 over classes, each of which weighs the same."""

    of = ("classes",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        true, predicted, actual = judged.counts()
        f1 = 2 * true / (predicted + actual).clamp(min=1)
        present = (predicted + actual) > 0
        return (f1 * present).sum(1) / present.sum(1)

"""Mean absolute error of real targets, a mean over rows and targets."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class MAE(Metric):
    """The mean of |prediction - target|."""

    of = ("values",)
    mean = True
    lower_is_better = True

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,), NaN without rows."""
        return judged.means((judged.logits.double() - judged.y).abs().mean(1))

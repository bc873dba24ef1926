"""R2, the coefficient of determination: the share of the targets' variance that predictions explain.

    R2 = 1 - sum (y - prediction)^2 / sum (y - mean y)^2

1 is perfect, 0 as good as the mean of the targets, and there is no lower limit.  Of several targets it is the
mean of each one's R2.
"""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class R2(Metric):
    """One minus the squared error over that of the owner's own mean; NaN where a target does not vary."""

    of = ("values",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        y, owner = judged.y.double(), judged.owner

        def sums(each: Tensor) -> Tensor:
            return each.new_zeros(judged.owners, *each.shape[1:]).index_add_(0, owner, each)

        mean = sums(y) / owner.bincount(minlength=judged.owners).clamp(min=1).unsqueeze(1)
        left, spread = sums((judged.logits - y).square()), sums((y - mean[owner]).square())
        return (1 - left / spread.where(spread > 0, float("nan"))).mean(1)

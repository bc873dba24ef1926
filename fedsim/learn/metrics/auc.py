"""Area under the ROC curve: the probability that a link scores above a non-link, ties counting half."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedsim.learn import levels
from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class AUC(Metric):
    """The area under the ROC curve, NaN for an owner without links or without non-links."""

    of: ClassVar[Sequence[str]] = ("links",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        links, others, _, others_above, whose, total = levels.of(judged)
        others_below = total[1][whose] - others_above - others
        won = levels.sums(links * (others_below + others / 2), whose, judged.owners)
        return won / (total[0] * total[1])

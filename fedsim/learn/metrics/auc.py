"""Area under the ROC curve: the probability that a link scores above a non-link, ties counting half."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric
from fedsim.learn.pairs import ranking


@dataclass(frozen=True)
class AUC(Metric):
    """The area under the ROC curve, NaN for an owner without links or without non-links."""

    of = ("links",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        links, others, _, others_above, whose, total = ranking.levels(judged)
        others_below = total[1][whose] - others_above - others
        won = ranking.sums(links * (others_below + others / 2), whose, judged.owners)
        return won / (total[0] * total[1])

"""Average precision: the sum over thresholds of the gain in recall times the precision; over snapshots, MAP."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric
from fedsim.learn.pairs import ranking


@dataclass(frozen=True)
class AveragePrecision(Metric):
    """The area under the step curve of precision and recall, without interpolation; NaN without links."""

    of = ("links",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        links, others, links_above, others_above, whose, total = ranking.levels(judged)
        precision = (links_above + links) / (links_above + links + others_above + others)
        return ranking.sums(links * precision, whose, judged.owners) / total[0]

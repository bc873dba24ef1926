"""Average precision: the sum over thresholds of the gain in recall times the precision; over snapshots, MAP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedsim.learn import levels
from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class AveragePrecision(Metric):
    """The area under the step curve of precision and recall, without interpolation; NaN without links."""

    of: ClassVar[Sequence[str]] = ("links",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        links, others, links_above, others_above, whose, total = levels.of(judged)
        precision = (links_above + links) / (links_above + links + others_above + others)
        return levels.sums(links * precision, whose, judged.owners) / total[0]

"""Mean reciprocal rank of links among negatives drawn for their ends (fedsim/learn/ranking.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class MRR(Metric):
    """The mean over sources of one over the rank of their link."""

    of: ClassVar[Sequence[str]] = ("embeddings",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        assert judged.reciprocal_ranks is not None  # what scores embeddings gives it
        return judged.reciprocal_ranks(judged.owner, judged.owners)

"""Mean reciprocal rank of links among negatives drawn for their ends (fedsim/learn/pairs/ranking.py)."""

from dataclasses import dataclass

from torch import Tensor

from fedsim.learn.metric import Judged, Metric


@dataclass(frozen=True)
class MRR(Metric):
    """The mean over sources of one over the rank of their link."""

    of = ("embeddings",)

    def values(self, judged: Judged) -> Tensor:
        """Return it for each owner: (owners,)."""
        assert judged.reciprocal_ranks is not None  # what scores embeddings gives it
        return judged.reciprocal_ranks(judged.owner, judged.owners)

"""Pairs of nodes within clients that are the same test for every run."""

from dataclasses import dataclass

from fedsim.learner.scoring.same_pairs import SamePairs


@dataclass(frozen=True)
class OwnPairs(SamePairs):
    """Edges of the snapshot that tests a period with both ends at one client, and as many pairs that are none."""

    which = "own_pairs"

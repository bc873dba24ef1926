"""Pairs of nodes between clients that are the same test for every run."""

from dataclasses import dataclass

from fedsim.learner.scoring.same_pairs import SamePairs


@dataclass(frozen=True)
class CutPairs(SamePairs):
    """Edges of the snapshot that tests a period with ends at two clients, and as many pairs that are none."""

    which = "cut_pairs"

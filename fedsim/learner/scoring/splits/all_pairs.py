"""Pairs of nodes that are the same test for every run and every number of clients, whoever owns their ends."""

from dataclasses import dataclass

from fedsim.learner.scoring.same_pairs import SamePairs


@dataclass(frozen=True)
class AllPairs(SamePairs):
    """Edges of the snapshot that tests a period, and as many pairs that are none."""

    which = "all_pairs"

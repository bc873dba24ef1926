"""Drawn events whose next pairs follow from common neighbours alone: groups that meet pair by pair.

Each community is divided at random into groups of `group` nodes.  In a group everybody meets everybody once,
one other a second, as in a round-robin tournament; then the groups are drawn anew.  So every node has exactly
one event a second: neither times nor degrees nor features tell who meets whom.  From the third second of a
group on those who meet have usually met somebody in common; in its first second nobody can know.  A node's
class is its community.  Events between communities do not occur, so that clients that own whole communities
lose none.  Not modelled: nodes that come or leave, and events at irregular times.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedsim.core import seeds
from fedsim.core.arrays import Ints
from fedsim.core.units import Count
from fedsim.data.graph import Graph, with_keys
from fedsim.data.time.temporal import DynamicDataset, events


@dataclass(frozen=True)
class Meetings(DynamicDataset):
    """For example `{name: meetings, communities: 4, members: 64, seconds: 70}`: 8,960 events of 256 nodes."""

    communities: Count = 4  # groups are drawn within these
    members: Count = 64  # nodes of a community
    group: Count = 8  # nodes that meet each other, an even number that divides the members
    seconds: Count = 70  # in each of which every node has one event
    features: Count = 1  # number of constant features

    def __post_init__(self) -> None:
        """Raise ValueError for groups that do not come out even."""
        if self.group % 2 or self.members % self.group:
            raise ValueError("group: must be an even number that divides members, such as 8 of 64")

    def load(self, root: Path, seed: int) -> Graph:
        """Return the graph of that seed; `root` is not used."""
        rng, n = seeds.generator(seed, "data.meetings"), self.communities * self.members
        own = np.arange(n).reshape(self.communities, self.members)
        rounds = pairings(self.group)
        groups, found = own, []
        for second in range(self.seconds):
            if second % len(rounds) == 0:
                groups = rng.permuted(own, axis=1).reshape(-1, self.group)
            found.append(groups[:, rounds[second % len(rounds)]].reshape(-1, 2).T)
        times = np.repeat(np.arange(self.seconds, dtype=np.float64), n // 2)
        graph = events(np.concatenate(found, axis=1), times, n, np.arange(n) // self.members)
        return with_keys(graph, {"x": torch.ones(n, self.features)})


def pairings(group: int) -> list[Ints]:
    """Return who meets whom (group / 2, 2) in each of group - 1 rounds, by the circle method: everybody once."""
    circle, found = np.arange(1, group), []
    for turn in range(group - 1):
        row = np.append(0, np.roll(circle, turn))
        found.append(np.stack([row[: group // 2], row[: group // 2 - 1 : -1]], axis=1))
    return found

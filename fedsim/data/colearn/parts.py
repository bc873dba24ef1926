"""Parts: the owner of each node while a partition is being made, and its three scores.

Only the real edges of the snapshot count here.  Nodes without an owner have -1.
"""

import numpy as np

from fedsim.data.colearn.web import Web

EPSILON = 1e-6


class PartStatistics:
    """`owner` (N,) int64; each part's `edges` within it, its `sizes` and its `labels` (parts, classes).

    A label below 0 is unknown and affects no score.
    """

    def __init__(self, web: Web, labels: np.ndarray, count: int) -> None:
        self.web, self.count = web, count
        self.owner = np.full(web.size, -1, dtype=np.int64)
        _, self.label = np.unique(np.where(labels < 0, -1, labels), return_inverse=True)
        self.label = self.label - (1 if (labels < 0).any() else 0)
        self.edges = np.zeros(count, dtype=np.int64)
        self.sizes = np.zeros(count, dtype=np.int64)
        self.labels = np.zeros((count, int(self.label.max(initial=0)) + 1), dtype=np.int64)
        self.total = max(1, len(web.ends) // 2)

    def settle(self, nodes: np.ndarray, parts: np.ndarray) -> None:
        """Assign nodes without an owner to those parts."""
        self.owner[nodes] = parts
        self.sizes += np.bincount(parts, minlength=self.count)
        known = self.label[nodes] >= 0
        np.add.at(self.labels, (parts[known], self.label[nodes[known]]), 1)
        at, near = self.web.around(nodes)
        new = np.zeros(self.web.size, dtype=bool)
        new[nodes] = True
        inside = self.owner[near] == parts[at]
        # an edge between two new nodes is counted from both ends
        twice = np.bincount(parts[at[inside]], 2.0 - new[near[inside]], minlength=self.count)
        self.edges += twice.astype(np.int64) // 2

    def place(self, node: int, part: int, near: dict[int, int]) -> None:
        """Assign one node without an owner to a part; `near` are its neighbours' parts, from `neighbours_by_part`."""
        self.owner[node] = part
        self.sizes[part] += 1
        self.edges[part] += near.get(part, 0)
        if (label := self.label[node]) >= 0:
            self.labels[part, label] += 1

    def move(self, node: int, part: int, near: dict[int, int]) -> None:
        """Move one node from its part to another."""
        before = int(self.owner[node])
        self.sizes[before] -= 1
        self.edges[before] -= near.get(before, 0)
        if (label := self.label[node]) >= 0:
            self.labels[before, label] -= 1
        self.place(node, part, near)

    def rename(self, name: np.ndarray) -> None:
        """Renumber part i as name[i]; `name` is a permutation."""
        self.owner = np.where(self.owner >= 0, name[self.owner], -1)
        order = np.argsort(name)
        self.edges, self.sizes, self.labels = self.edges[order], self.sizes[order], self.labels[order]

    def neighbours_by_part(self, node: int) -> dict[int, int]:
        """Return how many neighbours each part owns, by ascending part; parts that own none are left out."""
        counts: dict[int, int] = {}
        for part in self.owner[self.web.row(node)].tolist():
            if part >= 0:
                counts[part] = counts.get(part, 0) + 1
        return dict(sorted(counts.items()))

    def cut(self, node: int, part: int, near: dict[int, int], raw: bool = False) -> float:
        """Return the share of the node's neighbours that the part owns; if `raw`, their number."""
        held = near.get(part, 0)
        return held if raw else held / max(1, self.web.degree_of(node))

    def balance(self, node: int, part: int, near: dict[int, int]) -> float:
        """Return 1 - |E(S with v)| / |E|, both undirected."""
        inside = int(self.edges[part]) + (near.get(part, 0) if self.owner[node] != part else 0)
        return 1 - inside / self.total

    def spread(self, node: int, part: int, raw: bool = False) -> float:
        """Return 1 - the share of the part's nodes with the node's label, the node included if it is there.

        If `raw`, return their number instead, which has the opposite sense.
        """
        label = self.label[node]
        if label < 0:
            return 0.0
        same = int(self.labels[part, label])
        return same if raw else 1 - same / (int(self.sizes[part]) + EPSILON)

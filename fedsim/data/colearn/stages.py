"""The two stages that assign a node which several parts could own.

Primary: while the parts grow from their seeds, level by level, to the best of the parts that reach the node
in the same level.  Secondary: once afterwards for every border node, which may move to a neighbour's part
that suits it better.  A `Rule` selects which of three scores the stages use (Appendix B of the paper).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import FiniteFloat, NonNegativeFloat

from fedsim.core.units import Count, Fraction
from fedsim.data.colearn.parts import PartStatistics
from fedsim.data.colearn.web import Web

Way = Literal["round_robin", "labels", "stay"]
StageOrder = Literal["mincut_first", "balance_first", "label_first"]
Score = Literal["cut", "balance", "label"]
ROUNDING = 1e-12  # gains that differ by less are equal
SECONDARY: dict[StageOrder, tuple[Score, Score]] = {
    "mincut_first": ("balance", "label"),
    "balance_first": ("cut", "label"),
    "label_first": ("cut", "balance"),
}


@dataclass(frozen=True)
class Rule:
    """How to partition.  Defaults are the paper's and, where it is silent, its code's.

    With `raw`, secondary scores by cut and by label are plain counts, except in `mincut_first`, and that by
    label has the opposite sense, as in the published code.  `most_cut` is the paper's "limiting new edge
    cuts", which has no formula there.
    """

    stages: StageOrder = "mincut_first"  # which steps improve the parts, in which order
    alpha: Fraction = 0.5  # weight of the first of the two secondary scores
    tau: FiniteFloat = 0.4  # a node moves for a larger gain than this
    most_cut: NonNegativeFloat | None = None  # cut edges that one move may add; null: any number
    raw: bool = False  # secondary scores as the published code counts them
    per_client: Count = 510  # directed edges of a snapshot per part; unused on a static graph
    isolated: Way = "round_robin"  # what happens to nodes without an edge
    exact_seeds: bool = False  # the exact farthest pair: a search from every node
    repartition: bool = False  # partition again at every snapshot


def grow(parts: PartStatistics, guide: Web, seeds: np.ndarray, rule: Rule) -> np.ndarray:
    """Assign every node that `guide` reaches from the seeds, seed i to part i; return which were contested.

    In each level, nodes reached by one part are assigned first, and then, by ascending number, those reached
    by several: each sees the parts so far, and goes to the one with the highest score among those that reach
    it, ties to the lowest.  So `guide` (which may hold synthetic edges) decides which parts compete, and real
    edges which one wins.
    """
    parts.settle(seeds, np.arange(len(seeds)))
    conflicts, frontier = [], seeds
    while len(frontier):
        at, near = guide.around(frontier)
        free = parts.owner[near] < 0
        claims = np.unique(near[free] * parts.count + parts.owner[frontier[at[free]]])
        node, part = np.divmod(claims, parts.count)
        frontier, first, rivals = np.unique(node, return_index=True, return_counts=True)
        alone = rivals == 1
        parts.settle(frontier[alone], part[first[alone]])
        for contested, start, count in zip(frontier[~alone], first[~alone], rivals[~alone], strict=True):
            _win(parts, int(contested), part[start : start + count].tolist(), rule)
        conflicts.append(frontier[~alone])
    return np.sort(np.concatenate(conflicts)) if conflicts else np.empty(0, dtype=np.int64)


def _win(parts: PartStatistics, node: int, rivals: list[int], rule: Rule) -> None:
    near = parts.neighbours_by_part(node)
    if rule.stages == "mincut_first":
        best = max(rivals, key=lambda part: parts.cut(node, part, near))
    elif rule.stages == "balance_first":
        best = min(rivals, key=lambda part: int(parts.edges[part]))
    else:
        best = max(rivals, key=lambda part: parts.spread(node, part))
    parts.place(node, best, near)


def border(parts: PartStatistics, nodes: np.ndarray) -> np.ndarray:
    """Return those of the nodes that have a neighbour in another part."""
    at, near = parts.web.around(nodes)
    across = (parts.owner[near] >= 0) & (parts.owner[near] != parts.owner[nodes[at]])
    return nodes.take(np.unique(at[across]))


def settle_border(parts: PartStatistics, nodes: np.ndarray, rule: Rule) -> None:
    """Let each of these nodes move once, in ascending order, after the moves before."""
    for node in np.sort(nodes).tolist():
        near = parts.neighbours_by_part(node)
        if (better := _better(parts, node, near, rule)) is not None:
            parts.move(node, better, near)
            parts.web.tally.moves += 1


def _better(parts: PartStatistics, node: int, near: dict[int, int], rule: Rule) -> int | None:
    current = int(parts.owner[node])
    if not near or [*near] == [current]:
        return None
    here = secondary(parts, node, current, near, rule)
    best, gain = None, rule.tau
    most_cut = float("inf") if rule.most_cut is None else rule.most_cut
    for part, held in near.items():
        if part == current or near.get(current, 0) - held > most_cut:
            continue
        if (more := secondary(parts, node, part, near, rule) - here) > gain + ROUNDING:
            best, gain = part, more
    return best


def secondary(parts: PartStatistics, node: int, part: int, near: dict[int, int], rule: Rule) -> float:
    """Return R(v, S), for the node's own part too."""
    raw = rule.raw and rule.stages != "mincut_first"

    def score(kind: Score) -> float:
        if kind == "cut":
            return parts.cut(node, part, near, raw)
        return parts.balance(node, part, near) if kind == "balance" else parts.spread(node, part, raw)

    first, second = SECONDARY[rule.stages]
    return rule.alpha * score(first) + (1 - rule.alpha) * score(second)

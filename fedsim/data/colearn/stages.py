"""The two stages that assign a vertex which several parts could own.

Primary: while the parts grow from their seeds, level by level, to the best of the parts that reach the vertex in the
same level.  Secondary: once afterwards for every border vertex, which may move to a neighbour's part that suits it
better.  A `Config` selects which of three scores the stages use (Appendix B of the paper).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedsim.data.colearn.parts import Parts
from fedsim.data.colearn.web import Web

Name = Literal["mincut_first", "balance_first", "label_first"]
Score = Literal["cut", "balance", "label"]
ROUNDING = 1e-12  # gains that differ by less are equal
SECONDARY: dict[Name, tuple[Score, Score]] = {
    "mincut_first": ("balance", "label"),
    "balance_first": ("cut", "label"),
    "label_first": ("cut", "balance"),
}


@dataclass(frozen=True)
class Config:
    """`alpha` weights the first of the secondary scores; a move must gain more than `tau`.

    `most_cut` (the paper's "limiting new edge cuts", which has no formula there) is how many cut edges a move may add.
    With `raw`, secondary scores by cut and by label are plain counts, except in `mincut_first`, and that by label has
    the opposite sense, as in the published code.
    """

    stages: Name = "mincut_first"
    alpha: float = 0.5
    tau: float = 0.4
    most_cut: float = float("inf")
    raw: bool = False


def grow(parts: Parts, guide: Web, seeds: np.ndarray, config: Config) -> np.ndarray:
    """Assign every vertex that `guide` reaches from the seeds, seed i to part i; return which were contested.

    In each level, vertices reached by one part are assigned first, and then, by ascending number, those reached by
    several: each sees the parts so far, and goes to the one with the highest score among those that reach it, ties to
    the lowest.  So `guide` (which may hold synthetic edges) decides which parts compete, and real edges which one wins.
    """
    parts.settle(seeds, np.arange(len(seeds)))
    conflicts, frontier = [], seeds
    while len(frontier):
        at, near = guide.around(frontier)
        free = parts.owner[near] < 0
        claims = np.unique(near[free] * parts.count + parts.owner[frontier[at[free]]])
        vertex, part = np.divmod(claims, parts.count)
        frontier, first, rivals = np.unique(vertex, return_index=True, return_counts=True)
        alone = rivals == 1
        parts.settle(frontier[alone], part[first[alone]])
        for one, start, count in zip(frontier[~alone], first[~alone], rivals[~alone], strict=True):
            _win(parts, int(one), part[start : start + count].tolist(), config)
        conflicts.append(frontier[~alone])
    return np.sort(np.concatenate(conflicts)) if conflicts else np.empty(0, dtype=np.int64)


def _win(parts: Parts, vertex: int, rivals: list[int], config: Config) -> None:
    near = parts.beside(vertex)
    if config.stages == "mincut_first":
        scores = [parts.cut(vertex, part, near) for part in rivals]
    elif config.stages == "balance_first":
        scores = [parts.lightness(part) for part in rivals]
    else:
        scores = [parts.spread(vertex, part) for part in rivals]
    parts.place(vertex, rivals[scores.index(max(scores))], near)


def border(parts: Parts, vertices: np.ndarray) -> np.ndarray:
    """Return those of the vertices that have a neighbour in another part."""
    at, near = parts.web.around(vertices)
    across = (parts.owner[near] >= 0) & (parts.owner[near] != parts.owner[vertices[at]])
    found: np.ndarray = vertices[np.unique(at[across])]
    return found


def settle_border(parts: Parts, vertices: np.ndarray, config: Config) -> int:
    """Let each of these vertices move once, in ascending order, after the moves before; return how many moved."""
    moves = 0
    for vertex in np.sort(vertices).tolist():
        near = parts.beside(vertex)
        if (better := _better(parts, vertex, near, config)) is not None:
            parts.move(vertex, better, near)
            moves += 1
    parts.web.tally.moves += moves
    return moves


def _better(parts: Parts, vertex: int, near: dict[int, int], config: Config) -> int | None:
    own = int(parts.owner[vertex])
    if not near or [*near] == [own]:
        return None
    here = secondary(parts, vertex, own, near, config)
    best, gain = None, config.tau
    for part, held in near.items():
        if part == own or near.get(own, 0) - held > config.most_cut:
            continue
        if (more := secondary(parts, vertex, part, near, config) - here) > gain + ROUNDING:
            best, gain = part, more
    return best


def secondary(parts: Parts, vertex: int, part: int, near: dict[int, int], config: Config) -> float:
    """Return R(v, S), for the vertex's own part too."""
    raw = config.raw and config.stages != "mincut_first"
    total = 0.0
    for weight, score in zip((config.alpha, 1 - config.alpha), SECONDARY[config.stages], strict=True):
        if score == "cut":
            total += weight * parts.cut(vertex, part, near, raw)
        elif score == "balance":
            total += weight * parts.balance(vertex, part, near)
        else:
            total += weight * parts.spread(vertex, part, raw)
    return total

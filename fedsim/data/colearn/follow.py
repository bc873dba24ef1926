"""A partition through the snapshots of a graph: in full at first and where its size changes, else by
newcomers.

A node keeps its part until the next full partition, even while it is absent.  A full partition does not
depend on the one before; its parts are then renumbered so that as few nodes as possible change their owner,
which the paper does not specify.  Nodes and edges that go away take nothing else along.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fedsim.data.colearn.newcomers import deal, join
from fedsim.data.colearn.parts import PartStatistics
from fedsim.data.colearn.stages import Rule, border, grow, settle_border
from fedsim.data.colearn.web import chained, seeds_of, web_of
from fedsim.data.partition import names


@dataclass(frozen=True)
class Shot:
    """One snapshot: `edges` (2, E) with both directions, `present` (n,) the nodes there, `labels` (N,).

    All by the N numbers of the whole graph, which every snapshot shares.
    """

    edges: np.ndarray
    present: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Step:
    """The result for a snapshot: `owner` (N,), -1 for absent nodes, and its cost.

    `scanned` counts the entries of adjacency rows that were read, the work to charge; it excludes reading the
    snapshot's edges, and counting the parts' edges before newcomers join (a server keeps these counts).
    """

    owner: np.ndarray
    parts: int
    full: bool
    moves: int  # by the secondary stage
    moved: int  # nodes present before, with another owner
    scanned: int


def parts_for(entries: int, per_client: int, most: int) -> int:
    """Return the number of parts for that many directed entries (section 3.1 of the paper's code)."""
    return min(max(1, entries // per_client), most)


def full(shot: Shot, count: int, rule: Rule, before: np.ndarray | None = None) -> tuple[PartStatistics, int]:
    """Return a partition into that many parts (Algorithm 1), and how many nodes were assigned in turn.

    Parts beyond the number of nodes with an edge get isolated nodes, if there are any.  Given the owners
    `before` (N,), parts are numbered so that the most nodes keep theirs.
    """
    web = web_of(shot.edges, len(shot.labels))
    parts = PartStatistics(web, shot.labels, count)
    guide = chained(web)
    seeds = seeds_of(guide, count, rule.exact_seeds)
    edgy = np.union1d(grow(parts, guide, seeds, rule), border(parts, np.flatnonzero(web.degree > 0)))
    settle_border(parts, np.setdiff1d(edgy, seeds), rule)  # a seed never leaves its part
    if before is not None:
        parts.rename(names(parts.owner, before, count))
    return parts, deal(parts, shot.present[web.degree[shot.present] == 0], rule.isolated, before)


def grown(shot: Shot, owner: np.ndarray, count: int, rule: Rule, dealt: int) -> tuple[PartStatistics, int]:
    """Return the partition extended by the nodes present without an owner (N,), and the turns so far."""
    web = web_of(shot.edges, len(shot.labels))
    parts = PartStatistics(web, shot.labels, count)
    old = shot.present[owner[shot.present] >= 0]
    new = np.sort(shot.present[owner[shot.present] < 0])
    parts.settle(old, owner[old])
    web.tally.scanned = 0
    dealt = join(parts, new, dealt)
    settle_border(parts, border(parts, new), rule)
    return parts, dealt


def follow(shots: Sequence[Shot], most: int, rule: Rule) -> Iterator[Step]:
    """Yield the partition of each snapshot, into at most that many parts."""
    known, count, dealt = np.full(len(shots[0].labels), -1, dtype=np.int64), 0, 0
    present = np.zeros(len(known), dtype=bool)
    for shot in shots:
        wanted, before, stayed = parts_for(shot.edges.shape[1], rule.per_client, most), known, present
        in_full = rule.repartition or wanted != count
        if in_full:
            parts, dealt = full(shot, wanted, rule, known)
            known = parts.owner
        else:
            parts, dealt = grown(shot, known, wanted, rule, dealt)
            known = np.where(parts.owner >= 0, parts.owner, known)
        count = wanted
        present = np.zeros(len(known), dtype=bool)
        present[shot.present] = True
        moved = int((known != before)[stayed & present].sum())
        tally = parts.web.tally
        yield Step(np.where(present, known, -1), wanted, in_full, tally.moves, moved, tally.scanned)

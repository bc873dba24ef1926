"""Drawn graphs whose change is local: communities of which few change, and how far a change then reaches."""

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fake_events import listed

from fedsim.core.errors import ScenarioError
from fedsim.data.datasets.drifting import Drifting, EdgeKind
from fedsim.data.graph import Graph
from fedsim.data.time.windows import bounds_of, snapshots_of
from fedsim.learn.continual.snapshots import within

LOCAL: dict[str, Any] = {
    "nodes": 3300, "edges": 16500, "classes": 3, "features": 4, "snapshots": 6, "growth": 0.1, "removal": 0.2,
    "renewal": 0.3, "communities": 40, "insularity": 0.98, "active": 0.05,
}  # fmt: skip


def cut_up(**options: Any) -> tuple[Graph, list[Graph]]:
    made = Drifting(**{**LOCAL, **options})
    graph = made.load(Path(), 2)
    return graph, snapshots_of(graph, bounds_of(graph, made.snapshots, None))


def towns_of(snapshots: list[Graph]) -> np.ndarray:
    """Tell the communities from the edges alone, of those that are there at first: their numbers go round."""
    return np.arange(int(snapshots[0]["arrived"].sum())) % LOCAL["communities"]


def test_edges_seldom_leave_a_community_and_their_numbers_grow_as_asked() -> None:
    graph, snapshots = cut_up()
    town = towns_of(snapshots)
    ends = np.array(listed(snapshots[0]))
    across = (town[ends[:, 0]] != town[ends[:, 1]]).mean()
    assert across == pytest.approx(0.02, abs=0.002)
    same = (graph["y"][snapshots[0]["edges"][0]] == graph["y"][snapshots[0]["edges"][1]]).float().mean()
    assert float(same) == pytest.approx(0.8, abs=0.01)
    for snapshot in snapshots:
        there = int(snapshot["arrived"].sum())
        assert snapshot["edges"].shape[1] == 2 * round(16500 * there / 3300)


def test_whatever_changes_does_so_in_active_communities_only() -> None:
    _, snapshots = cut_up()
    town, seen = towns_of(snapshots), []
    for snapshot in snapshots[1:]:
        active = np.unique(town[snapshot["changed"].numpy()[: len(town)]])
        assert len(active) == 2  # a twentieth of 40
        seen.append(tuple(active.tolist()))
    assert len(set(seen)) > 1
    for before, now in pairwise(snapshots):
        come = now["arrived"] & ~before["arrived"]
        assert come.any()
        assert (before["x"] != now["x"]).any(1).sum() > come.sum()  # some features are renewed
        assert set(listed(before)) - set(listed(now))  # some edges go


def test_a_change_reaches_few_where_it_is_local_and_nearly_all_where_it_is_not() -> None:
    shares = []
    for options in ({}, {"communities": 1, "active": 1.0}):
        _, snapshots = cut_up(removal=0.0, renewal=0.0, **options)
        now = snapshots[2]
        shares.append(float(within(now, now["changed"], 2).sum() / now["arrived"].sum()))
    assert shares[0] < 0.25
    assert shares[1] > 0.95


def test_without_communities_nothing_else_is_drawn_than_before_there_were_any() -> None:
    graph = Drifting(nodes=600, edges=2400, classes=4, features=8, snapshots=8, removal=0.2).load(Path(), 3)
    whole = b"".join(graph[key].numpy().tobytes() for key in ("edges", "since", "until", "y", "born"))  # type: ignore[literal-required]
    assert hashlib.sha256(whole).hexdigest()[:16] == "b3e6a4726445c584"


@pytest.mark.parametrize(
    ("options", "message"),
    [({"communities": 1}, "active: one community is always active"), ({"communities": 600}, "communities: too many")],
)
def test_options_without_meaning_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Drifting(**{**LOCAL, **options})


def test_kinds_of_edges_join_whom_they_say() -> None:
    pool = np.arange(100, 160)
    block = np.arange(60) % 4
    group = block * 3 + np.arange(60) // 4 % 3
    rng = np.random.default_rng(0)
    for same, apart in ((True, None), (False, None), (False, np.arange(60) % 5)):
        pairs = EdgeKind(pool, group, block, same, apart).draw(80, 1000, np.empty(0, dtype=np.int64), rng)
        assert len(np.unique(pairs)) == 80
        a, b = np.divmod(pairs, 1000) - pool[0] * np.ones((2, 1), dtype=np.int64)
        assert (a < b).all()
        assert (block[a] == block[b]).all()
        assert ((group[a] == group[b]) == same).all()
        assert apart is None or (apart[a] != apart[b]).all()
    none = np.empty(0, dtype=np.int64)
    every = np.concatenate([EdgeKind(pool, group, block, False).draw(200, 1000, none, rng) for _ in range(20)])
    assert len(np.unique(every)) == 4 * 3 * 5 * 5  # all that there are: no pair is beyond reach
    assert not np.isin(EdgeKind(pool, group, block, False).draw(150, 1000, every[:100], rng), every[:100]).any()
    with pytest.raises(ScenarioError, match="not enough different edges"):
        EdgeKind(pool, pool * 0, pool * 0, False).draw(1, 1000, none, rng)


def test_torch_is_not_what_draws() -> None:
    torch.manual_seed(0)
    one = cut_up()[0]
    torch.manual_seed(1)
    assert torch.equal(one["edges"], cut_up()[0]["edges"])

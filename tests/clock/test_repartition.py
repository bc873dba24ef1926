"""Repartition: what moves to new owners is billed to the byte, as a step of its own, whatever else is under way."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_points
import torch

from fedsim.clock import repartition
from fedsim.core import wire
from fedsim.core.wire import Spec
from fedsim.data.graph import graph_of
from fedsim.data.time.temporal import Overview
from fedsim.net.message import Message
from fedsim.point.build import learning
from fedsim.point.build.parts import Parts

DATA: dict[str, Any] = {
    "data__dataset": {
        "name": "drifting", "nodes": 90, "edges": 200, "classes": 3, "features": 5, "snapshots": 6, "growth": 0.1,
    },
    "data__stream": {"name": "snapshots", "steps": 6, "every": "2 updates"},
    "data__partition": {"name": "colearn", "repartition": True, "per_client": 60},
    "protocol": {"name": "sync", "rounds": 8, "participation": 1.0},
}  # fmt: skip


def by_hand(features: int = 3, known: bool = True) -> Overview:
    """Path 0-1-2-3-4: at first {0, 1, 2} and {3, 4}; then node 2 moves over, and 5 comes to client 0."""
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
    edges = torch.cat([edges, edges.flip(0)], 1)
    y = torch.arange(6) % 2 if known else torch.full((6,), -1)
    snapshot = graph_of(torch.ones(6, features), edges, y)
    return Overview([snapshot, snapshot], [np.array([0, 0, 0, 1, 1, -1]), np.array([0, 0, 1, 1, 1, 0])])


def test_the_bytes_of_one_node_by_hand() -> None:
    overview = by_hand()
    nodes, before, after = repartition.moved(overview, 1)
    assert (nodes.tolist(), before.tolist(), after.tolist()) == ([2], [0], [1])  # 5 arises at its owner
    notice, answer = repartition.given_up(overview, 1, 0)
    assert notice["ids"].tolist() == [2]
    assert wire.array_bytes(notice) == 4  # a number of four bytes
    assert wire.array_bytes(answer) == 4 + 3 * 4 + 4  # the number, three features, a label
    taken = repartition.taken(overview, 1, 1)
    assert taken["edges"].tolist() == [[2], [3]]  # 1-2 is cut now, and 3-4 was client 1's before
    assert wire.array_bytes(taken) == 4 + 2 * 4 + 3 * 4 + 4


def test_what_owners_derive_does_not_travel() -> None:
    overview = by_hand(known=False)
    assert "y" not in repartition.taken(overview, 1, 1)
    overview.snapshots[1]["bins"] = torch.tensor([0, 1, 2])
    assert repartition.taken(overview, 1, 1).keys() == {"period", "ids", "edges"}


def expected(overview: Overview, periods: int) -> Counter[tuple[int, int, int]]:
    """Every message's ends and bytes."""
    found: Counter[tuple[int, int, int]] = Counter()
    for t in range(1, periods):
        before, now = overview.owners[t - 1], overview.owners[t]
        moving = (before >= 0) & (now >= 0) & (before != now)
        edges = overview.snapshots[t]["edges"].numpy()
        for client in range(5):
            gone, come = int((moving & (before == client)).sum()), np.flatnonzero(moving & (now == client))
            rows = lambda n: {"ids": Spec((n,), "int32"), "x": Spec((n, 5), "float32"), "y": Spec((n,), "int32")}  # noqa: E731
            if gone:
                found[-1, client, sized({"period": t, "ids": Spec((gone,), "int32")})] += 1
                found[client, -1, sized(rows(gone))] += 1
            if len(come):
                own = (now[edges] == client).all(0) & np.isin(edges, come).any(0)
                more = {"period": t, "edges": Spec((2, int(own.sum()) // 2), "int32")}
                found[-1, client, sized({**more, **rows(len(come))})] += 1
    return found


def sized(tree: Any) -> int:
    return Message.carrying(0, 0, repartition.STEP, wire.size(tree)).nbytes


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"network__server": {"ingress": "200 kbit/s", "egress": "300 kbit/s"}},
        {"data__stream": {"name": "snapshots", "steps": 6, "every": "300 ms"}},
        {"network__effects": [{"name": "churn", "online": "4 s", "offline": "1 s"}]},
    ],
    ids=["updates", "links that can be full", "in the midst of rounds", "churn"],
)
@pytest.mark.long
def test_every_byte_is_in_the_transfers(tmp_path: Path, more: dict[str, Any]) -> None:
    changes = {**DATA, "clients__count": 5, **more}
    small_points.run_in(tmp_path / "run", **changes)
    overview = learning.prepare(Parts(small_points.scenario(**changes)), Path()).algorithm.overview
    assert overview is not None
    periods = {row["period"] for row in small_points.table(tmp_path / "run", "arrivals")}
    rows = [row for row in small_points.table(tmp_path / "run", "transfers") if row["kind"] == repartition.STEP]
    arrived = Counter((row["src"], row["dst"], row["nbytes"]) for row in rows if row["fate"] == "delivered")
    wanted = expected(overview, 1 + max(periods))
    assert wanted.total() > 10
    if "network__effects" in more:  # some may still have been waiting for a client
        assert arrived <= wanted
        assert arrived.total() > 0
    else:
        assert arrived == wanted


def test_nothing_moves_where_owners_stay(tmp_path: Path) -> None:
    small_points.run_in(tmp_path / "run", **{**DATA, "data__partition": "random", "protocol__rounds": 4})
    assert repartition.STEP not in {row["kind"] for row in small_points.table(tmp_path / "run", "transfers")}

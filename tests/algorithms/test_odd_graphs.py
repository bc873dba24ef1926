"""Graphs at the edge of what a graph can be: every algorithm ends its point, or refuses it with a message.

A third of the pairs is tried; HYPOTHESIS_PROFILE=full tries all.
"""

import numpy as np
import pytest
import small_points
from mutations import FULL
from small_points import CHEAPER
from test_contract import ALGORITHMS, FASTER

from fedsim.core.errors import ScenarioError

STATIC = {"data__stream": "static", "protocol": {"name": "sync", "rounds": 3, "participation": 1.0}}
# What differs from a graph of 40 nodes, 3 classes, 5 features and 80 edges, and from five clients.
ODD: dict[str, tuple[dict[str, int], dict[str, object]]] = {
    "clients without an edge": ({"edges": 3}, {}),
    "one feature": ({"features": 1}, {}),
    "one class": ({"classes": 1}, {}),
    "one client": ({}, {"clients__count": 1}),
    "one node each": ({"nodes": 6, "edges": 8}, {"clients__count": 6}),
}
FIRST = [("fed_ego", "clients without an edge"), ("power", "one class"), ("fedavg", "one node each")]  # not long
REFUSED = {("power", "one class"): "there is only one class"}


def graph(path, nodes=40, classes=3, features=5, edges=80):
    rng = np.random.default_rng(0)
    ends, x = rng.integers(0, nodes, (2, edges)), rng.normal(size=(nodes, features)).astype("float32")
    np.savez(path, x=np.asfortranarray(x), edge_index=np.asfortranarray(ends), y=np.arange(nodes) % classes)
    return {"data__dataset": {"name": "file", "file": str(path)}}


each_pair = pytest.mark.parametrize(
    ("algorithm", "name"),
    [
        pytest.param(algorithm, name, marks=[pytest.mark.long] * ((algorithm, name) not in FIRST))
        for place, algorithm in enumerate(ALGORITHMS)
        for turn, name in enumerate(ODD)
        if FULL or (place + turn) % 3 == 0 or (algorithm, name) in FIRST
    ],
)


@each_pair
def test_a_point_of_an_odd_graph_ends_or_is_refused(algorithm, name, tmp_path):
    shape, changes = ODD[name]
    part = {"name": algorithm, **CHEAPER.get(algorithm, {})}
    fast = {"clients__speed": "1 GFLOP/s"} if algorithm in FASTER else {}
    changes = {"algorithm": part, **STATIC, **fast, **graph(tmp_path / "graph.npz", **shape), **changes}
    if (message := REFUSED.get((algorithm, name))) is not None:
        with pytest.raises(ScenarioError, match=message):
            small_points.run_in(tmp_path / "point", **changes)
        return
    assert small_points.run_in(tmp_path / "point", **changes)["status"] == "done"
    numbers = [row["value"] for row in small_points.table(tmp_path / "point", "scores")]
    assert numbers
    assert np.isfinite(numbers).all()

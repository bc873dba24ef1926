"""On a machine with a GPU: the points of `gpu_points` and every algorithm run there, with the host's times and bytes.

What is learned differs from the host's by rounding alone: means of scores are near.  Elsewhere these tests are skipped,
and `pretended_gpu` finds what mixes devices.
"""

import math
import warnings
from collections import defaultdict

import pytest
import same_points
import small_points
import torch
from gpu_points import CHANGING, CODECS, LEARNING, LINKS, MODELS, sparse_graph
from test_algorithms_on_gpu import short
from test_contract import each_algorithm

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here; the pretended one stands in"),
]

NEAR = 0.1  # between means of scores; some predictions of a small test set flip
POINTS = {
    **{f"{name} classifies": {**CHANGING, **changes} for name, changes in MODELS.items()},
    **{f"{name} links": {**LINKS, **changes} for name, changes in MODELS.items()},
    **CODECS, **LEARNING,
    **{name: same_points.changes(name) for name in same_points.LEARN},
}  # fmt: skip


def means(scores):
    groups = defaultdict(list)
    for row in scores:
        groups[row["metric"], row["model"], row["split"]].append(row["value"])
    return {group: math.fsum(values) / len(values) for group, values in groups.items()}


def check_near(folder, **changes):
    tables = {}
    for device in ("cpu", "cuda"):
        with warnings.catch_warnings():  # torch warns of kernels whose sums may be grouped in any order
            warnings.simplefilter("ignore")
            tables[device] = small_points.run_tables(folder / device, **{**changes, "device": device})
    host, device = tables["cpu"], tables["cuda"]
    assert means(device.pop("scores")) == pytest.approx(means(host.pop("scores")), abs=NEAR, nan_ok=True)
    assert device == host


@pytest.mark.parametrize("name", POINTS)
def test_points_run_on_the_gpu(name, tmp_path):
    check_near(tmp_path, **POINTS[name])


def test_sparse_features(tmp_path):
    check_near(tmp_path, **sparse_graph(tmp_path / "graph.npz"))


@each_algorithm
def test_algorithms_run_on_the_gpu(algorithm, tmp_path):
    check_near(tmp_path, **short(algorithm))

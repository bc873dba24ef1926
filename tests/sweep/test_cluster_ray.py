"""Sweeps on a Ray cluster of two nodes on this machine, one of which is killed while it runs a point."""

import os
import time
from functools import partial
from pathlib import Path

import pytest
import small_points
from small_sweeps import Listener

from fedsim.core.progress import BEGUN
from fedsim.point.results.folders import place_of
from fedsim.point.run import run
from fedsim.sweep.engines.local import Local
from fedsim.sweep.engines.ray import Ray
from fedsim.sweep.runner import Sweep

pytestmark = pytest.mark.long

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')

TABLES = ("transfers", "updates", "spans", "arrivals", "partitions", "scores")


@pytest.fixture
def cluster(monkeypatch, shared_ray):
    """A head and a second node, with one CPU each."""
    shared_ray.close()  # a process is part of one Ray at a time, and earlier tests may have used this one
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    tests = Path(__file__).resolve().parents[1]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, [tests / "support", tests / "sweep", tests.parent])))
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    alone = {"num_cpus": 1, "object_store_memory": 2**27, "include_dashboard": False}
    made = cluster_utils.Cluster(initialize_head=True, head_node_args=alone)
    made.second = made.add_node(**{**alone, "include_dashboard": None})
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def traced(place, point, folder, data, report, **options):
    """Run a point, after noting the node that does; what a second node begins first, it does not end by itself."""
    node = ray.get_runtime_context().get_node_id()
    (place / f"{point.id}.{node}").touch()
    if node == (place / "doomed").read_text() and not (place / "killed").exists():
        for _ in range(300):  # until its node is killed, which a report brings about
            report(BEGUN)
            time.sleep(0.2)
    return run(point, folder, data, report, **options)


def swept(out):
    points = [small_points.point(seed=seed) for seed in (1, 2, 3)]
    return Sweep(points, "given: here\n", out, out.parent / "data")


def tables(out, points):
    return {(one.id, name): (place_of(out, one) / f"{name}.parquet").read_bytes() for one in points for name in TABLES}


def test_a_node_that_is_killed_costs_its_points_a_second_try_and_no_table_differs(cluster, tmp_path):
    place = tmp_path / "seen"
    place.mkdir()
    (place / "doomed").write_text(cluster.second.node_id)

    class Killer(Listener):
        def progressed(self, point, progress):
            super().progressed(point, progress)
            if not (place / "killed").exists() and [*place.glob(f"*.{cluster.second.node_id}")]:
                (place / "killed").touch()
                cluster.remove_node(cluster.second, allow_graceful=False)

    sweep, listener = swept(tmp_path / "cluster"), Killer()
    with Ray(address=cluster.address) as engine:
        rows = sweep.run(partial(traced, place), engine, listener)
    assert [row["status"] for row in rows] == ["done"] * 3
    tried = [path.name.split(".")[0] for path in place.glob("*.*")]
    assert (place / "killed").exists()
    assert len(tried) == 4  # the second node's point was tried again
    [told] = [note for note in listener.notes if "tried once more" in note]
    assert "its machine is lost" in told
    alone = swept(tmp_path / "alone")
    with Local(1) as engine:
        alone.run(run, engine, Listener())
    assert tables(sweep.out, sweep.points) == tables(alone.out, alone.points)


def test_a_ray_of_our_own_has_no_dashboard(ray_engine):
    assert ray_engine._connected() is not None
    assert not ray._private.worker.global_worker.node.webui_url

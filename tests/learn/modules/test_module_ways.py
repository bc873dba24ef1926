"""A plain module under all that surrounds learning: resumed, followed, by workers, deployed, compressed, protected."""

import math
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import small_points
import torch
from deploy_here import deploy
from ways_of_running import Nobody

from fedsim.core import wire
from fedsim.core.record import SERVER
from fedsim.net.codec import compress
from fedsim.net.codecs.int8 import Int8
from fedsim.net.codecs.top_k import TopK
from fedsim.point import loop
from fedsim.point.results.folders import TABLES, place_of
from fedsim.point.resume import checkpoint
from fedsim.point.resume.following import learning_key_of
from fedsim.point.run import run
from fedsim.sweep.engines.local import Local
from fedsim.sweep.runner import Sweep

NET = "fedsim.trial.net.Net"  # BatchNorm, dropout, edges
POLICIES = ("average", "local")
BUFFERED = {"name": "buffered", "rounds": 6, "clients": 3, "buffer": 2}


def changes(policy="average", **more):
    return {"model": {"name": NET, "buffers": policy}, **more}


def accuracies(tables):
    return [row["value"] for row in tables["scores"] if row["metric"] == "accuracy"]


WAYS = {
    "sync": {},
    "buffered": {"protocol": BUFFERED},
    "replay": {"algorithm": {"name": "fed_ergnn", "keep": 2}},
    "int8": {"network__codec": {"up": "int8", "down": "int8"}},
}


@pytest.mark.parametrize(
    ("way", "policy"),
    [
        pytest.param(way, policy, marks=[pytest.mark.long] * (way not in ("sync", "buffered")))
        for way in WAYS
        for policy in POLICIES
        if (way, policy) != ("replay", "average")
    ],
)
def test_a_resumed_run_has_the_tables_of_a_whole_one_byte_for_byte(way, policy, tmp_path):
    given = changes(policy, **WAYS[way])
    small_points.run_in(tmp_path / "whole", **given)
    folder, point = tmp_path / "resumed", small_points.point(**given)
    folder.mkdir()

    def heard(progress):
        if progress.updates >= 2 and checkpoint.path_in(folder).is_file() and checkpoint.read(folder)["version"]:
            raise KeyboardInterrupt

    with (
        patch.object(loop, "REPORT_EVERY", 0.0), patch.object(checkpoint, "SHARE", 0),
        pytest.raises(KeyboardInterrupt),
    ):  # fmt: skip
        run(point, folder, folder, heard, 0.0)
    row = run(point, folder, folder, lambda progress: None, 0.0)
    assert "checkpoint" not in row["provenance"]  # none was discarded
    assert small_points.files(folder) == small_points.files(tmp_path / "whole")


def at_latency(latency, rooted, **given):
    network = {**small_points.PLAIN["network"], "latency": latency}
    made = small_points.point(**given, network=network)
    return replace(made, learning_key=learning_key_of(made.scenario)) if rooted else made


@pytest.mark.parametrize("policy", POLICIES)
def test_a_point_that_follows_another_has_the_tables_that_it_has_alone(policy, tmp_path):
    def run_as(out, made):
        folder = tmp_path / out / made.id
        folder.mkdir(parents=True)
        return run(made, folder, folder, lambda progress: None), small_points.files(folder)

    given = changes(policy)
    run_as("out", at_latency("50 ms", True, **given))
    row, follows = run_as("out", at_latency("300 ms", True, **given))
    _, alone = run_as("alone", at_latency("300 ms", False, **given))
    assert follows == alone
    assert row["followed"]


def left(out, points):
    """All files of these points that tell nothing of this machine."""
    names = ["scenario.yaml", *(f"{table}.parquet" for table in TABLES)]
    return [(place_of(out, point) / name).read_bytes() for point in points for name in names]


def swept(out, engine):
    points = [small_points.point(**changes(policy), seed=seed) for policy in POLICIES for seed in (1, 2)]
    Sweep(points, "given: here\n", out, out.parent).run(run, engine, Nobody())
    return left(out, points)


@pytest.mark.long
def test_two_workers_leave_what_one_leaves(tmp_path):
    alone = swept(tmp_path / "one", Local(1))
    with Local(2) as engine:
        assert swept(tmp_path / "two", engine) == alone


@pytest.mark.long
def test_ray_leaves_what_one_worker_leaves(tmp_path, request):
    pytest.importorskip("ray", reason='Ray is not installed: pip install -e ".[ray]"')
    engine = request.getfixturevalue("ray_engine")
    assert swept(tmp_path / "ray", engine) == swept(tmp_path / "one", Local(1))


DEPLOYED = {
    "fedavg, averaged": changes("average"),
    "fedavg, local": changes("local"),
    "top_k": changes("average", network__codec={"up": {"name": "top_k", "share": 0.3}}),
    "fed_proto": changes("average", algorithm={"name": "fed_proto", "average": True}),
    "fedgta": changes("local", algorithm="fedgta"),
    "scaffold": changes("average", algorithm="scaffold"),
    "fed_ergnn": changes("local", algorithm={"name": "fed_ergnn", "keep": 2}),
}


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[pytest.mark.long] * (k > 1)) for k, way in enumerate(DEPLOYED)]
)
def test_deployed_it_learns_and_sends_what_is_simulated(way, tmp_path):
    given = {**DEPLOYED[way], "cohort": {"mode": "loop"}}
    small_points.run_in(tmp_path / "simulated", **given)
    deploy(tmp_path / "deployed", small_points.point(**given))
    simulated, deployed = (
        {name: small_points.table(tmp_path / where, name) for name in ("scores", "transfers")}
        for where in ("simulated", "deployed")
    )
    keys = ("version", "client", "period", "seen", "model", "split", "metric")
    scores = [{tuple(row[key] for key in keys): row["value"] for row in one["scores"]} for one in (simulated, deployed)]
    assert scores[0] == scores[1]
    assert len({*scores[0].values()}) > 4
    bytes_ = [
        sorted((row["src"], row["dst"], row["kind"], row["nbytes"]) for row in one["transfers"])
        for one in (simulated, deployed)
    ]
    assert bytes_[0] == bytes_[1]


PEERS = {"protocol": {"name": "gossip", "rounds": 4}, "network__topology": {"name": "peers", "graph": "ring"}}
AROUND = {
    "int8": {"network__codec": {"up": "int8"}},
    "int8 both ways": {"network__codec": {"up": "int8", "down": "int8"}},
    "top_k": {"network__codec": {"up": {"name": "top_k", "share": 0.3}, "down": "half"}},
    "forgers": {
        "aggregation": "median",
        "network__effects": [{"name": "byzantine", "clients": [0], "attack": "noise"}],
    },
    "trimmed": {"aggregation": {"name": "trimmed_mean", "trim": "20 %"}},
    "budget": {"measure": {**small_points.PLAIN["measure"], "until": {"bytes": "20 kB"}}},
    "oort": {"clients__sampler": "oort"},
    "restarts": {"network__effects": [{"name": "restart", "every": "3 s", "length": "1 s", "checkpoint": 2}]},
    "gossip, int8": {**PEERS, "network__codec": {"up": "int8"}},
    "gossip, forgers": {
        **PEERS,
        "network__effects": [{"name": "byzantine", "clients": [0], "attack": "sign_flip"}],
    },
    "storm": {"network__effects": small_points.EFFECTS},
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("way", AROUND)
def test_it_runs_with_what_lies_around(way, policy, tmp_path):
    found = accuracies(small_points.run_tables(tmp_path / "run", **changes(policy, **AROUND[way])))
    assert found
    assert all(map(math.isfinite, found))
    assert len({*found}) > 1


@pytest.mark.parametrize("codec", [Int8(), TopK(share=0.2)])
@pytest.mark.parametrize("others", ["update", "model"])
def test_no_codec_rounds_a_variance_to_zero(codec, others):
    drawn = torch.Generator().manual_seed(1)
    variance = torch.tensor([1000.0, 0.01] * 20)
    tree = {others: {"w": torch.randn(40, generator=drawn)}, "buffers": {"variance": variance}}
    encoded, received, _ = compress(codec, tree, {}, np.random.default_rng(1))
    assert torch.equal(received["buffers"]["variance"], variance)
    assert not torch.equal(received[others]["w"], tree[others]["w"])
    assert wire.size(codec.like(tree)) == wire.size(encoded) < wire.size(tree)


SECRET = {
    "clipped": {"privacy": {"clip": 0.5, "noise": 0.3}},
    "masked": {
        "privacy": {"secure_aggregation": True},
        "protocol": {"name": "sync", "rounds": 4, "participation": 1.0},
    },
}


@pytest.mark.parametrize("way", SECRET)
def test_privacy_goes_with_buffers_that_stay_at_home(way, tmp_path):
    if way == "clipped":
        pytest.importorskip("opacus", reason='pip install -e ".[privacy]"')
    tables = small_points.run_tables(tmp_path / "run", **changes("local", **SECRET[way]))
    assert all(map(math.isfinite, accuracies(tables)))
    if way == "clipped":
        plain = small_points.run_tables(tmp_path / "plain", **changes("local"))
        bytes_up = [sum(row["nbytes"] for row in one["transfers"] if row["dst"] == SERVER) for one in (tables, plain)]
        assert bytes_up[0] == bytes_up[1]

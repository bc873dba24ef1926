"""Every algorithm under every protocol keeps the contract; a file is tested from the day it appears."""

import importlib
from dataclasses import dataclass, field
from typing import Any

import pytest
import small_points
import torch
from small_points import EFFECTS, SYNC, TABLES

from fedsim import find
from fedsim.algorithm import Algorithm
from fedsim.learn.cohort import Cohort, JobPromise
from fedsim.learn.training import Trainer
from fedsim.net import wire
from fedsim.net.message import Message
from fedsim.net.network import Network
from fedsim.record import Recorder
from fedsim.run import build
from fedsim.scenario import Part

ALGORITHMS = find.names("algorithm")
# What a small run needs to stay small; an algorithm that is not here runs with its defaults.
CHEAPER: dict[str, dict[str, Any]] = {"power": {"rebuild_steps": 8}}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sync": SYNC,
    "deadline": {"name": "deadline", "rounds": 5, "clients": 3, "wait": "2 s", "over": 1.4},
}
NETWORKS: dict[str, dict[str, Any]] = {"calm": {}, "stormy": {"network__effects": EFFECTS}}

each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
each_network = pytest.mark.parametrize("network", NETWORKS)


def changes(algorithm, protocol, network):
    return {
        "algorithm": {"name": algorithm, **CHEAPER.get(algorithm, {})},
        "protocol": PROTOCOLS[protocol],
        **NETWORKS[network],
    }


def prints(tree: Any) -> Any:
    """What a tree holds, as something that equals only itself: bytes of tensors, never the tensors."""
    if isinstance(tree, dict):
        return {key: prints(value) for key, value in tree.items() if key != "layout"}
    if isinstance(tree, list | tuple):
        return [prints(value) for value in tree]
    if isinstance(tree, torch.Tensor):
        parts = [tree.values(), tree.col_indices()] if tree.layout == torch.sparse_csr else [tree]
        return [(tuple(part.shape), part.detach().cpu().contiguous().numpy().tobytes()) for part in parts]
    return repr(tree)


@dataclass
class Watch:
    """Everything that a run has shown: each tree with its print of the moment at which it was seen."""

    sent: list[tuple[Any, Any]] = field(default_factory=list)
    memories: list[tuple[Any, Any]] = field(default_factory=list)
    fits: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    uploads: list[JobPromise] = field(default_factory=list)
    state: Any = None
    updates: int = 0
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    algorithm: Algorithm | None = None


def watched(patch, tmp_path, **options):
    """Run a small point to its end and return what was seen on the way."""
    watch, recorder = Watch(), Recorder()
    send, submit, fill, train = Network.send, Cohort.submit, JobPromise.fill, Trainer.train

    def see_message(self: Network, message: Message):
        if not isinstance(message.payload, JobPromise):
            watch.sent.append((message.payload, prints(message.payload)))
        return send(self, message)

    def see_job(self, job):
        watch.memories.append((dict(job.memory), prints(job.memory)))
        return submit(self, job)

    def see_upload(self, upload):
        fill(self, upload)
        watch.uploads.append(self)
        watch.sent.append((upload, prints(upload)))

    def see_fits(self, work):
        trained = train(self, work)
        for (job, _), params in zip(work, trained, strict=True):
            count = sum(1 for client, seed, _ in watch.fits if (client, seed) == (job.client, job.seed))
            watch.fits[job.client, job.seed, count] = params
        return trained

    patch.setattr(Network, "send", see_message)
    patch.setattr(Cohort, "submit", see_job)
    patch.setattr(JobPromise, "fill", see_upload)
    patch.setattr(Trainer, "train", see_fits)
    world, evaluator, done = build(small_points.scenario(**options), tmp_path, recorder)
    world.env.run(until=done)
    world.server.end()
    evaluator.score()
    watch.state, watch.updates, watch.algorithm = world.server.state, world.server.version, world.algorithm
    watch.tables = {name: small_points.rows(recorder, name) for name in TABLES}
    return watch


def test_there_are_algorithms_and_every_protocol_has_its_options_here():
    assert {"fedavg", "fedprox", "local"} <= set(ALGORITHMS)
    assert set(CHEAPER) <= set(ALGORITHMS)
    assert find.names("protocol") == sorted(PROTOCOLS)


@each_algorithm
def test_an_algorithm_needs_no_option(algorithm):
    built = find.build("algorithm", Part(name=algorithm))
    assert isinstance(built, Algorithm)
    assert importlib.import_module(f"algorithms.{algorithm}").__doc__


@each_network
@each_protocol
@each_algorithm
def test_it_runs_and_what_it_sends_is_what_it_declared(algorithm, protocol, network, tmp_path, monkeypatch):
    watch = watched(monkeypatch, tmp_path, **changes(algorithm, protocol, network))
    assert watch.updates >= 2
    assert len(watch.tables["updates"]) == 5
    for promise in watch.uploads:
        assert promise.nbytes == wire.size(promise.value()) == len(wire.encode(promise.value()))
    assert [prints(tree) for tree, _ in watch.sent] == [before for _, before in watch.sent]
    assert [prints(memory) for memory, _ in watch.memories] == [before for _, before in watch.memories]
    assert watch.uploads
    assert watch.memories


@each_protocol
@each_algorithm
def test_every_message_is_billed_in_full(algorithm, protocol, tmp_path, monkeypatch):
    watch = watched(monkeypatch, tmp_path, **changes(algorithm, protocol, "calm"))
    assert watch.algorithm is not None
    if not watch.algorithm.talks:
        assert watch.tables["transfers"] == []
        return
    down = sorted(row["nbytes"] for row in watch.tables["transfers"] if row["src"] == -1)
    up = [row for row in watch.tables["transfers"] if row["dst"] == -1]
    envelope = Message(-1, 0, "train", None).nbytes - wire.size(None)
    kinds = {row["kind"] for row in watch.tables["transfers"]}
    if kinds == {"train"}:
        uploads = {id(promise) for promise in watch.uploads}
        downloads = [wire.size(tree) + envelope for tree, _ in watch.sent if not _is_upload(tree, watch)]
        assert down == sorted(downloads)
        assert len(uploads) >= sum(row["fate"] == "delivered" for row in up)
    folded = sum(row["folded"] for row in watch.tables["updates"])
    assert sum(row["fate"] == "delivered" for row in up) == folded > 0


def _is_upload(tree, watch):
    return any(tree is promise.value() for promise in watch.uploads)


@each_network
@each_protocol
@each_algorithm
def test_the_seed_decides_every_byte_of_the_tables(algorithm, protocol, network, tmp_path):
    options = changes(algorithm, protocol, network)
    for folder, seed in (("one", 3), ("two", 3), ("other", 4)):
        small_points.run_in(tmp_path / folder, **options, seed=seed)
    one, two, other = (small_points.files(tmp_path / folder) for folder in ("one", "two", "other"))
    assert one == two
    assert one["scores"] != other["scores"]
    assert one["spans"] != other["spans"]


@each_network
@each_protocol
@each_algorithm
def test_all_clients_at_once_is_one_by_one(algorithm, protocol, network, tmp_path):
    options, seen = changes(algorithm, protocol, network), {}
    for cohort in ("union", "loop"):
        with pytest.MonkeyPatch.context() as patch:
            seen[cohort] = watched(patch, tmp_path, **options, cohort=cohort)
    union, loop = seen["union"], seen["loop"]
    for name in ("transfers", "updates", "spans"):
        assert union.tables[name] == loop.tables[name]
    places = ("time", "version", "client", "period", "seen", "model", "split", "metric", "weight")
    assert [[row[key] for key in places] for row in union.tables["scores"]] == [
        [row[key] for key in places] for row in loop.tables["scores"]
    ]
    assert union.fits.keys() == loop.fits.keys()
    for key, params in union.fits.items():
        assert_close(params, loop.fits[key])
    assert_close(union.state["model"], loop.state["model"])


def assert_close(first, second):
    """Hold two trees of tensors against each other within 1e-4."""
    assert first.keys() == second.keys()
    for key, value in first.items():
        if isinstance(value, dict):
            assert_close(value, second[key])
        else:
            torch.testing.assert_close(value, second[key], rtol=1e-4, atol=1e-4)


@each_algorithm
def test_clients_really_train_and_differ(algorithm, tmp_path, monkeypatch):
    watch = watched(monkeypatch, tmp_path, **changes(algorithm, "sync", "calm"))
    seeds = [(client, seed) for client, seed, _ in watch.fits]
    assert len(set(seeds)) == len(seeds) > 5
    models = {str(prints(params)) for params in watch.fits.values()}
    assert len(models) == len(watch.fits)


@each_protocol
@each_algorithm
def test_both_models_are_scored_on_every_period_and_split(algorithm, protocol, tmp_path, monkeypatch):
    scores = watched(monkeypatch, tmp_path, **changes(algorithm, protocol, "calm")).tables["scores"]
    assert {row["metric"] for row in scores} == {"accuracy", "macro_f1"}
    assert {row["model"] for row in scores} == {"global", "local"}
    assert {row["split"] for row in scores} == {"test", "val"}
    assert {row["period"] for row in scores} == {0, 1}
    assert all(0 <= row["value"] <= 1 and row["weight"] > 0 for row in scores)
    assert all(row["period"] < row["seen"] for row in scores)

"""Every algorithm under every protocol keeps the contract; a file is tested from the day it appears."""

import hashlib
import importlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import small_points
import torch
from small_points import CHEAPER, EFFECTS, SYNC, TABLES
from values import server_state

from fedsim.core import wire
from fedsim.core.record import SERVER, Recorder
from fedsim.data.graph import induced, with_masks
from fedsim.learn.algorithm import Algorithm
from fedsim.learn.engine.cohort import JobPromise, JobQueue
from fedsim.learn.engine.training import Trainer
from fedsim.net.message import Message
from fedsim.net.network import SimulatedNetwork
from fedsim.point.build.assemble import build
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find
from fedsim.trial.play import play
from fedsim.trial.stage import accepted

ALGORITHMS = [name for name in find.names("algorithm") if find.find("algorithm", Part(name=name), name).learns]
# Whose work beside training outweighs that of so small a model: its clients are fast enough for a deadline of 2 s.
SLOW = {"fed_ego", "fgssl", "ghost", "oasis"}  # tried under sync, and under all protocols where long tests run
FASTER = {"power", "glfc", "ghost", "oasis", "fed_tad", "fed_cvae"}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "sync": SYNC,
    "deadline": {"name": "deadline", "rounds": 5, "clients": 3, "wait": "2 s", "over": 1.4},
    "buffered": {"name": "buffered", "rounds": 6, "clients": 3, "buffer": 2, "staleness": "hinge", "a": 1.0, "b": 1.0},
    "one_shot": {"name": "one_shot", "enough": 0.8, "retry": True},
    "one_shot_late": {"name": "one_shot", "enough": 0.8, "retry": True, "late": "fold"},
    "hierarchical": {"name": "hierarchical", "rounds": 5, "edge_rounds": 2, "participation": 1.0},
    "gossip": {"name": "gossip", "rounds": 4},
    "isolated": {"name": "isolated", "rounds": 5, "participation": 0.6},
}
SERVER_WORK_ON_CLIENTS = ("gossip", "isolated")  # which for some algorithms is long
SILENT = ("isolated",)  # nothing travels, whatever the algorithm
TOPOLOGIES: dict[str, dict[str, Any]] = {
    "hierarchical": {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"},
    "gossip": {"name": "peers", "graph": "ring"},
}
STREAMS = {"one_shot_late": {"data__stream": "static"}}  # how many updates there will be hangs on who is lost
NETWORKS: dict[str, dict[str, Any]] = {"calm": {}, "stormy": {"network__effects": EFFECTS}}


def is_long(algorithm: str, protocol: str) -> bool:
    """Whether a pair is left to the long tests: of the protocols beside sync, every algorithm has one in turn."""
    others = [name for name in PROTOCOLS if name != "sync"]
    turn = others[ALGORITHMS.index(algorithm) % len(others)]
    return protocol != "sync" and (algorithm in SLOW or protocol != turn)


each_algorithm = pytest.mark.parametrize("algorithm", ALGORITHMS)
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
each_pair = pytest.mark.parametrize(
    ("algorithm", "protocol"),
    [
        pytest.param(algorithm, protocol, marks=[pytest.mark.long] * is_long(algorithm, protocol))
        for algorithm in ALGORITHMS
        for protocol in PROTOCOLS
    ],
)
each_network = pytest.mark.parametrize("network", ["calm", pytest.param("stormy", marks=pytest.mark.long)])


def changes(algorithm, protocol, network):
    """What to change in the small scenario; skips a pair that does not go together."""
    topology = TOPOLOGIES.get(protocol, {"name": "star"})
    parts = {"algorithm": algorithm, "protocol": PROTOCOLS[protocol], "topology": topology}
    built = {kind: find.build(kind, Part.model_validate(part)) for kind, part in parts.items()}
    if reason := built["protocol"].refuse(built["algorithm"], built["topology"]):
        pytest.skip(f"{protocol} {reason}")
    fast = protocol in SERVER_WORK_ON_CLIENTS or algorithm in FASTER
    return {
        "algorithm": {"name": algorithm, **CHEAPER.get(algorithm, {})},
        "protocol": PROTOCOLS[protocol],
        "network__topology": topology,
        **({"clients__speed": "lognormal(1 GFLOP/s, 0.5)"} if fast else {}),
        **STREAMS.get(protocol, {}),
        **NETWORKS[network],
    }


def prints(tree: Any) -> bytes:
    """A digest of what a tree holds; what the library has derived from a graph and keeps with it is left out."""
    digest = hashlib.blake2b(digest_size=16)
    _feed(digest, tree)
    return digest.digest()


def _feed(digest, tree):
    if isinstance(tree, dict):
        for key, value in tree.items():
            if key != "layout":
                digest.update(f"{key}:".encode())
                _feed(digest, value)
    elif isinstance(tree, list | tuple):
        digest.update(f"[{len(tree)}".encode())
        for value in tree:
            _feed(digest, value)
    elif isinstance(tree, torch.Tensor):
        for part in [tree.values(), tree.col_indices()] if tree.layout == torch.sparse_csr else [tree]:
            digest.update(f"{part.dtype}{tuple(part.shape)}".encode())
            digest.update(part.detach().cpu().contiguous().numpy().tobytes())
    else:
        digest.update(f"{type(tree).__name__}{tree!r}".encode())


@dataclass
class Watch:
    """Everything that a run has shown: each tree with its print of the moment at which it was seen."""

    sent: list[tuple[Any, bytes]] = field(default_factory=list)
    messages: list[tuple[int, int, int]] = field(default_factory=list)  # from, to, bytes
    memories: list[tuple[Any, bytes]] = field(default_factory=list)
    fits: dict[tuple[int, int, int], Any] = field(default_factory=dict)
    uploads: list[JobPromise] = field(default_factory=list)
    latest: dict[int, JobPromise] = field(default_factory=dict)  # each client's last job, which it replies with
    built: Any = None
    state: Any = None
    updates: int = 0
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    talks: bool = True


def watched(patch, tmp_path, **options):
    """Run a small point to its end and return what was seen on the way."""
    patch.undo()
    watch, recorder = Watch(), Recorder()
    send, submit, fill, train = SimulatedNetwork.send, JobQueue.submit, JobPromise.fill, Trainer.train

    def see_message(self: SimulatedNetwork, message: Message, *answers):
        envelope = wire.size({key: getattr(message, key) for key in ("src", "dst", "kind", "version")})
        if message.label is None:
            nbytes = watch.latest[message.src].nbytes
        else:
            tree = message.label[0].value.encoded
            watch.sent.append((tree, prints(tree)))
            nbytes = len(wire.encode(tree))
        watch.messages.append((message.src, message.dst, nbytes + envelope))
        return send(self, message, *answers)

    def see_job(self, job):
        watch.memories.append((dict(job.memory), prints(job.memory)))
        watch.latest[job.client] = promise = submit(self, job)
        return promise

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

    patch.setattr(SimulatedNetwork, "send", see_message)
    patch.setattr(JobQueue, "submit", see_job)
    patch.setattr(JobPromise, "fill", see_upload)
    patch.setattr(Trainer, "train", see_fits)
    watch.built = built = build(small_points.scenario(**options), tmp_path, recorder)
    for server in (built.world.server, *built.world.edges):
        server.write_cohort = None  # cohorts send no messages (tests/clock/test_cohorts.py compares them)
    built.world.env.run(until=built.done)
    built.world.end()
    built.observer.score()
    watch.state, watch.updates = server_state(built), built.world.server.version
    watch.talks = built.learner.talks and options["protocol"]["name"] not in SILENT
    watch.tables = {name: small_points.rows(recorder, name) for name in TABLES}
    return watch


def test_there_are_algorithms_and_every_protocol_has_its_options_here():
    assert {"fedavg", "fedprox", "local"} <= set(ALGORITHMS)
    assert {*CHEAPER, *FASTER} <= set(ALGORITHMS)
    asking = [name for name in find.names("protocol") if find.find("protocol", Part(name=name), name).asks]
    assert asking == sorted({str(options["name"]) for options in PROTOCOLS.values()})


@each_algorithm
def test_an_algorithm_needs_no_option(algorithm):
    built = find.build("algorithm", Part(name=algorithm))
    assert isinstance(built, Algorithm)
    assert importlib.import_module(f"algorithms.{algorithm}").__doc__


@each_network
@each_pair
def test_it_keeps_the_contract(algorithm, protocol, network, tmp_path, monkeypatch):
    watch = watched(monkeypatch, tmp_path, **changes(algorithm, protocol, network))
    once = protocol.startswith("one_shot")
    assert len(watch.tables["updates"]) >= (1 if once else 5)
    assert watch.updates >= (1 if once else 2)
    check_sizes(watch)
    check_unchanged(watch)
    check_training(watch)
    check_scores(watch.tables["scores"], periods=1 if once else 2)
    if network == "stormy" or protocol == "sync":
        loop = watched(monkeypatch, tmp_path, **changes(algorithm, protocol, network), cohort="loop")
        check_same(watch, loop)
    if network == "stormy":  # which draws whatever a calm one does, and more
        monkeypatch.undo()  # unwatched
        again = small_points.run_tables(tmp_path / "again", **changes(algorithm, protocol, network))
        assert repr(again) == repr(watch.tables)  # bit for bit; what is no number equals itself there


@pytest.mark.long
@each_algorithm
def test_a_cohort_that_is_split_to_fit_the_memory_learns_the_same(algorithm, tmp_path, monkeypatch):
    options = changes(algorithm, "sync", next(iter(NETWORKS)))
    whole = watched(monkeypatch, tmp_path, **options)
    check_same(whole, watched(monkeypatch, tmp_path, **options, cohort={"memory": "64 KiB"}))


@pytest.mark.parametrize("hold", ["no training node", "no node"])
@each_algorithm
def test_a_round_of_clients_with_nothing_to_train_on(algorithm, hold):
    """In both periods rounds of them alone, before and after one with a client that does train."""
    stage = accepted(Part(name=algorithm, options=CHEAPER.get(algorithm, {})))
    lesson = stage.setup()
    empty, others = lesson.data.periods[:2], lesson.data.periods[2:]
    empty = [[replace(period, graph=EMPTIED[hold](period.graph)) for period in own] for own in empty]
    rounds = [(0, 1), (0, 1), (0, 1, 2), (0, 1), (0, 1, 2), (0, 1)]
    data = replace(lesson.data, periods=[*empty, *others])
    made = play(replace(lesson, data=data), lesson.cohort.trainer, rounds=rounds)
    for work in made.works:
        wire.encode(work.upload)
        assert all(value.isfinite().all() for value in tensors(work.upload) if value.is_floating_point())
        if work.job.client < 2:
            assert not work.fits
        if work.number < 2 and isinstance(work.upload, dict) and "update" in work.upload:
            assert not any(value.any() for value in tensors(work.upload["update"]))  # later some mix models
    for fold in made.folds:
        assert all(value.isfinite().all() for value in tensors(fold.state["model"]))
    assert len(made.folds) >= len(rounds)


def without_training(graph):
    return with_masks(graph, torch.zeros_like(graph["train"]), graph["val"], graph["test"])


EMPTIED = {"no training node": without_training, "no node": lambda graph: induced(graph, np.arange(0))}


def tensors(tree):
    """Yield the tensors of a tree, in lists and tuples too."""
    if isinstance(tree, torch.Tensor):
        yield tree.values() if tree.layout == torch.sparse_csr else tree
    elif isinstance(tree, dict | list | tuple):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            yield from tensors(inner)


def check_sizes(watch):
    """Every upload has the declared size, every message is billed with its envelope, and what counts was delivered."""
    assert watch.uploads
    for promise in watch.uploads:
        assert promise.nbytes == wire.size(promise.value()) == len(wire.encode(promise.value()))
    transfers = watch.tables["transfers"]
    if not watch.talks:
        assert transfers == watch.messages == []
        return
    assert sorted((row["src"], row["dst"], row["nbytes"]) for row in transfers) == sorted(watch.messages)
    assert watch.messages
    assert not any(row["refused"] for row in watch.tables["updates"])
    folded = sum(row["folded"] for row in watch.tables["updates"])
    assert folded > 0
    if any(row["dst"] == SERVER for row in transfers):  # among peers nobody's upload travels
        uploads = [row for row in transfers if row["dst"] < 0 <= row["src"]]
        assert sum(row["fate"] == "delivered" for row in uploads) == folded


def check_unchanged(watch):
    """Nobody has changed a tree that was sent, nor an entry of a memory that a job was given."""
    assert watch.sent
    assert watch.memories
    assert [prints(tree) for tree, _ in watch.sent] == [before for _, before in watch.sent]
    assert [prints(memory) for memory, _ in watch.memories] == [before for _, before in watch.memories]


def check_training(watch):
    """Every job has its own seed, and every fit its own outcome."""
    jobs = {(client, seed) for client, seed, _ in watch.fits}
    assert len({seed for _, seed in jobs}) == len(jobs) >= 4
    assert len({prints(params) for params in watch.fits.values()}) == len(watch.fits)


def check_scores(scores, periods):
    """Both models are scored by both metrics, on every period and split; new periods also before any training."""
    new = [row for row in scores if row["period"] >= row["seen"]]
    assert all(row["period"] == row["seen"] for row in new)
    scores = [row for row in scores if row["period"] < row["seen"]]
    for name, values in {
        "metric": {"accuracy", "macro_f1"},
        "model": {"global", "local"},
        "split": {"test", "val"},
        "period": set(range(periods)),
        "seen": set(range(1, periods + 1)),
    }.items():
        assert {row[name] for row in scores} == values
    assert all(0 <= row["value"] <= 1 and row["weight"] > 0 and row["period"] < row["seen"] for row in scores)


def check_same(union, loop):
    """All clients in one computation are all clients one by one."""
    for name in ("transfers", "updates", "spans"):
        assert union.tables[name] == loop.tables[name]
    without = [[{**row, "value": None} for row in watch.tables["scores"]] for watch in (union, loop)]
    assert without[0] == without[1]
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


@pytest.mark.long
@pytest.mark.parametrize(
    ("algorithm", "protocol"),
    sorted({*((name, "sync") for name in ALGORITHMS), *(("fedavg", name) for name in PROTOCOLS)}),
)
def test_another_seed_is_another_run(algorithm, protocol, tmp_path):
    options = changes(algorithm, protocol, "stormy")  # which draws whatever a calm one does, and more
    one, other = (small_points.run_tables(tmp_path / str(seed), **options, seed=seed) for seed in (3, 4))
    assert one["scores"] != other["scores"]
    assert one["spans"] != other["spans"]

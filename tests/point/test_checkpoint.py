"""Points that were stopped between two events, whichever, end with the tables and the log of those that were not."""

import math
import random
from dataclasses import replace
from functools import partial

import pytest
import small_points
from small_points import EFFECTS, SYNC

from fedsim import __version__
from fedsim.clock.server import ServerHost
from fedsim.core import logbook
from fedsim.core.record import Recorder
from fedsim.learn.engine.training import Trainer
from fedsim.point.build.assemble import build
from fedsim.point.loop import Loop
from fedsim.point.results import stale, stamp
from fedsim.point.resume import checkpoint
from fedsim.point.resume.checkpoint import Checkpointer, path_in, saved_in
from fedsim.point.run import observe, run

pytestmark = pytest.mark.long

PEERS = {"name": "peers", "graph": "ring"}
TREE = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}
BUFFERED = {"name": "buffered", "rounds": 6, "clients": 3, "buffer": 2}
STORM = {"network__effects": EFFECTS}
NOISE = {"name": "byzantine", "attack": "noise", "share": 0.6}
ALL = {**SYNC, "participation": 1.0}
WIDE = {"network__server": {"ingress": "1 Gbit/s", "egress": "1 Gbit/s"}}  # where cohorts are asked in waves
CASES = {
    "sync": {"protocol": SYNC},
    "sync in a storm": {"protocol": SYNC, **STORM},
    "deadline": {"protocol": {"name": "deadline", "rounds": 5, "clients": 3, "wait": "2 s", "over": 1.4}},
    "buffered": {"protocol": BUFFERED, **STORM},
    "one_shot": {"protocol": {"name": "one_shot", "enough": 0.8, "late": "fold"}, "data__stream": "static"},
    "hierarchical": {
        "protocol": {"name": "hierarchical", "rounds": 3, "edge_rounds": 2, "participation": 1.0},
        "network__topology": TREE, **STORM,
    },
    "gossip": {"protocol": {"name": "gossip", "rounds": 3}, "network__topology": PEERS, **STORM},
    "isolated": {"protocol": {"name": "isolated", "rounds": 4, "participation": 0.6}, **STORM},
    "codecs": {
        "protocol": BUFFERED, "network__codec": {"up": {"name": "top_k", "share": 0.2}, "down": "half"}, **STORM,
    },
    "random codec": {"network__codec": {"up": {"name": "rand_k", "share": 0.2}, "down": None}},
    "shares compressed": {
        "protocol": {"name": "gossip", "rounds": 2}, "network__topology": PEERS, "network__codec": {"up": "int8"},
        "measure__views": True,
    },
    "by the clock": {"measure__every": "700 ms", "data__stream": {"name": "class_incremental", "every": "3 s"}},
    "all periods": {
        "measure__splits": ["test", "all_periods"],
        "data__stream": {"name": "class_incremental", "every": "3 s", "offset": "uniform(0 s, 1 s)"},
    },
    "replayed nodes": {"algorithm": {"name": "fed_dslr", "structure_steps": 3}},
    "a model a client": {"algorithm": {"name": "fed_pub", "proxy_blocks": 1}},
    "mended graphs": {"algorithm": {"name": "feddgl", "epochs": 2}, "protocol": {**SYNC, "rounds": 3}},
    "scored on mended graphs": {
        "algorithm": {
            "name": "fedsage_plus", "generator_epochs": 2, "encoder": 6, "latent": 5, "narrow": 6, "wide": 8,
        },
        "protocol": ALL,
    },
    "steps of its own": {"algorithm": {"name": "fens", "aggregator_rounds": 2, "width": 4}},
    "snapshots": {
        "data": {
            "dataset": {"name": "drifting", "nodes": 120, "edges": 300, "snapshots": 5, "classes": 3, "features": 6},
            "partition": "random", "stream": {"name": "snapshots", "steps": 5, "every": "2 updates"},
        },
        "model": {"name": "roland", "hidden": 5}, "algorithm": {"name": "dg_colearn"},
        "protocol": {**SYNC, "rounds": 6}, "measure": {"models": ["global", "local"]},
    },
    "pairs on events": {
        "data": {
            "dataset": {"name": "meetings", "communities": 3, "members": 8, "group": 4, "seconds": 15},
            "partition": "louvain",
            "stream": {"name": "snapshots", "patch": 36, "scored": "events", "every": "2 updates"},
        },
        "task": {"name": "event_prediction", "batch": 5}, "algorithm": "local",
        "clients": {"count": 3, "speed": "1 MFLOP/s"},
        "model": {"name": "dygformer", "hidden": 4, "channel": 2, "time": 3, "length": 4},
        "protocol": {"name": "sync", "rounds": 6, "clients": 1},
        "measure": {"metrics": ["auc"], "models": ["global", "local"]},
    },
    "a module in batches": {
        "model": "plain_nets.Convolved",
        "training": {"optimiser": "adam", "lr": 0.01, "local_steps": 3, "batch": 8, "neighbours": [3, 2]}, **STORM,
    },
    "a module under an optimiser of torch": {
        "model": "plain_nets.Convolved", "protocol": BUFFERED, **STORM,
        "training": {"optimiser": {"name": "torch.optim.NAdam", "momentum_decay": 0.01}, "lr": 0.01, "local_steps": 2},
    },
    "an optimiser of torch": {
        "training": {"optimiser": {"name": "torch.optim.AdamW", "amsgrad": True}, "lr": 0.01, "local_steps": 2},
        "protocol": BUFFERED, **STORM,
    },
    "oort": {"protocol": BUFFERED, "clients__sampler": "oort", **STORM},
    "waves": {"protocol": ALL, "network__effects": [{"name": "churn", "online": "3 s", "offline": "1 s"}], **WIDE},
    "noise": {"privacy": {"clip": 0.5, "noise": 0.3}, "clients__sampler": "round_robin", **STORM},
    "masks": {
        "privacy": {"secure_aggregation": True, "clip": 0.5}, "protocol": ALL,
        "network__codec": {"down": "half"}, **STORM,
    },
    "masks in waves": {"privacy": {"secure_aggregation": True}, "network__effects": [NOISE], **WIDE},
    "forgers": {
        "protocol": BUFFERED, "network__codec": {"up": {"name": "rand_k", "share": 0.5}},
        "network__effects": [*EFFECTS, NOISE],
    },
    "forging peers": {
        "protocol": {"name": "gossip", "rounds": 2}, "network__topology": PEERS,
        "network__effects": [*EFFECTS, NOISE], "measure__views": True,
    },
    "views": {"network__codec": {"down": "half"}, "measure__views": True, **STORM},
}  # fmt: skip


# where most is under way at any moment
TWICE = ("buffered", "hierarchical", "gossip", "forgers")


def whole(folder, every=math.inf, **changes):
    """Run a point in a folder that may be there already, and return all that it leaves behind."""
    folder.mkdir(parents=True, exist_ok=True)
    row = run(small_points.point(**changes), folder, folder, lambda _: None, every)
    assert not path_in(folder).parent.exists()
    views = {path.name: path.read_bytes() for path in folder.glob("views/*")}
    row = {name: str(value) for name, value in row.items() if name != "real_seconds"}
    return {**small_points.files(folder), **views, "row": row, "run.log": (folder / "run.log").read_bytes()}


@pytest.fixture
def events(monkeypatch):
    """How many events each point of the test has had, in the order of their ends."""
    found, step = [], Loop.run

    def counted(self):
        status = step(self)
        found.append(self.events)
        return status

    monkeypatch.setattr(Loop, "run", counted)
    return found


def stop(folder, after, until=lambda: True, **changes):
    """Run so many events, and more until something has come to pass, take a checkpoint and leave."""
    folder.mkdir(parents=True, exist_ok=True)
    with logbook.keep(folder / "run.log"):
        scenario = small_points.scenario(**changes)
        made = stamp.of(scenario)
        saved = saved_in(folder, lambda: made, {})
        built = build(scenario, folder, Recorder(), saved["record"] if saved else {})
        checkpointer, events = Checkpointer(folder, math.inf, made, built, observe(built), saved), 0
        while events < after or not until():
            built.world.env.step()
            events += 1
            if events == checkpointer.resume_at:
                checkpointer.resume()
        checkpointer.save(events)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_a_point_goes_on_as_if_nothing_had_happened(name, tmp_path, events):
    changes, rng = CASES[name], random.Random(name)
    first = whole(tmp_path / "first", **changes)
    for after in [rng.randrange(events[0] // 4, events[0]) for _ in range(2 if name in TWICE else 1)]:
        folder = tmp_path / str(after)
        stop(folder, after, **changes)
        assert path_in(folder).is_file()
        assert whole(folder, **changes) == first, after


@pytest.mark.parametrize("budget", ["bytes", "bytes_up"])
def test_a_point_goes_on_to_the_end_of_its_budget_of_bytes(budget, tmp_path, events):
    changes = CASES["sync in a storm"]
    row = run(small_points.point(**changes), tmp_path, tmp_path, lambda _: None, math.inf)
    most = (row["bytes_up"] if budget == "bytes_up" else row["bytes_up"] + row["bytes_down"]) // 2
    changes = {**changes, "measure": {**small_points.PLAIN["measure"], "until": {budget: f"{int(most)} B"}}}
    first = whole(tmp_path / "first", **changes)
    assert 20 < events[1] < events[0]  # the budget ends it, and not before anything has moved
    for after in (events[1] // 2, events[1] - 1):  # bytes that moved before the checkpoint count as well
        folder = tmp_path / str(after)
        stop(folder, after, **changes)
        assert path_in(folder).is_file()
        assert whole(folder, **changes) == first, after


def test_uploads_that_are_opened_and_not_folded_yet_stay_what_they_are(tmp_path, monkeypatch):
    computing, compute = [], ServerHost.compute
    monkeypatch.setattr(ServerHost, "compute", lambda self, work: computing.append(work) or compute(self, work))
    changes = CASES["masks in waves"]
    first = whole(tmp_path / "first", **changes)
    computing.clear()
    stop(tmp_path / "stopped", 0, lambda: len(computing) == 2, **changes)
    assert whole(tmp_path / "stopped", **changes) == first


def test_checkpoints_change_nothing_and_one_goes_on_from_another(tmp_path, monkeypatch, events):
    changes = CASES["buffered"]
    first = whole(tmp_path / "first", **changes)
    monkeypatch.setattr(checkpoint, "SHARE", 2)
    assert whole(tmp_path / "often", every=0.0, **changes) == first
    folder, count = tmp_path / "twice", events[0]
    stop(folder, count // 3, **changes)
    stop(folder, 2 * count // 3, **changes)
    assert whole(folder, **changes) == first


def test_nothing_is_trained_again(tmp_path, monkeypatch, events):
    trained, train = [], Trainer.train
    monkeypatch.setattr(Trainer, "train", lambda self, work: trained.append(len(work)) or train(self, work))
    changes = {"protocol": SYNC}
    whole(tmp_path / "first", **changes)
    jobs = sum(trained)
    trained.clear()
    stop(tmp_path / "stopped", events[0] * 2 // 3, **changes)
    trained.clear()
    whole(tmp_path / "stopped", **changes)
    assert 0 < sum(trained) < jobs / 2


def stopped(folder):
    stop(folder, 60, protocol=SYNC)
    return folder


def test_a_checkpoint_of_another_program_is_left_aside(tmp_path, monkeypatch):
    folder, made = stopped(tmp_path / "stopped"), stamp.of(small_points.scenario(protocol=SYNC))
    assert saved_in(folder, lambda: made, {})["record"]
    assert stale.outdated(folder) == ""
    modules = {**made.modules, "algorithms.fedavg": "another"}
    libraries = {**made.libraries, "torch": "0.1"}
    for other in (replace(made, modules=modules), replace(made, libraries=libraries)):
        assert saved_in(folder, partial(lambda stamp: stamp, other), {}) is None
    monkeypatch.setattr(stamp, "of", lambda scenario: replace(made, modules=modules))
    assert whole(folder, protocol=SYNC) == whole(tmp_path / "first", protocol=SYNC)


def test_of_a_checkpoint_of_other_sources_it_is_reported_which(tmp_path, monkeypatch):
    folder, made = tmp_path / "point", stamp.of(small_points.scenario(protocol=SYNC))
    modules = {**made.modules, "algorithms.fedavg": "another"}
    for other, told in [
        (replace(made, modules=modules), "algorithms/fedavg.py has changed since"),
        (replace(made, modules=modules, fedsim="0.0.1"), f"fedsim 0.0.1 -> {__version__}"),
        (replace(made, libraries={"simpy": "0.1"}), "simpy 0.1 -> "),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(stamp, "of", lambda scenario, other=other: other)
            stop(folder, 20, protocol=SYNC)
        assert stale.outdated(folder).startswith(told)


@pytest.mark.parametrize("damage", ["nothing left", "half left", "a bit flipped"])
def test_a_damaged_checkpoint_is_discarded_which_is_noted(tmp_path, damage):
    folder = stopped(tmp_path / "stopped")
    data = bytearray(path_in(folder).read_bytes())
    data[-len(data) // 3] ^= 4
    left = {"nothing left": data[:0], "half left": data[: len(data) // 2], "a bit flipped": data}
    path_in(folder).write_bytes(left[damage])
    assert stale.outdated(folder) == "its checkpoint is damaged"
    found, alone = whole(folder, protocol=SYNC), whole(tmp_path / "alone", protocol=SYNC)
    noted = "'checkpoint': 'was damaged and was discarded'"
    assert [noted in left["row"].pop("provenance") for left in (found, alone)] == [True, False]
    assert found == alone


def test_a_checkpoint_whose_replay_goes_another_way_is_discarded_which_is_noted(tmp_path):
    folder, other = stopped(tmp_path / "stopped"), {**SYNC, "participation": 1.0}
    found, alone = whole(folder, protocol=other), whole(tmp_path / "alone", protocol=other)
    rows = [found.pop("row"), alone.pop("row")]
    assert found == alone
    noted = "'checkpoint': 'did not fit and was discarded: a replay asks a question that has no answer in the record'"
    assert [noted in row.pop("provenance") for row in rows] == [True, False]
    assert rows[0] == rows[1]


def test_what_cannot_be_kept_is_reported_and_the_point_runs_on(tmp_path, monkeypatch):
    from algorithms.fedavg import FedAvg

    fit = FedAvg.fit

    def noting(self, job, given, **how):
        job.memory["strange"] = object()
        return (yield from fit(self, job, given, **how))

    monkeypatch.setattr(FedAvg, "fit", noting)
    monkeypatch.setattr(checkpoint, "SHARE", 0)
    left, alone = whole(tmp_path / "often", every=0.0, protocol=SYNC), whole(tmp_path / "alone", protocol=SYNC)
    noted = "'checkpoint': 'no checkpoint can hold a value of type builtins.object'"
    assert [noted in one["row"].pop("provenance") for one in (left, alone)] == [True, False]
    assert left == alone  # the log too: it depends on the host whether one was to be taken

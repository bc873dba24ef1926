"""What goes wrong in whole runs: numbers that are none, forged values, nobody there, nothing to learn."""

import math

import pytest
import small_points
from small_points import SYNC
from values import state_of

from fedsim.core.record import SERVER, Recorder
from fedsim.learn.engine.cohort import JobQueue
from fedsim.learn.engine.tree import leaves
from fedsim.learner.client import is_finite
from fedsim.point.build.assemble import build
from fedsim.point.checks import check
from fedsim.sweep.final_table import refusals

RING = {"name": "peers", "graph": "ring"}
TREE = {"name": "tree", "edges": 2, "uplink": "50 Mbit/s", "downlink": "50 Mbit/s", "latency": "5 ms"}
FAST = {"clients__speed": "1 GFLOP/s"}
PROTOCOLS = {
    "sync": {"protocol": SYNC},
    "deadline": {"protocol": {"name": "deadline", "rounds": 4, "clients": 3, "wait": "2 s", "over": 1.4}},
    "buffered": {"protocol": {"name": "buffered", "rounds": 5, "clients": 3, "buffer": 2}},
    "one_shot": {"protocol": {"name": "one_shot", "enough": 0.4, "late": "fold"}},
    "hierarchical": {
        "protocol": {"name": "hierarchical", "rounds": 3, "participation": 1.0}, "network__topology": TREE,
    },
    "gossip": {"protocol": {"name": "gossip", "rounds": 2}, "network__topology": RING, **FAST},
    "isolated": {"protocol": {"name": "isolated", "rounds": 3, "participation": 1.0}},
}  # fmt: skip
DIVERGE = {"training": {"optimiser": "sgd", "lr": 3e38, "local_steps": 3}, "data__stream": "static"}
each_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


def ran(tmp_path, **changes):
    """Run to the end; return the row, the tables, and the world."""
    row = small_points.run_in(tmp_path / "run", **changes)
    return row, {name: small_points.table(tmp_path / "run", name) for name in small_points.TABLES}


@each_protocol
def test_training_that_diverges_moves_no_model_and_is_reported(protocol, tmp_path):
    row, tables = ran(tmp_path, **PROTOCOLS[protocol], **DIVERGE)
    assert row["refused"] == row["asked"] - row["late"] > 0
    assert (row["folded"], row["lost"], row["updates"]) == (0, 0, 0)
    uploads = [r for r in tables["transfers"] if r["dst"] < 0 <= r["src"]]
    assert "delivered" not in {r["fate"] for r in uploads}
    assert sum(r["fate"] == "discarded" for r in uploads) == (
        0 if protocol in ("gossip", "isolated") else row["refused"]
    )
    assert not [r for r in tables["transfers"] if r["kind"] == "share" and r["dst"] in (SERVER, 0)]  # nothing to merge
    assert (
        len(
            {
                (r["client"], r["value"])
                for r in tables["scores"]
                if r["model"] == "global" and r["split"] == "test" and r["client"] >= 0
            }
        )
        <= 10
    )
    assert refusals([row]).startswith(f"refused: {row['refused']} replies in this run held numbers")
    assert refusals([row, {**row, "refused": 0}, {**row, "refused": None}]).startswith(
        f"refused: {row['refused']} replies in 1 of 3"
    )
    assert refusals([{**row, "refused": 0}]) is None


@each_protocol
def test_where_some_send_no_numbers_the_others_are_folded(protocol, tmp_path):
    effect = {"name": "byzantine", "attack": "nan", "clients": [1, 3]}
    if protocol == "isolated":
        (problem,) = check.points([small_points.point(**PROTOCOLS[protocol], network__effects=[effect])])
        assert (problem.key, "leave it out" in problem.message) == ("network.effects.0", True)
        return
    recorder = Recorder()
    built = build(small_points.scenario(**PROTOCOLS[protocol], network__effects=[effect]), tmp_path, recorder)
    world = built.world
    world.env.run(until=built.done)
    world.end()
    world.ledger.close()
    assert all(is_finite(state_of(built, client)["model"]) for client in world.clients)
    transfers = small_points.rows(recorder, "transfers")
    refused = [r for r in transfers if r["fate"] == "discarded"]
    assert refused
    assert {r["src"] for r in refused} == ({3} if protocol == "buffered" else {1, 3})  # where 1 is too late
    sound = [r for r in transfers if r["src"] in (1, 3) and r["fate"] == "delivered"]
    assert sound == []
    updates = small_points.rows(recorder, "updates")
    assert sum(r["folded"] for r in updates) > 0
    if protocol != "gossip":  # among peers shares are refused, not replies
        assert sum(r["refused"] for r in updates) == len(refused)


def test_a_late_reply_that_is_refused_takes_no_weight_from_the_others(tmp_path, monkeypatch):
    weights, update = [], None

    def see(self, state, replies, step):
        weights.extend((reply.client, reply.weight) for reply in replies)
        return update(self, state, replies, step)

    from algorithms.fedavg import FedAvg

    update = FedAvg.update
    monkeypatch.setattr(FedAvg, "update", see)
    effect = {"name": "byzantine", "attack": "nan", "clients": [1, 3]}
    small_points.run_in(tmp_path / "run", **PROTOCOLS["one_shot"], network__effects=[effect], data__stream="static")
    assert {client for client, _ in weights} == {0, 2, 4}
    assert all(weight in (1.0, 1.0 / folded) for folded, (_, weight) in enumerate(weights, 1))


@pytest.mark.long
@pytest.mark.parametrize(("protocol", "attack"), [("sync", "sign_flip"), ("gossip", "noise")])
def test_attackers_values_change_what_is_learned_and_neither_time_nor_bytes(protocol, attack, tmp_path):
    effect = {"name": "byzantine", "attack": attack, "share": 0.4, "factor": 3.0}
    for name, effects in (("one", [effect]), ("two", [effect]), ("plain", [])):
        small_points.run_in(tmp_path / name, **PROTOCOLS[protocol], network__effects=effects)
    one, two, plain = (small_points.files(tmp_path / name) for name in ("one", "two", "plain"))
    assert one == two
    assert {name: one[name] for name in ("transfers", "updates", "spans")} == {
        name: plain[name] for name in ("transfers", "updates", "spans")
    }
    assert one["scores"] != plain["scores"]


def test_with_a_codec_the_forged_is_squeezed(tmp_path):
    row, tables = ran(
        tmp_path, network__effects=[{"name": "byzantine", "attack": "nan", "share": 0.4}], network__codec={"up": "int8"}
    )
    assert 0 < row["refused"] < row["asked"]
    assert len({r["nbytes"] for r in tables["transfers"] if r["dst"] == SERVER}) == 1


@pytest.mark.parametrize("cut", [True, False])
def test_a_total_outage_stops_all_and_then_the_run_goes_on(cut, tmp_path):
    effect = {"name": "outage", "every": "1 s", "length": "2 s", "times": "fixed", "cut": cut}
    row, tables = ran(
        tmp_path, network__effects=[effect], **FAST, protocol={**SYNC, "rounds": 6}, network__uplink="100 kbit/s"
    )
    assert (row["status"], row["folded"] + row["lost"]) == ("done", row["asked"])
    assert row["updates"] > 0
    assert bool(row["lost"]) == cut
    arrived = [r["arrived"] % 3 for r in tables["transfers"] if r["fate"] == "delivered"]
    assert all(second <= 1 + 0.1 or second < 1e-9 for second in arrived)  # but for half a round trip, and its rounding
    offline = {
        (r["start"], r["end"]) for r in tables["spans"] if r["what"] == "offline" and r["end"] < row["sim_seconds"]
    }
    assert offline == ({(start, start + 2) for start, _ in offline} if cut else set())


def test_when_all_clients_leave_in_every_job_nothing_is_learned_and_the_run_ends(tmp_path):
    row, tables = ran(tmp_path, network__effects=[{"name": "dropout", "rate": "1000/s"}])
    assert (row["status"], row["updates"], row["folded"]) == ("done", 0, 0)
    assert row["lost"] == row["asked"] == 15
    assert len([r for r in tables["spans"] if r["what"] == "left"]) == 15
    assert (
        len({r["value"] for r in tables["scores"] if r["client"] == 0 and r["period"] == 0 and r["split"] == "val"})
        <= 4
    )


def test_rounds_in_which_nobody_takes_part_are_noted_and_change_nothing(tmp_path):
    quick = {"name": "deadline", "rounds": 4, "participation": 0.6, "wait": "10 ms"}
    row, tables = ran(tmp_path, protocol=quick)
    assert (row["status"], row["updates"]) == ("done", 0)
    # In the second round the clients of the first are still at work, and only the others can be asked.
    assert [(r["folded"], r["version"]) for r in tables["updates"]] == [(0, 0)] * 4
    assert all(r["late"] == r["asked"] > 0 for r in tables["updates"])
    assert math.isfinite(row["score"])


@pytest.mark.parametrize("aggregation", ["mean", "median"])
def test_clients_without_a_node_to_train_on_return_the_model_as_it_came(aggregation, tmp_path, monkeypatch):
    """Of the five clients all lose their train labels but one, by a split that leaves them none."""
    seen, submit = [], JobQueue.submit

    def see(self, job):
        if job.client != 2:
            job.data["train"][:] = False
        promise = submit(self, job)
        seen.append((job, promise))
        return promise

    monkeypatch.setattr(JobQueue, "submit", see)
    row, _ = ran(
        tmp_path, aggregation=aggregation, algorithm={"name": "fedavg", "weight_by": "train"},
        data__stream="static", protocol={"name": "sync", "rounds": 2, "participation": 1.0},
    )  # fmt: skip
    assert (row["folded"], row["updates"], row["refused"]) == (10, 2, 0)
    for job, promise in seen:
        moved = any(bool(leaf.any()) for leaf in leaves(promise.value()["update"]))
        assert moved == (job.client == 2)
        assert (promise.value()["samples"] > 0) == (job.client == 2)

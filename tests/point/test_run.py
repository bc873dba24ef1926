"""A point from its scenario to its tables: the order of things, the end of a run, and what is refused."""

from importlib import metadata

import pytest
import small_points
import torch
from gpu_points import sparse_graph
from small_points import EFFECTS, SYNC

from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.record import Recorder
from fedsim.net.effects.churn import Churn
from fedsim.point import loop
from fedsim.point import run as running
from fedsim.point.build import learning, prepared
from fedsim.scenario.text import yaml_file
from fedsim.sweep.runner import RESULTS

FORGETFUL = """\
from dataclasses import dataclass

from fedsim.clock.protocol import Rounds, select


@dataclass(frozen=True)
class Forgetful(Rounds):
    def run(self, world):
        cohort = yield from select(world, self.cohort_size(world))
        replies = yield from world.exchange(cohort, "train")
        world.server.update(replies)
"""
STREAM = {"name": "class_incremental", "classes": 2, "every": "2 updates"}


def by_version(scores, **where):
    """{(version, time): set of (seen, period)} of the rows that fit."""
    found = {}
    for row in scores:
        if all(row[key] == value for key, value in where.items()):
            found.setdefault(row["version"], set()).add((row["seen"], row["period"]))
    return found


def test_the_row_has_every_column_and_agrees_with_the_tables(tmp_path):
    row = small_points.run_in(tmp_path / "run", network__effects=EFFECTS, measure__target=0.01)
    assert {"status", "seed", "provenance", *RESULTS} == set(row)
    assert row["provenance"] == {"device": "cpu", "threads": 1}
    assert (row["status"], row["seed"], row["metric"]) == ("done", 3, "accuracy")
    tables = {name: small_points.table(tmp_path / "run", name) for name in small_points.TABLES}
    delivered = [r for r in tables["transfers"] if r["fate"] == "delivered"]
    assert row["bytes_up"] == sum(r["nbytes"] for r in delivered if r["dst"] == -1)
    assert row["bytes_down"] == sum(r["nbytes"] for r in delivered if r["src"] == -1)
    moved = sum(r["wire_bytes"] for r in tables["transfers"])
    assert row["bytes_wasted"] == moved - row["bytes_up"] - row["bytes_down"]
    for name in ("asked", "folded", "lost", "late"):
        assert row[name] == sum(r[name] for r in tables["updates"])
    assert row["updates"] == max(r["version"] for r in tables["updates"])
    assert row["sim_seconds"] >= max(r["time"] for r in tables["updates"])
    assert row["seconds_to_target"] is not None


def test_the_resolved_scenario_reads_back_to_the_same_point(tmp_path):
    odd = {"name": "power", "rebuild_steps": 5, "preset": "paper"}
    small_points.run_in(tmp_path / "run", algorithm=odd, training__weight_decay=5e-5, description="no: 1e3, yes")
    text = (tmp_path / "run/scenario.yaml").read_text()
    again, _ = yaml_file.load(tmp_path / "run/scenario.yaml")
    point = small_points.point(algorithm=odd, training__weight_decay=5e-5, description="no: 1e3, yes")
    assert again == point.scenario
    assert f"# run {point.id}\n" in text
    assert f"# torch: {metadata.version('torch')}" in text


def test_until_ends_the_run_at_its_second(tmp_path):
    whole = small_points.run_in(tmp_path / "whole")
    until = whole["sim_seconds"] / 2
    half = small_points.run_in(tmp_path / "half", measure__until=f"{until!r} s")
    assert (half["status"], half["sim_seconds"]) == ("done", until)
    assert 0 < half["updates"] < whole["updates"]
    transfers = small_points.table(tmp_path / "half", "transfers")
    assert all(row["arrived"] <= until for row in transfers)
    before = [row for row in small_points.table(tmp_path / "whole", "updates") if row["time"] <= until]
    assert small_points.table(tmp_path / "half", "updates") == before
    # what was under way is billed, and a last score is taken
    assert any(row["arrived"] == until and row["fate"] in ("cut", "lost", "late") for row in transfers) or any(
        row["end"] == until for row in small_points.table(tmp_path / "half", "spans")
    )


def test_until_beyond_the_protocols_end_changes_nothing(tmp_path):
    small_points.run_in(tmp_path / "plain")
    small_points.run_in(tmp_path / "long", measure__until="10 h")
    assert small_points.files(tmp_path / "plain") == small_points.files(tmp_path / "long")


def scores_of(folder):
    """The scores of periods that had arrived, without the prequential ones."""
    return [row for row in small_points.table(folder, "scores") if row["period"] < row["seen"]]


def test_scores_of_a_period_are_taken_before_the_next_arrives(tmp_path):
    small_points.run_in(tmp_path / "run", protocol={**SYNC, "rounds": 4})
    seen = by_version(scores_of(tmp_path / "run"), model="global", split="test")
    assert seen[1] == seen[2] == {(1, 0)}
    assert seen[3] == seen[4] == {(2, 0), (2, 1)}


def test_what_arrives_with_the_last_update_is_not_scored(tmp_path):
    row = small_points.run_in(tmp_path / "run", protocol={**SYNC, "rounds": 2})
    assert by_version(scores_of(tmp_path / "run"), model="global", split="test") == {
        1: {(1, 0)},
        2: {(1, 0)},
    }
    assert row["score"] is not None


def test_a_stream_by_simulated_time_brings_periods_at_their_seconds(tmp_path):
    stream = {**STREAM, "every": "2 s"}
    small_points.run_in(tmp_path / "run", data__stream=stream, protocol={**SYNC, "rounds": 6})
    scores = scores_of(tmp_path / "run")
    assert {row["seen"] for row in scores} == {1, 2}
    assert all((row["seen"] == 2) == (row["time"] > 2.0) for row in scores)
    # nothing that depends on when data arrive reached the first updates
    small_points.run_in(tmp_path / "other", data__stream={**STREAM, "every": "1 h"}, protocol={**SYNC, "rounds": 6})
    other = [row for row in scores_of(tmp_path / "other") if row["time"] < 2.0]
    assert other == [row for row in scores if row["time"] < 2.0]
    assert other


def test_a_period_that_comes_after_the_last_update_is_scored_at_the_end(tmp_path):
    stream = {**STREAM, "every": "50 s"}
    slow = {"name": "deadline", "rounds": 2, "clients": 5, "wait": "40 s"}
    row = small_points.run_in(tmp_path / "run", data__stream=stream, protocol=slow, clients__speed="100 FLOP/s")
    assert row["updates"] == 0
    scores = scores_of(tmp_path / "run")
    assert {(r["version"], r["seen"], r["time"]) for r in scores} == {(0, 2, row["sim_seconds"])}


def test_scoring_by_the_clock(tmp_path):
    row = small_points.run_in(tmp_path / "run", measure__every="0.5 s", protocol={**SYNC, "rounds": 4})
    scores = scores_of(tmp_path / "run")
    times = sorted({r["time"] for r in scores})
    assert all(time % 0.5 == 0 for time in times[:-1])
    assert times[-1] in (row["sim_seconds"], row["sim_seconds"] // 0.5 * 0.5)
    assert len({r["version"] for r in scores}) >= 3


def test_scoring_every_second_update(tmp_path):
    small_points.run_in(tmp_path / "run", measure__every="2 updates", protocol={**SYNC, "rounds": 5})
    scores = scores_of(tmp_path / "run")
    assert sorted({row["version"] for row in scores}) == [2, 4, 5]  # and the last one, in any case


@pytest.mark.parametrize("every", ["1 updates", "10 s"])
def test_a_run_in_which_nobody_ever_comes_back_is_stalled(every, tmp_path, monkeypatch):
    def for_ever(self, env, network, rng):
        yield env.timeout(1.5)
        for client in range(len(network.nodes)):
            network.nodes.sleep(client)

    monkeypatch.setattr(Churn, "drive", for_ever)
    row = small_points.run_in(tmp_path / "run", network__effects=EFFECTS[:1], measure__every=every)
    assert row["status"] == "stalled"
    assert row["updates"] == 2
    assert 1.5 <= row["sim_seconds"] <= 10.0  # what was begun may still have been due, and the observer looks once more
    spans = [r for r in small_points.table(tmp_path / "run", "spans") if r["what"] == "offline"]
    assert [(r["client"], r["start"], r["end"]) for r in spans] == [(c, 1.5, row["sim_seconds"]) for c in range(5)]
    assert {r["version"] for r in scores_of(tmp_path / "run")} == ({1, 2} if every == "1 updates" else {2})


def test_progress_is_reported_and_never_runs_backwards(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(loop, "REPORT_EVERY", 0.0)
    running.run(small_points.point(), tmp_path, tmp_path, told.append)
    assert len(told) > 10
    for name in ("simulated", "share", "updates"):
        values = [getattr(one, name) for one in told]
        assert values == sorted(values)
    assert 0 <= told[0].share <= told[-1].share <= 1
    assert told[0].score is None
    assert 0 <= told[-1].score <= 1


@pytest.mark.parametrize("model", ["fluid", "naive"])
def test_both_network_models_run(model, tmp_path):
    row = small_points.run_in(tmp_path / "run", network__model=model)
    assert row["status"] == "done"
    assert (row["bytes_wasted"] == 0) == (model == "naive")


def test_a_metric_that_there_is_not_is_the_users_mistake(tmp_path):
    with pytest.raises(ScenarioError, match=r"measure\.metrics.*'acuracy'.*accuracy, auc"):
        small_points.run_in(tmp_path / "run", measure__metrics=["acuracy"])


@pytest.mark.parametrize(
    ("device", "count", "message"),
    [("cuda", 0, "no GPU"), ("cuda:1", 0, "no GPU"), ("cuda:1", 1, "1 GPU, counted"), ("cuda:7", 2, "2 GPUs, counted")],
)
def test_a_device_that_there_is_not_is_the_users_mistake(device, count, message, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(ScenarioError, match=f"device: '{device}': torch sees {message}.*write 'auto' or 'cpu'"):
        learning.choose_device(device)


def test_auto_takes_a_gpu_where_there_is_one(monkeypatch):
    for there, name in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert learning.choose_device("auto") == name
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert learning.choose_device("cuda:1") == "cuda:1"
    assert learning.choose_device("cpu") == "cpu"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"clients__count": 500}, "clients.count"),
        ({"data__stream": {"name": "class_incremental", "classes": 9, "every": "2 s"}}, "data.stream.classes"),
        ({"algorithm": {"name": "fedprox", "nu": 1}}, "no option 'nu'"),
    ],
)
def test_what_cannot_be_had_is_the_users_mistake(changes, message, tmp_path):
    with pytest.raises(ScenarioError) as caught:
        small_points.run_in(tmp_path / "run", **changes)
    (problem,) = caught.value.problems
    assert message in str(problem)
    assert problem.key.split(".")[0] in message or problem.key == "algorithm.nu"
    assert not list((tmp_path / "run").glob("*.parquet"))


def test_points_that_share_their_data_prepare_them_once(tmp_path):
    prepared.periods_of.cache_clear()
    for algorithm in ("fedavg", "fedprox", "local"):
        running.build(small_points.scenario(algorithm=algorithm), tmp_path, Recorder())
    assert (prepared.periods_of.cache_info().misses, prepared.periods_of.cache_info().hits) == (1, 2)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("room", "kept"), [(1e9, 4), (1.0, 2)])
def test_data_sets_are_kept_while_there_is_room_and_at_least_two_of_them(room, kept, sparse, tmp_path, monkeypatch):
    prepared.periods_of.cache_clear()
    monkeypatch.setattr(prepared, "ROOM", room)
    data = sparse_graph(tmp_path / "graph.npz") if sparse else {}
    for seed in (0, 1, 2, 3):
        running.build(small_points.scenario(seed=seed, **data), tmp_path, Recorder())
    assert prepared.periods_of.cache_info().currsize == kept


def test_what_preparing_the_data_logs_is_in_the_log_of_each_point_that_uses_them(tmp_path):
    prepared.periods_of.cache_clear()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        made = small_points.point(data__partition="label_skew")
        running.run(made, tmp_path / name, tmp_path, lambda progress: None)
    assert prepared.periods_of.cache_info().hits == 1
    first, second = ((tmp_path / name / "run.log").read_text() for name in ("first", "second"))
    assert "client 0: labels" in first
    assert first == second


def test_until_at_the_very_second_of_an_observation_ends_the_run(tmp_path):
    row = small_points.run_in(tmp_path / "run", measure__until="2 s", measure__every="0.5 s")
    assert (row["status"], row["sim_seconds"]) == ("done", 2.0)


def test_a_protocol_that_forgets_to_update_is_told_so(tmp_path, monkeypatch):
    (tmp_path / "of_mine").mkdir()
    (tmp_path / "of_mine" / "forgetful.py").write_text(FORGETFUL)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="asked clients and ended without an update; write `yield from world"):
        small_points.run_in(tmp_path / "run", protocol={**SYNC, "name": "of_mine.forgetful"})

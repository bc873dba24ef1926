"""A point that follows the record of another has the very tables that it has by itself."""

import logging
import os
import shutil
import time
from dataclasses import replace

import pytest
import same_points
import small_points

from algorithms.fedavg import FedAvg
from fedsim.learner import recorded
from fedsim.point.results.folders import RECORDS
from fedsim.point.resume import checkpoint, following
from fedsim.point.resume.checkpoint import path_in
from fedsim.point.resume.following import FollowedAnswers, learning_key_of, save
from fedsim.point.run import run

NEAR, FAR = "lognormal(50 ms, 0.4)", "lognormal(300 ms, 0.4)"
WAITING = {**same_points.DEADLINE, "wait": "5 min", "over": 1.0}  # long enough for everybody
# What asks the same at every latency.
FOLLOWS = {
    "sync": {},
    "hierarchical": {"protocol": same_points.EDGES, "network__topology": same_points.TREE},
    "one_shot": {"protocol": "one_shot", "data__stream": "static"},
    "one_shot, ghost": same_points.LEARN["one_shot, ghost"],
    "deadline": {"protocol": WAITING},
    "int8 both ways": {"network__codec": {"up": "int8", "down": "int8"}},
    "private": {"privacy": {"clip": 0.5, "noise": 0.3}},
    "masked": {"privacy": {"secure_aggregation": True, "clip": 0.5, "noise": 0.2}, "protocol": same_points.SYNC},
    "masked, in waves, forgers": same_points.LEARN["masked, in waves, forgers"],
    "forgers": same_points.LEARN["forgers"],
    "power": {"algorithm": {"name": "power", "rebuild_steps": 2, "restarts": 0}},
    "dg_colearn": {**same_points.LEARN["dg_colearn"], "measure__views": False},
    "loss that delays": {"network__effects": [{"name": "loss", "rate": "1 %"}]},
}
# What depends on which reply comes first, or on the time.
DIVERGES = {
    name: same_points.LEARN[name]
    for name in (
        "sync in a storm",
        "buffered, top_k up",
        "deadline, by each client's clock",
        "restarts, rand_k up",
        "gossip among peers",
    )
}
# Whom it asks depends on the times observed, and some cohorts are others at another latency.
DIVERGES["oort"] = {
    "clients": {**same_points.CLIENTS, "count": 8, "sampler": "oort"},
    "protocol": {"name": "sync", "rounds": 12, "clients": 2},
}


def point(changes, latency, rooted=True):
    plain = dict(same_points.LEARNING)
    for key, value in changes.items():
        section, _, inner = key.partition("__")
        plain[section] = {**plain[section], inner: value} if inner else value
    plain["network"] = {**plain["network"], "latency": latency}
    made = small_points.point(**plain)
    return replace(made, learning_key=learning_key_of(made.scenario)) if rooted else made


def run_in(out, made):
    folder = out / made.id
    folder.mkdir(parents=True)
    return run(made, folder, folder, lambda progress: None), folder


def files(folder):
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".parquet", ".log", ".yaml")}
    assert len(found) == 8
    return found


FIRST = ("sync", "oort", "private", "masked, in waves, forgers", "sync in a storm")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in FIRST)) for name in [*FOLLOWS, *DIVERGES]]
)
def test_a_point_that_follows_has_the_tables_and_the_log_that_it_has_alone(name, tmp_path):
    changes = {**FOLLOWS, **DIVERGES}[name]
    leader = point(changes, NEAR)
    first, _ = run_in(tmp_path / "out", leader)
    row, folder = run_in(tmp_path / "out", point(changes, FAR))
    alone, other = run_in(tmp_path / "alone", point(changes, FAR, rooted=False))
    assert files(folder) == files(other)
    own = ("real_seconds", "followed")
    assert {key: row[key] for key in row if key not in own} == {key: alone[key] for key in alone if key not in own}
    assert row["sim_seconds"] != first["sim_seconds"]
    assert row["followed"] == (leader.id if name in FOLLOWS else None)
    assert len([*(tmp_path / "out" / RECORDS).glob("*/*")]) == (1 if name in FOLLOWS else 2)


def test_the_record_of_a_point_that_diverged_is_followed_too(tmp_path):
    changes = DIVERGES["buffered, top_k up"]
    run_in(tmp_path, point(changes, NEAR))
    diverged, _ = run_in(tmp_path, point(changes, FAR))
    target = point(
        {**changes, "measure__target": 0.1, "measure__target_on": "each_period"}, FAR
    )  # another point that asks the same
    assert diverged["followed"] is None
    assert run_in(tmp_path, target)[0]["followed"].split() == [point(changes, NEAR).id, point(changes, FAR).id]


def test_a_point_that_was_ended_when_its_record_was_written_does_not_count_as_following(tmp_path):
    row, folder = run_in(tmp_path, point({}, NEAR))
    left = files(folder)
    shutil.rmtree(folder)
    again, _ = run_in(tmp_path, point({}, NEAR))
    assert files(folder) == left
    assert again["followed"] is row["followed"] is None


def test_answers_come_from_several_records_and_an_unreadable_one_has_none(tmp_path):
    for number, (name, record) in enumerate([("one", {b"a": 1}), ("two", {b"b": 2}), ("three", {b"c": 3})]):
        save(tmp_path, "root", name, record)
        moment = time.time_ns() - 10**9 * (9 - number)
        os.utime(tmp_path / RECORDS / "root" / name, ns=(moment, moment))
    (tmp_path / RECORDS / "root" / "two").write_bytes(b"torn")
    answers = FollowedAnswers(tmp_path, "root")
    assert answers.points == ["one"]
    assert answers[b"c"] == 3
    assert answers[b"a"] == 1
    assert answers.points == ["one", "three"]
    with pytest.raises(KeyError):
        answers[b"b"]
    (tmp_path / RECORDS / "root" / "one").write_bytes(b"torn")
    assert FollowedAnswers(tmp_path, "root").points == ["three"]
    (tmp_path / RECORDS / "root" / "three").unlink()
    assert not FollowedAnswers(tmp_path, "root")
    assert not FollowedAnswers(tmp_path, "")
    assert not FollowedAnswers(tmp_path, "another")


CHANGES = {
    "seed": {"seed": 12},
    "learning rate": {"training__lr": 0.04},
    "an option of the algorithm": {"algorithm": {"name": "fedavg", "weight_by": "train"}},
    "the aggregation": {"aggregation": "median"},
    "split": {"data__split": {"train": 0.3, "val": 0.2, "test": 0.5}},
    "clients": {"clients__count": 4},
    "codec": {"network__codec": {"up": "half"}},
    "forgers": {"network__effects": [same_points.FLIP]},
    "metrics": {"measure__metrics": ["accuracy"]},
    "protocol": {"protocol": same_points.SYNC},
    "privacy": {"privacy": {"clip": 0.5, "noise": 0.3}},
    "threads": {"threads": 2},
    "a target on the fixed test, which is then scored": {"measure__target": 0.5},
}
CLOCK = {
    "links": {"network__uplink": "1 Mbit/s", "network__server": {}},
    "speed": {"clients__speed": "1 GFLOP/s"},
    "server": {"server": {"speed": "1 GFLOP/s"}},
    "churn": {"network__effects": [same_points.CHURN]},
    "target": {"measure__target": 0.5, "measure__target_on": "each_period"},
    "every": {"measure__every": "2 s"},
    "name": {"name": "another"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_learning_depends_on_changes_the_root(name):
    assert learning_key_of(point(CHANGES[name], NEAR).scenario) != learning_key_of(point({}, NEAR).scenario)


@pytest.mark.parametrize("name", CLOCK)
def test_what_only_the_clock_depends_on_does_not(name):
    assert learning_key_of(point(CLOCK[name], FAR).scenario) == learning_key_of(point({}, NEAR).scenario) != ""


def test_the_place_of_a_forging_effect_counts_since_it_names_what_is_drawn():
    early, late = [same_points.FLIP, same_points.CHURN], [same_points.CHURN, same_points.FLIP]
    one, other = (learning_key_of(point({"network__effects": effects}, NEAR).scenario) for effects in (early, late))
    assert one != other


def test_points_with_views_and_points_that_learn_nothing_have_no_root():
    assert not learning_key_of(point({"measure__views": True}, NEAR).scenario)
    assert not learning_key_of(small_points.scenario(**same_points.TRAFFIC))


def test_a_record_is_read_once_by_the_points_of_a_process_that_follow_it(tmp_path, monkeypatch):
    save(tmp_path, "root", "one", {b"a": 1})
    read = []
    monkeypatch.setattr(following, "unpacked", lambda data: read.append(data) or recorded.unpacked(data))
    assert FollowedAnswers(tmp_path, "root") == FollowedAnswers(tmp_path, "root")
    assert len(read) == 1


def test_a_follower_logs_what_the_algorithm_logged_while_it_learned(tmp_path, monkeypatch):
    update = FedAvg.update

    def heard(self, state, replies, step):
        logging.getLogger("algorithms.fedavg").warning("%d replies", len(replies))
        return update(self, state, replies, step)

    monkeypatch.setattr(FedAvg, "update", heard)
    _, first = run_in(tmp_path, point({}, NEAR))
    row, second = run_in(tmp_path, point({}, FAR))
    assert row["followed"]
    lines = [(folder / "run.log").read_text().splitlines() for folder in (first, second)]
    assert [line for line in lines[1] if "replies" in line] == ["WARNING algorithms.fedavg: 4 replies"] * 5
    assert [line for line in lines[0] if "bytes:" not in line] == [line for line in lines[1] if "bytes:" not in line]


def test_a_point_that_has_a_checkpoint_resumes_from_it_and_follows_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARE", 0)
    far = point({}, FAR)
    folder = tmp_path / far.id
    folder.mkdir()

    def stopped(progress):
        if path_in(folder).is_file():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(far, folder, folder, stopped, 0.0)
    run_in(tmp_path, point({}, NEAR))
    assert run(far, folder, folder, lambda progress: None)["followed"] is None

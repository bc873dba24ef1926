"""Views: what clients of a run have received, by DG-CoLearn in particular; what is there, and what is not."""

import csv
import json

import numpy as np
import pytest
import simpy
import torch
from small_points import TABLES, run_in, scenario, table

from fedsim.core.wire import Spec
from fedsim.learner.checkpoint import preserve
from fedsim.learner.views import Views
from fedsim.net import masking
from fedsim.net.message import Message
from fedsim.point.build.prepared import periods_of

pytestmark = pytest.mark.long

CLIENTS = 3
EXCHANGED = ("embed", "correct")
CHANGING = {
    "data": {
        "dataset": {"name": "drifting", "nodes": 60, "edges": 70, "classes": 3, "features": 5, "snapshots": 4},
        "partition": "random",
        "stream": {"name": "snapshots", "steps": 4, "every": "3 updates"},
    },
    "model": {"name": "roland", "hidden": 4, "norm": "sum"},
    "clients": {"count": CLIENTS, "speed": "lognormal(100 kFLOP/s, 0.5)"},
    "protocol": {"name": "sync", "rounds": 6, "participation": 1.0},
    "measure": {"metrics": ["accuracy"], "views": True},
}


def colearn(**options):
    return {**CHANGING, "algorithm": {"name": "dg_colearn", "rounds": 3, **options}}


def views_in(folder):
    """The rows of the index, each with its array."""
    arrays = {client: np.load(folder / "views" / f"client_{client}.npz") for client in range(CLIENTS)}
    with (folder / "views" / "views.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [{**row, "client": int(row["client"]), "array": arrays[int(row["client"])][row["number"]]} for row in rows]


def messages(rows):
    """The parts that came together, by client, time and kind: path to array."""
    found = {}
    for row in rows:
        found.setdefault((row["client"], float(row["time"]), row["kind"]), {})[row["path"]] = row["array"]
    return found


def known(changes):
    made = scenario(**changes)
    key = json.dumps(made.data.model_dump(mode="json"), sort_keys=True)
    return periods_of(key, CLIENTS, made.seed, None, "cpu")


def test_the_index_tells_of_every_array_and_the_bytes_are_those_of_the_messages(tmp_path):
    run_in(tmp_path / "run", **colearn())
    rows, moved = views_in(tmp_path / "run"), table(tmp_path / "run", "transfers")
    for row in rows:
        assert row["shape"] == "x".join(map(str, row["array"].shape))
        assert row["array"].dtype.name == row["dtype"]
        assert row["array"].nbytes == int(row["bytes"])
    arrived = {(each["dst"], each["arrived"], each["kind"]): each["nbytes"] for each in moved if each["dst"] >= 0}
    got = messages(rows)
    assert got.keys() == arrived.keys()
    for key, parts in got.items():
        values = sum(array.nbytes for array in parts.values())
        assert values < arrived[key] < values + 800  # names and shapes come on top
    for client in range(CLIENTS):
        numbers = [int(row["number"]) for row in rows if row["client"] == client]
        assert numbers == list(range(len(numbers)))


def test_a_client_receives_the_model_and_rows_of_its_own_nodes_and_nothing_else(tmp_path):
    changes = colearn()
    run_in(tmp_path / "run", **changes)
    overview, seen = known(changes).overview, set()
    for (client, _, kind), parts in messages(views_in(tmp_path / "run")).items():
        seen.add(kind)
        if kind == "train":
            others = {path for path in parts if not path.startswith("model/")}
            assert others == {"period", "round"}
            assert len(parts) > 4
            continue
        names = {"embed": {"period", "ids", "heard"}, "correct": {"period", "ids", "delta1", "far"}}
        assert parts.keys() == names[kind]  # no labels, no edges, nobody else's number
        ids, owner = parts["ids"], overview.owners[int(parts["period"])]
        assert len(ids) > 0
        assert (owner[ids] == client).all()
        if kind == "correct":
            assert parts["delta1"].shape == parts["far"].shape == (len(ids), 5)
    assert seen == {"train", *EXCHANGED}


def lone(changes):
    """For each node with a single neighbour elsewhere in the first snapshot: that neighbour's features."""
    overview = known(changes).overview
    snapshot, owner = overview.snapshots[0], torch.from_numpy(overview.owners[0])
    source, target = snapshot["edges"]
    crosses = (owner[source] != owner[target]) & (owner[source] >= 0) & (owner[target] >= 0)
    foreign = torch.bincount(target[crosses], minlength=len(owner))
    return {
        node: snapshot["x"][source[crosses & (target == node)][0]].numpy()
        for node in (foreign == 1).nonzero().squeeze(1).tolist()
    }


@pytest.mark.parametrize("k_min", [1, 2])
def test_one_neighbour_elsewhere_is_given_away_unless_sums_must_have_two(tmp_path, k_min):
    changes = colearn(k_min=k_min)
    run_in(tmp_path / "run", **changes)
    secrets, given = lone(changes), {}
    for (_, _, kind), parts in messages(views_in(tmp_path / "run")).items():
        if kind == "correct" and parts["period"] == 0:
            given |= dict(zip(parts["ids"].tolist(), parts["delta1"], strict=True))
    assert len(secrets) > 5
    assert secrets.keys() <= given.keys()
    for node, features in secrets.items():
        if k_min == 1:
            np.testing.assert_array_equal(given[node], features)
        else:
            assert not given[node].any()
    if k_min == 2:  # nor anywhere else
        values = np.concatenate(
            [row["array"].ravel() for row in views_in(tmp_path / "run") if row["kind"] == "correct"]
        )
        assert not np.isin(np.stack(list(secrets.values())).ravel(), values).any()


def test_strict_corrections_are_about_all_affected_nodes(tmp_path):
    changes = colearn(privacy="strict")
    run_in(tmp_path / "run", **changes)
    periods = known(changes).periods
    for (client, _, kind), parts in messages(views_in(tmp_path / "run")).items():
        if kind in EXCHANGED and parts["period"] == 0:
            assert parts["ids"].tolist() == periods[client][0].graph["node"].tolist()


@pytest.mark.parametrize("protocol", ["sync", "gossip"])
def test_to_be_watched_changes_nothing_and_is_off_by_default(tmp_path, protocol):
    changes = {} if protocol == "sync" else {"protocol": {"name": "gossip", "rounds": 2}}
    if protocol == "gossip":
        changes["network__topology"] = {"name": "peers", "graph": "ring"}
    run_in(tmp_path / "plain", **changes)
    run_in(tmp_path / "watched", **changes, measure__views=True)
    assert not (tmp_path / "plain" / "views").exists()
    with (tmp_path / "watched" / "views" / "views.csv").open(newline="") as file:
        kinds = {row["kind"] for row in csv.DictReader(file)}
    assert kinds == {"train" if protocol == "sync" else "share"}
    for name in TABLES:
        one, other = (table(tmp_path / folder, name) for folder in ("plain", "watched"))
        assert len(one) == len(other)
        for mine, its in zip(one, other, strict=True):
            assert {
                key: value if isinstance(value, str) else pytest.approx(value) for key, value in its.items()
            } == mine


@pytest.mark.parametrize("exchange", ["exact", "layerwise", "fedgcn"])
def test_clients_that_were_away_train_beside_those_that_were_told(tmp_path, exchange):
    """Degrees of the whole graph are told in an exchange, which some have missed."""
    protocol = {"name": "sync", "rounds": 6, "participation": 0.6}
    away = colearn(exchange=exchange) | {"protocol": protocol, "model": {**CHANGING["model"], "norm": "mean"}}
    run_in(tmp_path / "run", **away)
    steps = [row["step"] for row in table(tmp_path / "run", "updates")]
    assert steps.count("train") == 6
    assert "correct" in steps


def test_what_was_recorded_comes_back_from_a_checkpoint_which_keeps_what_all_share_once(tmp_path):
    shared, own = torch.arange(6_000.0).reshape(60, 100).T, np.asfortranarray(np.eye(3))
    contents = {
        "model": {"model": shared, "round": 1},
        "more": {"own": own, "size": Spec((2,), "uint8")},
        "own": {"own": own},
    }

    def sent(client, what):
        return Message.carrying(-1, client, "train", 0, 0, (what, None))

    first, again = (Views(simpy.Environment(), contents.__getitem__) for _ in range(2))
    for client in range(10):
        first.record(sent(client, "model"))
    first.record(sent(0, "more"))
    packed = preserve.pack(first.notes(), preserve.DataGraphs([]))
    assert len(packed) < 2 * 4 * 6_000
    again.wake(preserve.unpack(packed, preserve.DataGraphs([])))
    for name, views in (("first", first), ("again", again)):
        views.record(sent(0, "own"))
        (tmp_path / name).mkdir()
        views.close(tmp_path / name)
    written = [
        {path.name: path.read_bytes() for path in tmp_path.glob(f"{name}/views/*")} for name in ("first", "again")
    ]
    assert len(written[0]) == 11
    assert written[0] == written[1]


def test_what_masking_sends_beside_a_download_is_recorded_too():
    beside, masks = {"keys": [b"ab", b"c"], "of": 2}, Views(simpy.Environment(), {"plain": {"n": 1}}.__getitem__)
    coded = Views(simpy.Environment(), {"coded": [{"n": 1}, [2.0]]}.__getitem__)
    masks.record(Message.carrying(-1, 0, "train", 0, 0, ("plain", beside)))
    masks.record(Message.carrying(-1, 0, "masks:keys", 0, 0, (None, {masking.BESIDE: beside})))
    coded.record(Message.carrying(-1, 0, "train", 0, 0, ("coded", beside)))
    own = [f"{masking.BESIDE}/{path}" for path in ("keys/0", "keys/1", "of")]
    assert [row[4] for row in masks.notes()[0]] == ["n", *own, *own]
    assert [row[4] for row in coded.notes()[0]] == ["0/n", *(f"0/{path}" for path in own), "1/0"]
    masks.record(Message.carrying(0, -1, "train", 0))  # what a client sends is not what it receives
    assert len(masks.notes()[0]) == 4 + len(own)


@pytest.mark.parametrize("codec", [None, "half"])
def test_masking_in_a_run_is_recorded_as_it_travels_with_the_bytes_of_its_messages(tmp_path, codec):
    changes = {"privacy": {"secure_aggregation": True}, "network__codec": {"down": codec}, "measure__views": True}
    run_in(tmp_path / "run", **changes)
    with (tmp_path / "run" / "views" / "views.csv").open(newline="") as file:
        paths = {(row["kind"], row["path"]) for row in csv.DictReader(file)}
    inside = "0/" if codec else ""  # what a codec has encoded begins with the tree that it kept
    assert {("shares", f"{inside}masking/keys"), ("train", f"{inside}masking/sealed")} <= paths
    assert {("unmask", f"{inside}masking/{name}") for name in ("alive", "of")} <= paths
    assert (("unmask", "1") in paths) == bool(codec)

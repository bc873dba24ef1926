"""A deployed run learns what the simulated one does, bit for bit, and writes tables of the same kind.

The carrier stays within the process (`deploy_here.py`); `test_flower.py` has the real one.
"""

import pytest
import small_points
from deploy_here import deploy

from fedsim.core.errors import UserError
from fedsim.deploy.__main__ import check_deployable
from fedsim.deploy.host import ClientFault
from fedsim.deploy.run import packages
from fedsim.deploy.worker import Worker
from fedsim.point.build.parts import Parts
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

KEYS = ("version", "client", "period", "seen", "model", "split", "metric")
ROUNDED = {"target": 2}  # scores that may differ: an array arrives row by row, and products of it sum in another order
SILENT = [name for name in find.names("algorithm") if not find.find("algorithm", Part(name=name), name).talks]
EVERY = [name for name in find.names("algorithm") if find.find("algorithm", Part(name=name), name).learns]
FEW = ("fedavg", "power", "ghost")
NAMES = [name if name in FEW else pytest.param(name, marks=pytest.mark.long) for name in EVERY]


def scores(folder):
    return {tuple(row[key] for key in KEYS): row["value"] for row in small_points.table(folder, "scores")}


def both(tmp_path, **changes):
    """The rows of a point, simulated one client at a time, and deployed; and the carrier."""
    changes = {"cohort": {"mode": "loop"}, **changes}
    simulated = small_points.run_in(tmp_path / "simulated", **changes)
    row, post = deploy(tmp_path / "deployed", small_points.point(**changes))
    return simulated, row, post


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_is_the_same(name, tmp_path):
    if name in SILENT:
        pytest.skip("nothing of it travels")
    changes = {"protocol": {"name": "one_shot"}} if name == "ghost" else {}
    simulated, row, _ = both(tmp_path, algorithm={"name": name, **small_points.CHEAPER.get(name, {})}, **changes)
    here, there = scores(tmp_path / "deployed"), scores(tmp_path / "simulated")
    assert here.keys() == there.keys()
    assert sum(here[key] != there[key] for key in here) <= ROUNDED.get(name, 0)
    assert len({*here.values()}) > 4
    assert [row[key] for key in ("bytes_up", "bytes_down", "updates")] != [0, 0, 0]
    assert row["updates"] == simulated["updates"]


@pytest.mark.parametrize("codec", [{"up": "int8"}, {"up": {"name": "top_k", "share": 0.2}, "down": "half"}])
def test_compressed_messages_have_the_bytes_that_are_simulated(codec, tmp_path):
    both(tmp_path, network={**small_points.PLAIN["network"], "codec": codec})
    sizes = [
        sorted((row["src"], row["dst"], row["kind"], row["nbytes"]) for row in small_points.table(folder, "transfers"))
        for folder in (tmp_path / "simulated", tmp_path / "deployed")
    ]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 30


def test_the_tables_tell_who_was_asked_and_when(tmp_path):
    simulated, row, _ = both(tmp_path, measure={**small_points.PLAIN["measure"], "every": "2 updates"})
    asked = [
        [(line["kind"], line["src"], line["dst"], line["version"], line["nbytes"], line["fate"]) for line in lines]
        for lines in (
            sorted(
                small_points.table(folder, "transfers"), key=lambda line: (line["version"], line["src"], line["dst"])
            )
            for folder in (tmp_path / "simulated", tmp_path / "deployed")
        )
    ]
    assert asked[0] == asked[1]
    for line in small_points.table(tmp_path / "deployed", "transfers"):
        assert 0 <= line["sent"] <= line["arrived"] <= row["sim_seconds"]
    spans = small_points.table(tmp_path / "deployed", "spans")
    assert {"train", "serve"} <= {span["what"] for span in spans}
    assert all(span["start"] <= span["end"] for span in spans)
    updates = small_points.table(tmp_path / "deployed", "updates")
    assert [line["version"] for line in updates] == [1, 2, 3, 4, 5]
    assert [line["time"] for line in updates] == sorted(line["time"] for line in updates)
    assert row["score"] == simulated["score"]


def test_a_client_that_is_gone_is_lost_and_the_rest_goes_on(tmp_path):
    row, _ = deploy(tmp_path / "run", small_points.point(), gone=[1])
    updates = small_points.table(tmp_path / "run", "updates")
    assert sum(line["lost"] for line in updates) == row["lost"] > 0
    assert all(line["folded"] == 3 - line["lost"] for line in updates)
    lost = [line for line in small_points.table(tmp_path / "run", "transfers") if line["fate"] == "lost"]
    assert {line["dst"] for line in lost} == {1}
    assert row["provenance"]["faults"][0] == "client 1: it is gone"


def test_where_nobody_can_work_the_run_says_why(tmp_path):
    with pytest.raises(UserError, match="no client could do its work; the first said: client 0: it is gone"):
        deploy(tmp_path / "run", small_points.point(), gone=range(5))


def test_who_is_later_than_the_deadline_does_not_count(tmp_path):
    protocol = {"name": "deadline", "rounds": 2, "clients": 5, "wait": "1 s"}
    row, _ = deploy(tmp_path / "run", small_points.point(protocol=protocol), slow={2: 1.5})
    updates = small_points.table(tmp_path / "run", "updates")
    assert (updates[0]["folded"], updates[0]["late"]) == (4, 1)
    assert 1.0 <= updates[0]["time"] < 1.5
    transfers = small_points.table(tmp_path / "run", "transfers")
    of_slow = [line for line in transfers if 2 in (line["src"], line["dst"])]
    assert {line["fate"] for line in of_slow if line["src"] == 2} <= {"late", "cut"}
    assert of_slow  # asked; how many of its answers come before the run ends depends on this machine
    assert row["late"] >= 1
    assert len(transfers) - len(of_slow) == 2 * 2 * 4


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"protocol": {"name": "buffered", "rounds": 3, "buffer": 2, "clients": 3}}, "protocol"),
        ({"algorithm": "local"}, "algorithm"),
        ({"network__effects": [{"name": "byzantine", "clients": [0], "attack": "sign_flip"}]}, "network.effects.0"),
        ({"measure": {"until": {"updates": 2}}}, "measure.until"),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_its_key(changes, key):
    with pytest.raises(UserError) as caught:
        check_deployable(Parts(small_points.scenario(**changes)))
    assert str(caught.value).startswith(f"{key}: ")


def test_a_fault_of_a_client_is_shown_and_not_taken_for_a_loss(tmp_path, monkeypatch):
    def broken(self, asked, received, up):
        raise ZeroDivisionError("no node")

    monkeypatch.setattr(Worker, "_work", broken)
    with pytest.raises(ClientFault, match=r"client \d has failed: ZeroDivisionError: no node"):
        deploy(tmp_path / "run", small_points.point())


NUMBERED = {**small_points.PLAIN["data"], "stream": {"name": "static", "numbered": True}}
CHANGING = {
    "dataset": {"name": "drifting", "nodes": 120, "edges": 400, "classes": 3, "snapshots": 5, "features": 8},
    "partition": "random",
    "stream": {"name": "snapshots", "steps": 4, "every": "2 updates"},
}
ROLAND = {"name": "roland", "hidden": 4, "layers": 2, "dropout": 0}


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ({"name": "fed_gcn", "hops": 1}, {"data": NUMBERED}),
        pytest.param({"name": "fed_gcn", "hops": 2}, {"data": NUMBERED}, marks=pytest.mark.long),
        ({"name": "llcg", "corrections": 1, "data": "uploaded"}, {"data": NUMBERED}),
        pytest.param({"name": "llcg", "corrections": 1, "data": "known"}, {"data": NUMBERED}, marks=pytest.mark.long),
        ("dg_colearn", {"data": CHANGING, "model": ROLAND}),
        pytest.param("fedavg", {"data": CHANGING}, marks=pytest.mark.long),
    ],
)
def test_edges_between_clients_are_used_as_in_simulation(algorithm, changes, tmp_path):
    simulated, row, _ = both(tmp_path, algorithm=algorithm, **changes)
    assert scores(tmp_path / "deployed") == scores(tmp_path / "simulated")
    assert row["updates"] == simulated["updates"]
    cuts = [small_points.table(tmp_path / name, "partitions") for name in ("deployed", "simulated")]
    assert [{**one, "time": 0} for one in cuts[0]] == [{**one, "time": 0} for one in cuts[1]]


def test_a_client_knows_no_edges_but_its_own(tmp_path):
    point = small_points.point(data=NUMBERED)
    owns = packages(point.scenario, tmp_path)
    sides = []
    for own in owns:
        (known,) = own.known
        mine = {*known["node"][known["owner"] == own.client].tolist()}
        edges = [tuple(edge) for edge in known["edges"].T.tolist()]
        assert all(mine & {*edge} for edge in edges)
        assert {*known["node"].tolist()} == mine | {end for edge in edges for end in edge}
        sides.append({edge for edge in edges if not {*edge} <= mine})
    assert sum(map(len, sides)) == 2 * len(set.union(*sides))  # each cut edge is known at both of its ends
    assert set.union(*sides)


def test_nodes_that_change_owners_are_refused(tmp_path):
    data = {**CHANGING, "partition": {"name": "louvain", "each_snapshot": True}}
    with pytest.raises(UserError, match=r"data\.partition: nodes get other owners"):
        deploy(tmp_path / "run", small_points.point(data=data, model=ROLAND, algorithm="dg_colearn"))


def test_what_a_codec_leaves_out_is_kept_until_the_next_job(tmp_path):
    codec = {"up": {"name": "top_k", "share": 0.2}}  # draws nothing, so that both must be equal
    both(tmp_path, network={**small_points.PLAIN["network"], "codec": codec})
    assert scores(tmp_path / "deployed") == scores(tmp_path / "simulated")

"""`partition: table`: owners as the table says, in whole runs too, and what is wrong told with line and mend."""

import json
from pathlib import Path

import numpy as np
import own_files
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedsim import __main__ as command_line
from fedsim import simulate
from fedsim.core.errors import UserError
from fedsim.data.graph import graph_of
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def assign(path, graph, clients, names=None, **options):
    partition = find.build("partition", Part(name="table", options={"file": path, **options}))
    return partition.with_names(lambda: names).assign(graph, clients, np.random.default_rng(0))


@pytest.fixture
def graph():
    return graph_of(torch.ones(4, 1), torch.tensor([[0, 1], [1, 0]]), torch.zeros(4))


@given(owners=st.lists(st.integers(-1, 3), min_size=6, max_size=20).filter(lambda own: {0, 1, 2, 3} <= {*own}))
def test_each_client_has_the_nodes_of_its_rows(tmp_path_factory, owners):
    graph = graph_of(torch.ones(len(owners), 1), torch.zeros(2, 0), torch.zeros(len(owners)))
    path = tmp_path_factory.mktemp("owners") / "owner.csv"
    own_files.table(path, [{"node": v, "client": own} for v, own in enumerate(owners) if own >= 0][::-1])
    found = assign(path, graph, 4, unlisted="unowned")
    assert [part.tolist() for part in found] == [[v for v, own in enumerate(owners) if own == k] for k in range(4)]


def test_clients_may_have_names_and_nodes_ids(tmp_path, graph):
    own_files.table(
        tmp_path / "owner.csv", [{"client": c, "node": v} for v, c in zip("dbca", ["Ulm", "Bonn"] * 2, strict=True)]
    )
    found = assign(tmp_path / "owner.csv", graph, 2, names=[*"abcd"])
    assert [part.tolist() for part in found] == [[2, 3], [0, 1]]


WRONG = {
    "unknown": ("0,0\n9,1\n", {}, r"line 3: column 'node': there is no node '9' .*row numbers 0 … 3"),
    "no id": (
        "a,0\nz,1\n",
        {"names": [*"abcd"]},
        r"line 3: column 'node': there is no node 'z' .*it has no such id",
    ),
    "twice": ("0,0\n1,1\n0,1\n2,0\n3,0\n", {}, r"line 2: the node '0' has another row in line 4; keep one"),
    "missing": ("0,0\n3,1\n", {}, "2 of 4 nodes have no row, the first is 1; add them, or write unlisted: unowned"),
    "no id missing": ("a,0\nd,1\n", {"names": [*"abcd"]}, "2 of 4 nodes have no row, the first is 'b'"),
    "too many": ("0,0\n1,1\n2,2\n", {}, "line 4: column 'client': there is no client 2, because clients.count is 2"),
    "negative": ("0,0\n1,-1\n", {}, "line 3: column 'client': there is no client -1"),
    "idle": (
        "0,0\n1,0\n2,0\n3,0\n",
        {},
        "clients.count: client 1 owns no node in .*owner.csv, and clients.count is 2",
    ),
    "names": ("0,a\n1,b\n2,c\n3,a\n", {}, "clients.count: .*owner.csv names 3 clients, and clients.count is 2; write"),
    "empty": ("0,0\n1,\n", {}, "line 3: column 'client': an empty cell; write a text"),
    "none": ("", {}, "a header without rows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_table_that_does_not_fit_is_reported(tmp_path, graph, case):
    rows, options, told = WRONG[case]
    (tmp_path / "owner.csv").write_text(f"node,client\n{rows}")
    with pytest.raises(UserError, match=told) as wrong:
        assign(tmp_path / "owner.csv", graph, 2, **options)
    assert str(tmp_path / "owner.csv") in str(wrong.value)


RUN = {
    "name": "own",
    "data": {
        "dataset": "", "partition": {"name": "table", "file": "owner.csv"},
        "split": {"by": "given"},
    },
    "model": {"name": "gcn", "hidden": 4},
    "training": {"optimiser": "adam", "lr": 0.02},
    "clients": {"count": 3, "speed": "1 GFLOP/s"},
    "network": {"uplink": "8 Mbit/s", "downlink": "8 Mbit/s", "latency": "10 ms"},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
    "algorithm": "fedavg",
}  # fmt: skip


@pytest.mark.long
def test_the_same_graph_in_each_format_gives_the_same_tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = own_files.drawn(30)
    ids, _ = own_files.named(arrays)
    tables = []
    for kind in ("npz", "pt", "graphml", "csv"):
        names = ids if kind in ("graphml", "csv") else range(30)
        own_files.table(Path("owner.csv"), [{"node": name, "client": f"c{v % 3}"} for v, name in enumerate(names)])
        part = own_files.write(Path(), arrays, kind)
        scenario = {**RUN, "data": {**RUN["data"], "dataset": part}}
        result = simulate(scenario, progress=False, out=f"runs/{kind}")
        tables.append({name: result.table(name).drop(columns="run") for name in ("scores", "updates", "transfers")})
    assert len(tables[0]["scores"])
    for others in tables[1:]:
        assert all(tables[0][name].equals(others[name]) for name in tables[0])


def test_given_masks_are_those_that_are_scored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = own_files.drawn(30)
    own_files.table(Path("owner.csv"), [{"node": v, "client": v % 3} for v in range(30)])
    part = own_files.write(Path(), arrays, "npz")
    result = simulate({**RUN, "data": {**RUN["data"], "dataset": part}}, progress=False)
    last = result.scores.query("split == 'test' and version == 2")
    assert last.set_index("client")["weight"].to_dict() == {k: arrays["test_mask"][k::3].sum() for k in range(3)}


def test_a_split_that_the_data_set_does_not_have_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"data\.split\.by: the data set has no nodes to train on"):
        simulate(
            {**RUN, "data": {"dataset": "digits", "partition": "random", "split": {"by": "given"}}}, progress=False
        )
    with pytest.raises(UserError, match="numpy_seed divides class by class; leave it out, or 'by: given'"):
        simulate({**RUN, "data": {**RUN["data"], "split": {"by": "given", "numpy_seed": 1}}}, progress=False)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("edges.csv", "source,target\npaper 00,nowhere\n", "line 2: column 'target': there is no node 'nowhere'"),
        ("owner.csv", "node,client\n0,0\n", "owner.csv, line 2: column 'node': there is no node '0'"),
        ("nodes.csv", "id,label\n", "nodes.csv: a header without rows"),
    ],
)
def test_the_command_line_ends_with_2_and_one_message(tmp_path, monkeypatch, capsys, name, content, message):
    monkeypatch.chdir(tmp_path)
    part = own_files.write(tmp_path, own_files.drawn(), "csv")
    own_files.table(Path("owner.csv"), [{"node": f"paper {v}", "client": v % 3} for v in range(12)])
    (tmp_path / name).write_text(content)
    scenario = {**RUN, "data": {**RUN["data"], "dataset": {**part, "file": "edges.csv", "nodes": "nodes.csv"}}}
    Path("own.yaml").write_text(json.dumps(scenario), encoding="utf-8")
    assert command_line.main(["own.yaml", "--no-report", "--jobs", "1"]) == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert "Traceback" not in printed.err
    assert not Path("runs").exists()


def test_a_table_of_owners_holds_for_all_snapshots(tmp_path):
    n = 9
    whole = graph_of(torch.ones(n, 1), torch.zeros(2, 0), torch.zeros(n))
    path = tmp_path / "owner.csv"
    own_files.table(path, [{"node": v, "client": v % 2} for v in range(n)])
    early = {**whole, "arrived": torch.arange(n) < n // 2}
    late = {**whole, "arrived": torch.ones(n, dtype=torch.bool)}
    partition = find.build("partition", Part(name="table", options={"file": path}))
    first, second = partition.follow([early, late], 2, np.random.default_rng(0))
    assert [own.tolist() for own in second] == [list(range(0, n, 2)), list(range(1, n, 2))]
    assert [own.tolist() for own in first] == [[v for v in own.tolist() if v < n // 2] for own in second]

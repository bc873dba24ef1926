"""`dataset: file`: every format gives the same graph, and whatever is wrong is told with its place and mend."""

from pathlib import Path

import networkx as nx
import numpy as np
import own_files
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.errors import UserError
from fedsim.data.files import own_tables, raw
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

FORMATS = ("npz", "pt", "data.pt", "graphml", "csv")


def load(**options):
    return find.build("dataset", Part(name="file", options=options)).load(Path(), 0)


def same(one, two):
    return set(one) == set(two) and all(one[key].dtype == two[key].dtype and one[key].equal(two[key]) for key in one)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_graph_is_read_as_it_was_written(tmp_path, kind):
    arrays = own_files.drawn()
    part = own_files.write(tmp_path, arrays, kind)
    part.pop("name")
    graph = load(**part)
    assert graph["x"].numpy().tolist() == arrays["x"].tolist()
    assert graph["y"].tolist() == arrays["y"].tolist()
    both = {(a, b) for pair in arrays["edge_index"].T.tolist() for a, b in (pair, pair[::-1])}
    assert {tuple(edge) for edge in graph["edges"].T.tolist()} == both
    assert graph["edges"].shape[1] == len(both)
    for name in ("train", "val", "test"):
        assert graph[name].tolist() == arrays[f"{name}_mask"].tolist()


@settings(max_examples=15, deadline=None)
@given(nodes=st.integers(6, 30), seed=st.integers(0, 99), features=st.integers(1, 6), classes=st.integers(1, 5))
def test_all_formats_give_the_same_graph(tmp_path_factory, nodes, seed, features, classes):
    arrays = own_files.drawn(nodes, seed, features, classes)
    folder = tmp_path_factory.mktemp("formats")
    found = []
    for kind in FORMATS:
        part = own_files.write(folder, arrays, kind)
        found.append(load(**{key: value for key, value in part.items() if key != "name"}))
    assert all(same(found[0], other) for other in found[1:])


def test_edges_may_be_rows_and_masks_may_have_short_names(tmp_path):
    arrays = own_files.drawn()
    np.savez(tmp_path / "one.npz", **arrays)
    short = {name.removesuffix("_mask"): array for name, array in arrays.items()}
    short["edges"] = short.pop("edge_index").T
    np.savez(tmp_path / "two.npz", **short)
    assert same(load(file=tmp_path / "one.npz"), load(file=tmp_path / "two.npz"))


def test_an_edge_counts_once_in_both_directions_whatever_is_written(tmp_path):
    one = own_files.drawn()
    twice = {**one, "edge_index": np.concatenate([one["edge_index"], one["edge_index"][::-1], [[3], [3]]], axis=1)}
    np.savez(tmp_path / "one.npz", **one)
    np.savez(tmp_path / "two.npz", **twice)
    assert same(load(file=tmp_path / "one.npz"), load(file=tmp_path / "two.npz"))


def test_labels_that_are_texts_are_numbered_by_alphabet(tmp_path):
    arrays = own_files.drawn()
    np.savez(tmp_path / "graph.npz", **{**arrays, "y": np.array(["a", "b", "", "c"] * 3)})
    assert load(file=tmp_path / "graph.npz")["y"].tolist() == [0, 1, -1, 2] * 3


def test_labels_with_gaps_close_them_and_unlabelled_nodes_stay_so(tmp_path):
    arrays = own_files.drawn()
    np.savez(tmp_path / "graph.npz", **{**arrays, "y": np.array([10, 20, -1, 30] * 3)[:, None]})
    assert load(file=tmp_path / "graph.npz")["y"].tolist() == [0, 1, -1, 2] * 3


@given(st.lists(st.one_of(st.just(""), st.integers(-1, 50).map(str), st.integers(0, 9).map("{}.0".format)), min_size=1))
def test_whole_numbers_as_texts_are_the_same_classes_as_whole_numbers(cells):
    whole = np.array([int(float(cell)) if cell else -1 for cell in cells])
    assert raw.numbered(raw.from_texts(cells)).tolist() == raw.numbered(whole).tolist()


@given(st.lists(st.text("abc", max_size=2), min_size=1))
def test_class_numbers_keep_the_order_of_texts_and_leave_no_gap(cells):
    numbers = raw.numbered(np.array(cells, dtype=np.str_))
    assert all((number == -1) == (cell == "") for number, cell in zip(numbers, cells, strict=True))
    assert sorted(set(numbers.tolist()) - {-1}) == list(range(len({*cells} - {""})))
    for a, one in zip(cells, numbers, strict=True):
        assert all((a < b) == (one < two) for b, two in zip(cells, numbers, strict=True) if a and b)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=6).map(str.strip)


@settings(max_examples=30, deadline=None)
@given(ids=st.lists(TEXTS.filter(bool), min_size=3, max_size=8, unique=True), data=st.data())
def test_ids_may_be_any_texts(tmp_path_factory, ids, data):
    folder = tmp_path_factory.mktemp("ids")
    ends = st.sampled_from(range(len(ids)))
    pairs = data.draw(st.lists(st.tuples(ends, ends), min_size=1, max_size=9))
    rows = [{"id": name, "label": number % 2, "size": number / 3} for number, name in enumerate(ids)]
    own_files.table(folder / "nodes.csv", rows)
    own_files.table(folder / "edges.csv", [{"source": ids[a], "target": ids[b]} for a, b in pairs])
    found = own_tables.from_tables(folder / "edges.csv", folder / "nodes.csv")
    assert found.edges.T.tolist() == [list(pair) for pair in pairs]
    assert found.x.tolist() == [[np.float32(number / 3)] for number in range(len(ids))]
    assert own_tables.ids(folder / "nodes.csv") == ids


def test_columns_can_be_chosen_renamed_and_left_out(tmp_path):
    own_files.table(
        tmp_path / "v.csv",
        [{"name": n, "kind": "ab"[n % 2], "0": n, "1": n * n, "note": "none"} for n in range(4)],
    )
    own_files.table(tmp_path / "e.csv", [{"source": n, "target": n + 1, "weight": 0.5} for n in range(3)])
    options = {"file": tmp_path / "e.csv", "nodes": tmp_path / "v.csv", "id": "name", "label": "kind"}
    left = load(**options, ignore=["note", "weight"])
    assert left["x"].tolist() == [[0, 0], [1, 1], [2, 4], [3, 9]]
    assert left["y"].tolist() == [0, 1, 0, 1]
    assert load(**options, features=["1"], ignore=["weight"])["x"].tolist() == [[0], [1], [4], [9]]


def test_attributes_of_graphml_can_be_chosen_and_left_out(tmp_path):
    graph = nx.path_graph(4)
    nx.set_node_attributes(graph, {n: {"kind": "ab"[n % 2], "a": n, "b": n * 0.5, "note": "none"} for n in graph})
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    left = load(file=tmp_path / "graph.graphml", label="kind", ignore=["note"])
    assert left["x"].tolist() == [[0, 0], [1, 0.5], [2, 1], [3, 1.5]]
    assert load(file=tmp_path / "graph.graphml", label="kind", features=["b"])["x"].shape == (4, 1)


def test_without_features_degrees_or_a_constant_stand_in(tmp_path):
    np.savez(tmp_path / "star.npz", edge_index=np.array([[0, 0, 0], [1, 2, 3]]), y=np.array([0, 1, 1, -1]))
    with pytest.raises(UserError, match=r"star\.npz: the nodes have no features; write missing_features: degree"):
        load(file=tmp_path / "star.npz")
    assert load(file=tmp_path / "star.npz", missing_features="constant")["x"].tolist() == [[1]] * 4
    degree = load(file=tmp_path / "star.npz", missing_features="degree")["x"]
    assert degree.tolist() == [[0, 1], [1, 0], [1, 0], [1, 0]]


def test_many_degrees_are_kept_sparse(tmp_path):
    pairs = [(a, b) for a in range(100) for b in range(a)]
    edges = np.array([(a, 100 + b) for a, b in pairs])
    np.savez(tmp_path / "steps.npz", edges=edges, y=np.zeros(200, dtype=int))
    x = load(file=tmp_path / "steps.npz", missing_features="degree")["x"]
    assert x.layout == torch.sparse_csr
    assert x.to_dense().sum(1).tolist() == [1.0] * 200


def test_a_graph_without_labels_says_so(tmp_path):
    np.savez(tmp_path / "graph.npz", edge_index=np.array([[0], [1]]), num_nodes=3)
    options = {"labelled": False, "missing_features": "constant"}
    assert load(file=tmp_path / "graph.npz", **options)["y"].tolist() == [-1, -1, -1]


ARRAYS = {
    "no x": ({"x": None, "y": None}, "lacks the array 'x'"),
    "no edges": ({"edge_index": None}, r"lacks the array 'edge_index' \(2, E\), or 'edges' \(E, 2\)"),
    "no labels": ({"y": None}, "lacks the array 'y', the labels.*or write labelled: false"),
    "both edges": ({"edges": np.zeros((1, 2), int)}, "has both 'edge_index' and 'edges'; keep one"),
    "turned": ({"edge_index": np.zeros((5, 2), int)}, r"'edge_index' has the shape \(5, 2\) and must be \(2, E\)"),
    "fractions": ({"edge_index": np.zeros((2, 5))}, "'edge_index' holds numbers with a fraction; edges are row"),
    "negative": ({"edge_index": np.array([[0, 1], [1, -3]])}, r"'edge_index', edge 1 ends at -3, and the 12 nodes"),
    "beyond": ({"edge_index": np.array([[0, 12], [1, 2]])}, "edge 1 ends at 12, and the 12 nodes are 0 … 11"),
    "flat x": ({"x": np.zeros(12)}, r"'x' has the shape \(12,\) and must be \(N, F\)"),
    "words": ({"x": np.array([["a"]] * 12)}, "'x' holds texts; features are numbers"),
    "nan": ({"x": np.where(np.arange(36) == 31, np.nan, 0).reshape(12, 3)}, "'x' is nan at row 10, column 1"),
    "huge": ({"x": np.full((12, 1), 1e300)}, "'x' is 1e.300 at row 0, column 0; features must be finite"),
    "short y": ({"y": np.zeros(7, int)}, r"'y' has the shape \(7,\) and must be \(12,\), a label for each row"),
    "wide y": ({"y": np.zeros((12, 3), int)}, r"'y' has the shape \(12, 3\) and must be \(12,\)"),
    "float y": ({"y": np.full(12, 0.5)}, "'y' holds numbers with a fraction; labels are whole numbers or texts"),
    "nan y": ({"y": np.full(12, np.nan)}, "'y' holds NaN or infinite numbers; labels are whole numbers or texts"),
    "negative y": ({"y": np.full(12, -2)}, "'y' is -2 at row 0; labels count from 0, and -1 means unlabelled"),
    "times": ({"edge_time": np.ones(24)}, r"'edge_time' is unknown .*write ignore: \[edge_time\]"),
    "long names": ({"features": np.ones((12, 2))}, r"'features' is unknown \(features are x, labels y, edges "),
    "two masks": ({"val_mask": np.ones(12, bool)}, "node .* is in two masks; keep it in one"),
    "short mask": ({"val_mask": np.ones(3, bool)}, r"'val_mask' has the shape \(3,\)"),
    "index mask": ({"val_mask": np.arange(12)}, "'val_mask' .*must be .*of true and false"),
    "empty": ({"x": np.zeros((0, 3)), "y": np.zeros(0, int), "edge_index": np.zeros((2, 0), int)}, "has no node"),
    "no edge": ({"edge_index": np.array([[1], [1]])}, "no edge joins two different nodes"),
    "no column": ({"x": np.zeros((12, 0))}, "'x' has no column; leave it out"),
}  # fmt: skip


def test_whole_labels_may_be_floats(tmp_path):
    arrays = own_files.drawn()
    for name, labels in (("whole", arrays["y"]), ("float", arrays["y"].astype(float))):
        np.savez(tmp_path / f"{name}.npz", **{**arrays, "y": labels})
    assert load(file=tmp_path / "float.npz")["y"].equal(load(file=tmp_path / "whole.npz")["y"])


@pytest.mark.parametrize("kind", ["npz", "pt"])
@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_do_not_fit_are_reported(tmp_path, kind, case):
    change, told = ARRAYS[case]
    arrays = {name: array for name, array in {**own_files.drawn(), **change}.items() if array is not None}
    if case in ("empty", "short y"):
        arrays = {name: array for name, array in arrays.items() if not name.endswith("mask")}
    if kind == "pt" and case == "words":
        return  # there is no tensor of texts
    path = tmp_path / f"graph.{kind}"
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        torch.save({name: torch.as_tensor(array) for name, array in arrays.items()}, path)
    with pytest.raises(UserError, match=told) as wrong:
        load(file=path)
    assert str(path) in str(wrong.value)


V, E = "id,label,size\na,0,1\nb,1,2\nc,0,3\n", "source,target\na,b\nb,c\n"
TABLES = {
    "unknown id": (V, "source,target\na,b\nb,cc\n", r"edges.csv, line 3: column 'target': there is no node 'cc'"),
    "twice": (V + "a,1,4\n", E, r"nodes.csv, line 5: column 'id': 'a' is in line 2 too; keep one"),
    "no id": (V + ",1,4\n", E, r"nodes.csv, line 5: column 'id': an empty cell"),
    "no label": ("id,size\na,1\n", E, r"nodes.csv, line 1: the column 'label' is missing; name the column"),
    "no column id": ("label,size\na,1\n", E, r"nodes.csv, line 1: the column 'id' is missing"),
    "fraction": (V + "d,0.5,4\n", E, r"nodes.csv, line 5: column 'label': 0.5 is not a label"),
    "negative": (V + "d,-4,4\n", E, r"nodes.csv, line 5: column 'label': -4 is not a label"),
    "nan": (V + "d,1,nan\n", E, r"nodes.csv, line 5: column 'size': 'nan' is not a number"),
    "huge": (V + "d,1,1e300\n", E, r"nodes.csv, line 5: column 'size': 1e\+300 is too large"),
    "no number": (V + "d,1,\n", E, r"nodes.csv, line 5: column 'size': an empty cell; write a number"),
    "split": ("id,label,size,split\na,0,1,tarin\n", E, r"column 'split': 'tarin' is not one of .*did you mean 'train'"),
    "weights": (V, "source,target,weight\na,b,1\n", r"edges.csv, line 1: there is no column 'weight'.*`ignore:`"),
    "no target": (V, "source\na\n", r"edges.csv, line 1: the column 'target' is missing"),
    "no node": ("id,label,size\n", E, r"nodes.csv: a header without rows"),
    "no edges": (V, "source,target\n", r"edges.csv: a header without rows"),
    "loops": (V, "source,target\na,a\n", r"edges.csv: no edge joins two different nodes"),
    "semicolons": (V.replace(",", ";"), E, r"nodes.csv, line 1: cells are separated by ';'; write commas"),
    "ragged": (V + "d,1\n", E, r"nodes.csv, line 5: 2 cells, but the header names 3 columns"),
    "not text": (V.encode("utf-16"), E, r"nodes.csv.*not UTF-8 text"),
    "no header": ("1,2,3\n4,5,6\n", E, r"nodes.csv, line 1: a number where the header should be"),
    "nameless": ("id,label,\na,0,1\n", E, r"nodes.csv, line 1: a column without a name"),
    "no features": ("id,label\na,0\nb,1\nc,1\n", E, r"edges.csv: the nodes have no features"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_do_not_fit_are_reported(tmp_path, case):
    nodes, edges, told = TABLES[case]
    (tmp_path / "nodes.csv").write_bytes(nodes if isinstance(nodes, bytes) else nodes.encode())
    (tmp_path / "edges.csv").write_text(edges)
    with pytest.raises(UserError, match=told):
        load(file=tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")


def test_a_feature_that_is_named_and_not_there_is_reported(tmp_path):
    (tmp_path / "nodes.csv").write_text(V)
    (tmp_path / "edges.csv").write_text(E)
    with pytest.raises(UserError, match=r"nodes.csv, line 1: there is no column 'weight', which `features:` names"):
        load(file=tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv", features=["weight"])


NODES = {
    "no label": ({}, {}, "no node has the attribute 'label'; name the attribute"),
    "text": ({"label": 0, "size": "big"}, {}, "node '0': attribute 'size' is 'big' and not a number"),
    "lost": ({"label": 0, "size": None}, {}, "node '1': attribute 'size' is missing; give every node a number"),
    "nan": ({"label": 0, "size": float("nan")}, {}, "node '0': attribute 'size' is nan; features must be finite"),
    "fraction": ({"label": 0.5}, {}, "node '0': attribute 'label': 0.5 is not a label"),
    "weights": ({"label": 0}, {"weight": 1.0}, "the edges have an unknown attribute 'weight'"),
    "split": (
        {"label": 0, "split": "tarin"},
        {},
        "node '0': attribute 'split': 'tarin' is not one of train, val, test",
    ),
}


@pytest.mark.parametrize("case", NODES)
def test_nodes_that_do_not_fit_are_reported(tmp_path, case):
    attributes, weights, told = NODES[case]
    graph = nx.path_graph(2)
    for node in graph:
        graph.nodes[node].update({key: value for key, value in attributes.items() if value is not None})
    if None in attributes.values():
        graph.nodes[0]["size"] = 1
    nx.set_edge_attributes(graph, dict.fromkeys(graph.edges, weights))
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    with pytest.raises(UserError, match=told):
        load(file=tmp_path / "graph.graphml", missing_features="constant")


@pytest.mark.parametrize("kind", ["npz", "pt", "graphml"])
@pytest.mark.parametrize("content", [b"", b"no graph", b"PK\x03\x04 no archive", b"\x80\x04.", b"<graphml><broken"])
def test_files_that_cannot_be_read_are_reported(tmp_path, kind, content):
    (tmp_path / f"graph.{kind}").write_bytes(content)
    with pytest.raises(UserError, match=rf"graph\.{kind} cannot be read"):
        load(file=tmp_path / f"graph.{kind}")


class Opens:
    def __reduce__(self):
        return (open, ("harm", "w"))


def test_no_file_runs_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrays = own_files.drawn()
    torch.save({"x": Opens()}, "graph.pt")
    np.savez("graph.npz", **{**arrays, "x": np.array([Opens()], dtype=object)})
    with pytest.raises(UserError, match=r"it requests '[\w.]*open', which could run code; save a dict of tensors"):
        load(file=tmp_path / "graph.pt")
    with pytest.raises(UserError, match=r"'x' cannot be read: an array of Python objects"):
        load(file=tmp_path / "graph.npz")
    assert not Path("harm").exists()


def test_a_pt_file_that_is_no_graph_is_reported(tmp_path):
    torch.save(torch.zeros(3), tmp_path / "graph.pt")
    with pytest.raises(UserError, match="holds a Tensor and no arrays by name; save a dict of tensors"):
        load(file=tmp_path / "graph.pt")
    torch.save({"x": {"a": 1}}, tmp_path / "graph.pt")
    with pytest.raises(UserError, match="'x' is a dict; make it an array"):
        load(file=tmp_path / "graph.pt")
    np.save(tmp_path / "graph.npy", np.zeros(3))
    (tmp_path / "graph.npy").rename(tmp_path / "graph.npz")
    with pytest.raises(UserError, match=r"a single array; save all of them with numpy\.savez"):
        load(file=tmp_path / "graph.npz")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("graph.txt", {}, "has none of the known suffixes: .npz, .pt, .pth, .graphml, .csv"),
        ("edges.csv", {}, "name that of the nodes too"),
        ("graph.npz", {"nodes": "graph.npz"}, "holds the nodes too; leave it out"),
        ("graph.pt", {"features": ["a"]}, "are the array x; leave it out"),
        ("graph.npz", {"missing_features": "zeros"}, "'zeros' is not one of 'refuse', 'degree' or 'constant'"),
    ],
)
def test_options_that_do_not_fit_the_file_are_refused_before_it_is_read(tmp_path, monkeypatch, name, options, message):
    monkeypatch.chdir(tmp_path)
    Path(name).write_text("", encoding="utf-8")
    with pytest.raises(UserError, match=message):
        find.build("dataset", Part(name="file", options={"file": name, **options}))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), kind=st.sampled_from(["npz", "pt", "graphml", "csv"]))
def test_damaged_files_are_read_or_told_of(tmp_path_factory, data, kind):
    part = own_files.write(tmp_path_factory.mktemp("damaged"), own_files.drawn(), kind)
    part.pop("name")
    path = Path(part[data.draw(st.sampled_from(sorted(part)))])
    whole = path.read_bytes()
    start = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:start] + data.draw(st.binary(max_size=4)) + whole[start + data.draw(st.integers(0, 9)) :])
    message = ""
    try:
        graph = load(**part)
    except UserError as error:
        message = str(error)
    assert str(path.parent) in message if message else len(graph["y"]) == graph["x"].shape[0] > 0


def test_packed_archives_are_read_and_damage_in_them_is_reported(tmp_path):
    arrays = own_files.drawn()
    np.savez_compressed(tmp_path / "graph.npz", **arrays)
    np.savez(tmp_path / "plain.npz", **arrays)
    assert same(load(file=tmp_path / "graph.npz"), load(file=tmp_path / "plain.npz"))
    whole = (tmp_path / "graph.npz").read_bytes()
    (tmp_path / "graph.npz").write_bytes(whole[:60] + b"\xff" * 20 + whole[80:])
    with pytest.raises(UserError, match=r"graph\.npz.* cannot be read"):
        load(file=tmp_path / "graph.npz")


def test_a_file_that_is_written_again_is_read_again(tmp_path):
    np.savez(tmp_path / "graph.npz", **own_files.drawn(12))
    assert len(load(file=tmp_path / "graph.npz")["y"]) == 12
    np.savez(tmp_path / "graph.npz", **own_files.drawn(14))
    assert len(load(file=tmp_path / "graph.npz")["y"]) == 14

"""`dataset: examples`: arrays and tables are read as they were written; what is wrong is told with its remedy."""

import csv
from pathlib import Path

import numpy as np
import pytest
import refusals
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.core.errors import UserError
from fedsim.data.graph import as_dense
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find


def load(**options):
    return find.build("dataset", Part(name="examples", options=options)).load(Path(), 0)


def table(path, rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return path


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 12), shape=st.lists(st.integers(1, 4), max_size=3), kind=st.sampled_from(["npz", "pt"]),
    targets=st.integers(0, 3), seed=st.integers(0, 999),
)  # fmt: skip
def test_arrays_of_any_shape_come_back(tmp_path_factory, rows, shape, kind, targets, seed):
    rng, path = np.random.default_rng(seed), tmp_path_factory.mktemp("rows") / f"rows.{kind}"
    turn = rng.integers(3, size=rows)
    arrays = {
        "x": rng.standard_normal((rows, *shape)).astype(np.float32),
        "y": rng.standard_normal((rows, targets)) + 0.25 if targets else rng.permutation(rows),
        **{name: turn == number for number, name in enumerate(("train", "val", "test"))},
    }  # fmt: skip
    if kind == "npz":
        np.savez(path, **arrays)
    else:
        torch.save({name: torch.as_tensor(array) for name, array in arrays.items()}, path)
    graph = load(file=str(path))
    assert graph["x"].shape == (rows, *(shape or [1]))
    assert graph["x"].flatten().tolist() == arrays["x"].flatten().tolist()
    assert graph["edges"].shape == (2, 0)
    if targets:
        assert graph["real"].equal(torch.from_numpy(arrays["y"]).float())
        assert not graph["y"].any()
    else:
        assert graph["y"].tolist() == arrays["y"].tolist()
        assert "real" not in graph
    assert all(graph[name].tolist() == arrays[name].tolist() for name in ("train", "val", "test"))


def test_wide_rows_of_zeros_are_sparse_and_classes_are_ranks(tmp_path):
    x = np.eye(100, 90)
    np.savez(tmp_path / "rows.npz", x=x, y=np.where(np.arange(100) % 2, "cat", "ape"))
    graph = load(file=str(tmp_path / "rows.npz"))
    assert graph["x"].layout == torch.sparse_csr
    assert as_dense(graph["x"]).tolist() == x.tolist()
    assert graph["y"].tolist() == [0, 1] * 50


@pytest.mark.parametrize(("targets", "is_real"), [(None, False), ("classes", False), ("real", True)])
def test_whole_numbers_are_classes_unless_it_is_said(tmp_path, targets, is_real):
    np.savez(tmp_path / "rows.npz", x=np.eye(3), y=np.array([5.0, 7.0, 5.0]))
    graph = load(file=str(tmp_path / "rows.npz"), targets=targets)
    assert graph["real"].tolist() == [[5.0], [7.0], [5.0]] if is_real else graph["y"].tolist() == [0, 1, 0]


ROWS = [
    {"age": 30, "town": "Bern", "floor": 2, "split": "train", "note": "a", "price": 1.5, "rent": 3},
    {"age": 41.5, "town": "Graz", "floor": 0, "split": "test", "note": "", "price": 2, "rent": 4},
    {"age": -1e3, "town": "Bern", "floor": 2, "split": "", "note": "c", "price": 3, "rent": 4},
]


def test_columns_have_types(tmp_path):
    path = str(table(tmp_path / "rows.csv", ROWS))
    graph = load(file=path, target="price", categories=["floor"], ignore=["note", "rent"])
    # age, Bern and Graz, the floors 0 and 2
    assert graph["x"].tolist() == [[30, 1, 0, 0, 1], [41.5, 0, 1, 1, 0], [-1e3, 1, 0, 0, 1]]
    assert graph["real"].tolist() == [[1.5], [2.0], [3.0]]
    assert graph["train"].tolist() == [True, False, False]
    assert graph["test"].tolist() == [False, True, False]
    both = load(file=path, target=["rent", "price"], ignore=["note"])
    assert both["real"].tolist() == [[3.0, 1.5], [4.0, 2.0], [4.0, 3.0]]
    assert both["x"].shape == (3, 1 + 2 + 1)
    named = load(file=path, target="town", ignore=["note"])
    assert named["y"].tolist() == [0, 1, 0]
    assert load(file=path, target="rent", ignore=["note"])["y"].tolist() == [0, 1, 1]
    assert load(file=path, target="rent", ignore=["note"], targets="real")["real"].tolist() == [[3.0], [4.0], [4.0]]


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 9), numbers=st.integers(0, 3), words=st.integers(0, 2), seed=st.integers(0, 999))
def test_a_table_is_its_columns_side_by_side(tmp_path_factory, rows, numbers, words, seed):
    if not numbers + words:
        return
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, numbers)).round(3)
    texts = rng.integers(4, size=(rows, words))
    lines = [
        {**{f"n{at}": x[row, at] for at in range(numbers)}, **{f"w{at}": f"is {texts[row, at]}" for at in range(words)},
         "y": int(row % 3)}
        for row in range(rows)
    ]  # fmt: skip
    graph = load(file=str(table(tmp_path_factory.mktemp("table") / "rows.csv", lines)))
    one_hot = [texts[:, [at]] == np.unique(texts[:, at]) for at in range(words)]
    assert np.array_equal(graph["x"].numpy(), np.concatenate([x.astype(np.float32), *one_hot], axis=1))


ARRAYS = {
    "no x": ({"x": None}, "lacks the array 'x'; the arrays are x"),
    "no y": ({"y": None}, "lacks the array 'y'; the arrays are x"),
    "unknown": ({"weight": np.ones(4)}, r"'weight' is unknown .*ignore: \[weight\]"),
    "edges": ({"edge_index": np.zeros((2, 0), int)}, "'edge_index' is unknown"),
    "short y": ({"y": np.zeros(3, int)}, r"'y' has the shape \(3,\), and 'x' has 4 rows; it must be \(4,\)"),
    "deep y": ({"y": np.zeros((4, 2, 2))}, r"'y' has the shape \(4, 2, 2\)"),
    "nan x": ({"x": np.where(np.arange(24) == 13, np.nan, 0).reshape(4, 2, 3)}, "'x' is nan at row 2, place 0, 1"),
    "nan y": ({"y": np.array([0.5, np.nan, 1, 1])}, "'y' is nan at row 1; targets must be finite"),
    "words": ({"x": np.full((4, 2), "a")}, "'x' holds texts; features are numbers"),
    "two classes": ({"y": np.zeros((4, 2), int)}, r"'y' has the shape \(4, 2\), and a row has one class"),
    "negative": ({"y": np.array([0, 1, -2, 1])}, "'y' is -2 at row 2; classes count from 0"),
    "no row": ({"x": np.zeros((0, 2)), "y": np.zeros(0, int)}, "'x' has no row"),
    "empty rows": ({"x": np.zeros((4, 0))}, "so that a row holds no number"),
    "short mask": ({"train": np.ones(3, bool)}, r"'train' has the shape \(3,\)"),
    "two masks": ({"train": np.ones(4, bool), "test": np.ones(4, bool)}, "in two masks"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays_that_do_not_fit_are_reported(tmp_path, case):
    change, told = ARRAYS[case]
    arrays = {"x": np.zeros((4, 2)), "y": np.arange(4) % 2, **change}
    np.savez(tmp_path / "rows.npz", **{name: array for name, array in arrays.items() if array is not None})
    with pytest.raises(UserError, match=rf"rows\.npz:? .*{told}"):
        load(file=str(tmp_path / "rows.npz"))


def test_what_was_said_of_targets_must_hold(tmp_path):
    np.savez(tmp_path / "real.npz", x=np.eye(2), y=np.array([1.0, 0.5]))
    np.savez(tmp_path / "texts.npz", x=np.eye(2), y=np.array(["a", "b"]))
    with pytest.raises(UserError, match=r"'y' is 0.5 at row 1; classes are whole numbers or texts: .*targets: real"):
        load(file=str(tmp_path / "real.npz"), targets="classes")
    with pytest.raises(UserError, match="'y' holds texts, and real targets are numbers; write targets: classes"):
        load(file=str(tmp_path / "texts.npz"), targets="real")


TABLES = {
    "target": ("a,label\n1,0\n", {}, "line 1: there is no column 'y'; name the column by `target:`"),
    "category": ("a,y\n1,0\n", {"categories": ["town"]}, "no column 'town'; name the column by `categories:`"),
    "alone": ("y\n1\n", {}, "line 1: there is no column of features"),
    "mixed": ("a,y\n1,0\nold,1\n", {}, "line 3: column 'a': 'old' is not a number; .*listed under `categories:`"),
    "gap": ("a,y\n1,0\n,1\n", {}, "line 3: column 'a': an empty cell"),
    "text gap": ("a,y\nx,0\n,1\n", {}, "line 3: column 'a': an empty cell"),
    "nan": ("a,y\n1,0\nnan,1\n", {}, "line 3: column 'a': 'nan' is not a number"),
    "no target": ("a,y\n1,0.5\n2,\n", {}, "line 3: column 'y': an empty cell"),
    "class": ("a,y\n1,0.5\n2,1\n", {"targets": "classes"}, "line 2: column 'y': 0.5 is not a label"),
    "real": ("a,y\n1,cat\n2,1\n", {"targets": "real"}, "line 2: column 'y': 'cat' is not a number"),
    "split": ("a,y,split\n1,0,training\n", {}, "line 2: column 'split': 'training' is not one of those known"),
    "huge": ("a,y\n1e300,0\n", {}, "line 2: column 'a': 1e.300 is too large"),
    "long": ("a,y\n1,0,3\n", {}, "line 2: 3 cells, but the header names 2 columns"),
    "bare": ("a,y\n", {}, "a header without rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", TABLES)
def test_tables_that_do_not_fit_are_reported(tmp_path, case):
    text, options, told = TABLES[case]
    (tmp_path / "rows.csv").write_text(text, "utf-8")
    with pytest.raises(UserError, match=rf"rows\.csv[,:].*{told}") as error:
        load(file=str(tmp_path / "rows.csv"), **options)
    assert "\n" not in str(error.value)


def test_options_of_another_kind_of_file_and_missing_ones_are_reported(tmp_path):
    np.savez(tmp_path / "rows.npz", x=np.eye(2), y=np.arange(2))
    (tmp_path / "rows.txt").write_text("", "utf-8")
    for options, told in [
        ({"file": "rows.npz", "target": "price"}, "target: .*holds arrays, not columns"),
        ({"file": "rows.npz", "categories": ["a"]}, "categories: .*holds arrays"),
        ({"file": "rows.txt"}, "has none of the known suffixes"),
        ({"file": "row.npz"}, "there is no such file; did you mean .*rows.npz"),
        ({}, "needs the option 'file'"),
    ]:
        named = {**options, "file": str(tmp_path / options["file"])} if "file" in options else options
        with pytest.raises(UserError, match=told):
            load(**named)


@settings(max_examples=60, deadline=None)
@given(
    cells=st.lists(st.lists(st.sampled_from(["", "1", "2.5", "a", "nan", "1e99", '"', "é"]), min_size=2, max_size=3),
                   max_size=5),
    targets=st.sampled_from([None, "classes", "real"]),
)  # fmt: skip
def test_any_table_is_read_or_told_of(tmp_path_factory, cells, targets):
    path = tmp_path_factory.mktemp("any") / "rows.csv"
    path.write_text("\n".join(["a,y", *(",".join(row) for row in cells)]), "utf-8")
    refusals.message_of(lambda: load(file=str(path), targets=targets), cells)

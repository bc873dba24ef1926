"""Graphs of a user's own with something odd in them: each is read, or told of in one message that names the file."""

import io
import zipfile
from pathlib import Path

import numpy as np
import own_files
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from test_own_graph import load, same

from fedsim import __main__ as command_line
from fedsim.core.errors import UserError
from fedsim.data.files.own_arrays import KNOWN

BARE = {"labelled": False, "missing_features": "constant"}
NO_COUNTS = [[12], [1, 2], float("nan"), 12.0, 3.5, "abc", "12", True, -5, 2**63, 2**64 - 1, 10**15, [[1] * 50] * 50]


def tensors(**changes):
    return {name: torch.as_tensor(array) for name, array in own_files.drawn().items()} | changes


@pytest.mark.parametrize("kind", ["npz", "pt"])
@pytest.mark.parametrize("count", NO_COUNTS, ids=lambda count: repr(count)[:20])
def test_a_number_of_nodes_that_is_none_is_reported(tmp_path, kind, count):
    ends, path = own_files.drawn()["edge_index"], tmp_path / f"graph.{kind}"
    if kind == "npz":
        np.savez(path, edge_index=ends, num_nodes=count)
    else:
        torch.save({"edge_index": torch.as_tensor(ends), "num_nodes": count}, path)
    with pytest.raises(UserError, match=r"'num_nodes' must be one whole number.* and is ") as wrong:
        load(file=path, **BARE)
    assert str(path) in str(wrong.value)
    assert len(str(wrong.value)) < 400 + len(str(path))


def test_a_number_of_nodes_counts_those_without_an_edge_and_agrees_with_the_rows(tmp_path):
    path = tmp_path / "graph.pt"
    ends = torch.as_tensor(own_files.drawn()["edge_index"])
    for count in (40, np.uint8(40), torch.tensor(40)):
        torch.save({"edge_index": ends, "num_nodes": torch.as_tensor(count)}, path)
        assert len(load(file=path, **BARE)["y"]) == 40
    torch.save(tensors(num_nodes=12), path)
    assert len(load(file=path)["y"]) == 12
    torch.save(tensors(num_nodes=13), path)
    with pytest.raises(UserError, match="'num_nodes' is 13, but there are 12 rows of features or labels"):
        load(file=path)


def test_views_of_complex_numbers_are_read_as_what_they_show(tmp_path):
    x = tensors()["x"]
    views = {"negative": torch.complex(x, -x).conj().imag, "conjugate": torch.complex(x, x).conj().real, "plain": x}
    assert views["negative"].is_neg()
    graphs = []
    for name, view in views.items():
        torch.save(tensors(x=view), tmp_path / f"{name}.pt")
        graphs.append(load(file=tmp_path / f"{name}.pt"))
    assert same(graphs[0], graphs[2])
    assert same(graphs[1], graphs[2])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("odd", "told"),
    [
        (lambda x: x.to("meta"), "on the device meta holds no values"),
        (lambda x: torch.nested.nested_tensor([x[0], x[0, :2]]), "nested tensor has rows of different lengths"),
        (lambda x: torch.nested.nested_tensor([x[0], x[0, :2]], layout=torch.jagged), "rows of different lengths"),
        (lambda x: torch.complex(x, x), "'x' holds complex64 numbers; make it an array of real numbers"),
        (lambda x: torch.complex(x, x).conj(), "'x' holds complex64 numbers; make it an array of real numbers"),
        (lambda x: x.bfloat16(), "BFloat16"),
        (lambda x: [[1.0, 2.0], [3.0]], "'x' cannot be made an array"),
    ],
    ids=["meta", "nested", "jagged", "complex", "conjugate", "bfloat16", "ragged"],
)
def test_what_is_no_array_of_numbers_is_reported(tmp_path, odd, told):
    path = tmp_path / "graph.pt"
    torch.save(tensors(x=odd(tensors()["x"])), path)
    with pytest.raises(UserError, match=told) as wrong:
        load(file=path)
    assert str(path) in str(wrong.value)


def test_a_mask_without_a_column_is_reported(tmp_path):
    torch.save(tensors(train_mask=torch.zeros(12, 0, dtype=torch.bool)), tmp_path / "graph.pt")
    with pytest.raises(UserError, match=r"'train_mask' has the shape \(12, 0\)"):
        load(file=tmp_path / "graph.pt")


def archive(path: Path, **members: bytes) -> None:
    """Write a NumPy archive of a graph in which some members are these bytes."""
    with zipfile.ZipFile(path, "w") as file:
        for name, array in own_files.drawn().items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            file.writestr(f"{name}.npy", members.get(name, buffer.getvalue()))


def header(text: str) -> bytes:
    """Return the bytes of an array of nothing but this header."""
    padded = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin1")


@pytest.mark.parametrize("text", ["{'descr': '<f4', 'shape': (3L,", "{'a'", "  1\n 2", "[" * 100, "{'shape': -1}", ""])
def test_a_broken_header_of_an_array_is_reported(tmp_path, text):
    archive(tmp_path / "graph.npz", x=header(text))
    with pytest.raises(UserError, match=r"graph\.npz.* cannot be read"):
        load(file=tmp_path / "graph.npz")


def test_a_whole_number_of_hundreds_of_digits_is_no_feature(tmp_path):
    (tmp_path / "graph.graphml").write_text(
        '<graphml><key id="a" for="node" attr.name="size" attr.type="long"/><graph edgedefault="undirected">'
        f'<node id="u"><data key="a">{"9" * 400}</data></node></graph></graphml>'
    )
    with pytest.raises(UserError, match=r"graph\.graphml, node 'u': attribute 'size' .*features must be finite"):
        load(file=tmp_path / "graph.graphml", labelled=False)


def test_the_command_line_gives_one_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.save({"edge_index": torch.as_tensor(own_files.drawn()["edge_index"]), "num_nodes": [12]}, "graph.pt")
    Path("study.yaml").write_text(
        "name: odd\ndata:\n  dataset: {name: file, file: graph.pt, labelled: false, missing_features: constant}\n"
        "  partition: random\n  split: {train: 0.8, val: 0.1, test: 0.1}\n"
        "task: link_prediction\nmodel: {name: gcn, hidden: 4}\nclients: {count: 2, speed: 1 GFLOP/s}\n"
        "network: {latency: 1 ms, uplink: 1 Mbit/s, downlink: 1 Mbit/s}\n"
        "training: {optimiser: sgd, lr: 0.1}\nalgorithm: fedavg\n"
        "protocol: {name: sync, rounds: 1, participation: 1.0}\n"
        "measure: {metrics: [auc]}\n",
        encoding="utf-8",
    )
    assert command_line.main(["study.yaml", "--jobs", "1"]) == 2
    told = capsys.readouterr()
    assert told.err.count("graph.pt: 'num_nodes' must be one whole number") == 1
    assert "Traceback" not in told.out + told.err


SHAPES = st.one_of(st.sampled_from([(), (1,), (12,), (12, 1), (12, 3), (2, 5), (5, 2)]), arrays_of.array_shapes())
COUNTS = arrays_of.arrays(st.sampled_from(["?", "u1", "i1", "f4", "<U2"]), SHAPES)  # no graph of 10^9 nodes
NUMBERS = arrays_of.arrays(st.sampled_from(["?", "u1", "i4", "u8", "f2", "f4", "f8", "c8", ">i4", "<U2"]), SHAPES)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 1000),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.integers(-1, 13)),
)


def tensor_of(array):
    """Return the array as a tensor, or as it is where torch has no such numbers."""
    try:
        return torch.as_tensor(array.astype(array.dtype.newbyteorder("=")))
    except TypeError:
        return array.tolist()


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_arrays_of_any_kind_are_read_or_told_of(tmp_path_factory, data):
    names = data.draw(st.lists(st.sampled_from(KNOWN), min_size=1, max_size=3, unique=True))
    odd = {name: data.draw(st.one_of(COUNTS if name == "num_nodes" else NUMBERS, PLAIN)) for name in names}
    gone = data.draw(st.sets(st.sampled_from(["x", "y", "train_mask", "edge_index"]), max_size=2))
    kind, path = data.draw(st.sampled_from(["npz", "pt"])), tmp_path_factory.mktemp("odd") / "graph"
    whole = {name: array for name, array in {**own_files.drawn(), **odd}.items() if name not in gone or name in odd}
    if kind == "npz":
        whole = {name: np.asarray(value) for name, value in whole.items()}
        np.savez(path.with_suffix(".npz"), allow_pickle=True, **whole)
    else:
        torch.save(
            {n: tensor_of(one) if isinstance(one, np.ndarray) else one for n, one in whole.items()}, f"{path}.pt"
        )
    check(path.with_suffix(f".{kind}"), data.draw(st.sampled_from([{}, BARE])))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_damaged_members_of_an_archive_are_read_or_told_of(tmp_path_factory, data):
    name, buffer = data.draw(st.sampled_from(["x", "edge_index", "y", "val_mask"])), io.BytesIO()
    np.save(buffer, own_files.drawn()[name])
    whole = buffer.getvalue()
    start = data.draw(st.integers(0, 127))  # of the header
    put = data.draw(st.one_of(st.binary(max_size=4), st.text("()[]{}'\"\\:,0129-LfiO\n", max_size=4).map(str.encode)))
    path = tmp_path_factory.mktemp("damaged") / "graph.npz"
    archive(path, **{name: whole[:start] + put + whole[start + data.draw(st.integers(0, 9)) :]})
    check(path, {})


def check(path, options):
    message = ""
    try:
        graph = load(file=path, **options)
    except UserError as error:
        message = str(error)
    assert str(path) in message if message else len(graph["y"]) == graph["x"].shape[0] > 0

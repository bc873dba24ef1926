import gzip
import json
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_graphs import same
from hypothesis import assume, given
from hypothesis import strategies as st
from mutations import FULL
from pydantic import TypeAdapter, ValidationError
from scipy.sparse import csr_matrix
from sklearn.datasets import load_digits
from sklearn.neighbors import kneighbors_graph
from small_points import scenario
from threadpoolctl import threadpool_limits

from fedsim import __main__ as command_line
from fedsim.core.errors import UserError
from fedsim.data.dataset import Dataset, undirected
from fedsim.data.datasets.amazon import Amazon
from fedsim.data.datasets.coauthor import Coauthor
from fedsim.data.datasets.digit_images import DigitImages
from fedsim.data.datasets.digits import Digits, nearest
from fedsim.data.datasets.flickr import Flickr
from fedsim.data.datasets.heterophilous import Heterophilous
from fedsim.data.datasets.ogbn_arxiv import OgbnArxiv
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.datasets.wikipedia import Wikipedia
from fedsim.data.graph import Graph
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

# As measured from the published files: nodes, edges in both directions, features, non-zero features,
# nodes of each class, public split.
CORA = (2708, 10556, 1433, 49216, [351, 217, 418, 818, 426, 298, 180], [140, 500, 1000])
PUBMED = (19717, 88648, 500, 988031, [4103, 7739, 7875], [60, 500, 1000])
COMPUTERS = (13752, 491722, 767, 3675081, [436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291], [0, 0, 0])
WHERE_FULL = [pytest.mark.long, pytest.mark.skipif(not FULL, reason="takes long: HYPOTHESIS_PROFILE=full tries it")]
PHYSICS = (34493, 495924, 8415, 1137311, [5750, 5045, 17426, 2753, 3519], [0, 0, 0])
SQUIRREL = (5201, 2 * 198353, 2089, 93477, [1042, 1040, 1039, 1040, 1040], [2496, 1664, 1041])
MINESWEEPER = (10000, 78804, 7, None, [8000, 2000], [5000, 2500, 2500])
TOLOKERS = (11758, 1038000, 10, None, [9192, 2566], [5879, 2939, 2940])


def check_form(graph: Graph) -> None:
    n, (source, target) = len(graph["y"]), graph["edges"]
    codes = source * n + target
    assert (source != target).all()
    assert (codes.diff() > 0).all()  # sorted, and each once
    assert torch.equal((target * n + source).sort().values, codes)  # both directions
    assert int(graph["edges"].max()) < n
    assert graph["x"].dtype == torch.float32
    assert graph["x"].shape[0] == n
    assert graph["sizes"].tolist() == [n]
    assert not (graph["train"] & graph["val"] | graph["val"] & graph["test"] | graph["train"] & graph["test"]).any()


@pytest.mark.data
@pytest.mark.parametrize(
    ("dataset", "measured"),
    [
        (Planetoid("Cora"), CORA),
        (Planetoid("PubMed"), PUBMED),
        (Amazon("Computers"), COMPUTERS),
        pytest.param(Coauthor("Physics"), PHYSICS, marks=WHERE_FULL),
        pytest.param(Wikipedia("squirrel"), SQUIRREL, marks=pytest.mark.long),
        (Heterophilous("Minesweeper"), MINESWEEPER),
        (Heterophilous("Tolokers"), TOLOKERS),
    ],
    ids=lambda value: getattr(value, "graph", ""),
)
def test_published_graphs_have_their_measured_numbers(
    dataset: Dataset,
    measured: tuple[int, int, int, int | None, list[int], list[int]],
    data_root: Path,
    cached_home: Path,
) -> None:
    nodes, edges, features, filled, classes, masks = measured
    for graph in (dataset.load(data_root, 0), dataset.load(data_root, 1)):  # read by PyG, then from the cache
        check_form(graph)
        assert tuple(graph["x"].shape) == (nodes, features)
        assert graph["edges"].shape[1] == edges
        values = graph["x"].values() if graph["x"].layout == torch.sparse_csr else graph["x"]
        assert filled is None or int((values != 0).sum()) == filled
        assert torch.bincount(graph["y"]).tolist() == classes
        assert [int(graph[name].sum()) for name in ("train", "val", "test")] == masks


@pytest.mark.data
def test_features_are_not_normalised(data_root: Path, cached_home: Path) -> None:
    cora = Planetoid("Cora").load(data_root, 0)
    assert cora["x"].layout == torch.sparse_csr
    assert set(cora["x"].values().tolist()) == {1.0}


def test_digits_is_a_symmetric_neighbour_graph() -> None:
    graph = Digits(neighbours=4).load(Path(), 0)
    check_form(graph)
    assert tuple(graph["x"].shape) == (1797, 64)
    assert (float(graph["x"].min()), float(graph["x"].max())) == (0.0, 1.0)
    assert int(torch.bincount(graph["edges"][0]).min()) >= 4
    assert graph["edges"].shape[1] <= 2 * 4 * 1797
    assert torch.bincount(graph["y"]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    source, target = graph["edges"]
    assert float((graph["y"][source] == graph["y"][target]).float().mean()) > 0.9


@pytest.mark.parametrize("count", [1, 5, 10, 41])
def test_digits_are_joined_as_by_scikit_learn(count: int) -> None:
    bunch = load_digits()
    with threadpool_limits(1):  # on which its choice among equally near neighbours depends
        near = kneighbors_graph(bunch.data / 16, count).tocoo()
    graph = Digits(count).load(Path(), 0)
    edges = torch.stack([torch.as_tensor(near.row), torch.as_tensor(near.col)])
    assert torch.equal(graph["edges"], undirected(edges, 1797))
    assert torch.equal(graph["x"], torch.as_tensor(bunch.data / 16).float())
    assert graph["y"].tolist() == bunch.target.tolist()
    assert torch.equal(DigitImages().load(Path(), 0)["x"].squeeze(1), torch.as_tensor(bunch.images / 16).float())


@given(st.integers(2, 30), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_each_point_has_as_many_neighbours_and_none_that_it_has_not_is_nearer(rows: int, most: int, seed: int) -> None:
    points = np.unique(np.random.default_rng(seed).integers(0, most + 1, size=(rows, 4)), axis=0).astype(float)
    assume(len(points) > 1)
    far = ((points[:, None] - points) ** 2).sum(2).astype(float)
    np.fill_diagonal(far, np.inf)
    for count in range(1, len(points)):
        near = nearest(points, count)
        assert not near.diagonal().any()
        assert (near.sum(1) == count).all()
        assert (np.where(near, far, 0).max(1) <= np.where(near, np.inf, far).min(1)).all()
    with pytest.raises(ValueError, match=f"of {len(points) - 1} others"):
        nearest(points, len(points))


def test_undirected_adds_what_is_missing_and_drops_what_is_too_much() -> None:
    edges = undirected(torch.tensor([[2, 0, 0, 1, 1], [0, 2, 2, 1, 0]]), 3)
    assert edges.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert undirected(torch.zeros(2, 0, dtype=torch.long), 3).shape == (2, 0)


@pytest.mark.parametrize("cls", [Planetoid, Amazon, Coauthor, Wikipedia, Heterophilous])
def test_a_graph_must_be_one_of_those_there_are(cls: type[Dataset]) -> None:
    with pytest.raises(ValidationError, match="Input should be"):
        TypeAdapter(cls).validate_python({"graph": "cora"})


SHORT = {
    "cora": Planetoid("Cora"),
    "citeseer": Planetoid("CiteSeer"),
    "pubmed": Planetoid("PubMed"),
    "computers": Amazon("Computers"),
    "physics": Coauthor("Physics"),
    "squirrel": Wikipedia("squirrel"),
    "roman_empire": Heterophilous("Roman-empire"),
}


@pytest.mark.parametrize("name", SHORT)
def test_a_short_name_stands_for_the_graph_of_a_collection(name: str, offline: Path) -> None:
    short, told = find.build("dataset", Part(name=name)), []
    assert isinstance(short, type(SHORT[name]))
    assert find.check("dataset", Part(name=name)) == []
    for dataset in (short, SHORT[name]):  # both ask for the same files of the same folder
        with pytest.raises(UserError) as caught:
            dataset.load(offline, 0)
        told.append(str(caught.value))
    assert told[0] == told[1]
    with pytest.raises(UserError, match=r"'Chameleon' is not one of"):
        find.build("dataset", Part(name=name, options={"graph": "Chameleon"}))


@pytest.mark.data
def test_a_short_name_loads_the_same_graph(data_root: Path, cached_home: Path) -> None:
    assert same(find.build("dataset", Part(name="cora")).load(data_root, 0), Planetoid("Cora").load(data_root, 0))


@pytest.mark.parametrize(
    ("name", "folder", "files"),
    [
        ("roman_empire", "roman_empire/raw", "roman_empire.npz"),
        pytest.param(
            *("flickr", "Flickr/raw", "adj_full.npz, feats.npy, class_map.json, role.json"), marks=pytest.mark.long
        ),
        pytest.param(
            *("ogbn_arxiv", "ogbn_arxiv/raw", "edge.csv.gz, node-feat.csv.gz, node-label.csv.gz"),
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_scenario_that_asks_for_absent_data_ends_with_one_message_and_code_2(
    name: str,
    folder: str,
    files: str,
    offline: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(offline)
    plain = scenario(data__dataset=name).plain()
    (offline / "asks.yaml").write_text(json.dumps(plain), encoding="utf-8")  # JSON is YAML too
    assert command_line.main(["asks.yaml", "--data", str(offline), "--jobs", "1"]) == 2
    output = capsys.readouterr().err
    assert f"data.dataset: {offline / folder} lacks {files}, and " in output
    assert "could not be fetched" in output
    assert "copy the missing files there, or set FEDSIM_DATA to a folder that holds them" in output
    assert "Traceback" not in output
    assert output.count("lacks") == 1


def write_flickr(raw: Path) -> None:
    """Write four nodes, 0-1 in both directions and 2 -> 3 in one, as GraphSAINT's files hold them."""
    raw.mkdir(parents=True)
    adjacency = csr_matrix(([1.0, 1.0, 1.0], ([0, 1, 2], [1, 0, 3])), shape=(4, 4))
    parts = {"data": adjacency.data, "indices": adjacency.indices, "indptr": adjacency.indptr, "shape": (4, 4)}
    np.savez(raw / "adj_full.npz", **parts)
    np.save(raw / "feats.npy", np.arange(12.0).reshape(4, 3))  # double precision, as published
    (raw / "class_map.json").write_text(json.dumps({"0": 2, "1": 0, "3": 1, "2": 5}))
    (raw / "role.json").write_text(json.dumps({"tr": [0, 3], "va": [1], "te": [2]}))


def test_flickr_is_read_from_the_four_files(offline: Path) -> None:
    write_flickr(offline / "Flickr" / "raw")
    for _ in range(2):  # read by PyG, then from the cache
        graph = Flickr().load(offline, 0)
        check_form(graph)
        assert graph["edges"].tolist() == [[0, 1, 2, 3], [1, 0, 3, 2]]
        assert graph["x"].tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
        assert graph["y"].tolist() == [2, 0, 5, 1]
        assert [graph[name].nonzero().flatten().tolist() for name in ("train", "val", "test")] == [[0, 3], [1], [2]]  # type: ignore[literal-required]


ARXIV = {
    "edge.csv.gz": "0,2\n2,1\n1,1\n2,0\n",
    "node-feat.csv.gz": "-0.5,0.25\n1e-3,2.0\n0.0,-3.5\n",
    "node-label.csv.gz": "4\n0\n39\n",
}


def write_arxiv(raw: Path, **changed: str) -> None:
    raw.mkdir(parents=True)
    for name, text in ARXIV.items():
        (raw / name).write_bytes(gzip.compress(changed.get(name.split(".")[0].replace("-", "_"), text).encode()))


def check_arxiv(graph: Graph) -> None:
    check_form(graph)
    assert graph["edges"].tolist() == [[0, 1, 2, 2], [2, 2, 0, 1]]  # both directions, no self loop
    assert torch.equal(graph["x"], torch.tensor([[-0.5, 0.25], [1e-3, 2.0], [0.0, -3.5]]))
    assert graph["y"].tolist() == [4, 0, 39]
    assert not (graph["train"] | graph["val"] | graph["test"]).any()


def test_ogbn_arxiv_is_read_from_the_compressed_tables(offline: Path) -> None:
    write_arxiv(offline / "ogbn_arxiv" / "raw")
    for _ in range(2):
        check_arxiv(OgbnArxiv().load(offline, 0))


def test_ogbn_arxiv_is_fetched_once_as_one_archive(offline: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_arxiv(offline / "server" / "raw")
    archive, asked = offline / "server" / "arxiv.zip", []
    with zipfile.ZipFile(archive, "w") as packed:
        for name in ARXIV:
            packed.write(offline / "server" / "raw" / name, f"arxiv/raw/{name}")

    def answer(url: str, timeout: float) -> object:
        asked.append(url)
        return archive.open("rb")

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    check_arxiv(OgbnArxiv().load(offline, 0))
    check_arxiv(OgbnArxiv().load(offline, 0))
    assert asked == ["https://snap.stanford.edu/ogb/data/nodeproppred/arxiv.zip"]
    assert sorted(path.name for path in offline.iterdir()) == ["server"]


@pytest.mark.parametrize(
    "changed",
    [
        {"edge": "0,3\n"},
        {"edge": "0,-1\n"},
        {"edge": "0,1,2\n"},
        {"node_label": "4\n0\n"},
        {"node_label": "4,1\n0,1\n2,1\n"},
        {"node_feat": "a,b\n"},
    ],
    ids=str,
)
def test_tables_that_do_not_fit_are_reported_with_their_folder(changed: dict[str, str], offline: Path) -> None:
    raw = offline / "ogbn_arxiv" / "raw"
    write_arxiv(raw, **changed)
    with pytest.raises(UserError) as caught:
        OgbnArxiv().load(offline, 0)
    assert str(caught.value).startswith(f"data.dataset: {', '.join(ARXIV)} of {raw}, or fetched where it lacks them, ")
    assert "copy the files there as they were published" in str(caught.value)


def test_files_that_are_something_else_are_reported_with_their_folder(offline: Path) -> None:
    write_flickr(offline / "Flickr" / "raw")
    (offline / "Flickr" / "raw" / "feats.npy").write_text("<html>too many downloads</html>")
    with pytest.raises(UserError, match=r"Flickr/raw, or fetched where it lacks them, cannot be read"):
        Flickr().load(offline, 0)
    raw = offline / "ogbn_arxiv" / "raw"
    write_arxiv(raw)
    whole = (raw / "edge.csv.gz").read_bytes()
    for wrong in (whole[:-12], whole[:10] + b"\xff" + whole[11:], b"<html>"):  # cut off; damaged; something else
        (raw / "edge.csv.gz").write_bytes(wrong)
        with pytest.raises(UserError, match=r"ogbn_arxiv/raw, or fetched where it lacks them, cannot be read"):
            OgbnArxiv().load(offline, 0)

from pathlib import Path

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from fedsim.data.dataset import Dataset, undirected
from fedsim.data.datasets.amazon import Amazon
from fedsim.data.datasets.coauthor import Coauthor
from fedsim.data.datasets.digits import Digits
from fedsim.data.datasets.heterophilous import Heterophilous
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.datasets.wikipedia import Wikipedia
from fedsim.data.graph import Graph

# As measured from the published files: vertices, edges in both directions, features, non-zero features,
# vertices of each class, public split.
CORA = (2708, 10556, 1433, 49216, [351, 217, 418, 818, 426, 298, 180], [140, 500, 1000])
PUBMED = (19717, 88648, 500, 988031, [4103, 7739, 7875], [60, 500, 1000])
COMPUTERS = (13752, 491722, 767, 3675081, [436, 2142, 1414, 542, 5158, 308, 487, 818, 2156, 291], [0, 0, 0])
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
        pytest.param(Coauthor("Physics"), PHYSICS, marks=pytest.mark.slow),
        pytest.param(Wikipedia("squirrel"), SQUIRREL, marks=pytest.mark.slow),
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
    vertices, edges, features, filled, classes, masks = measured
    for graph in (dataset.load(data_root, 0), dataset.load(data_root, 1)):  # read by PyG, then from the cache
        check_form(graph)
        assert tuple(graph["x"].shape) == (vertices, features)
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


def test_undirected_adds_what_is_missing_and_drops_what_is_too_much() -> None:
    edges = undirected(torch.tensor([[2, 0, 0, 1, 1], [0, 2, 2, 1, 0]]), 3)
    assert edges.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]
    assert undirected(torch.zeros(2, 0, dtype=torch.long), 3).shape == (2, 0)


@pytest.mark.parametrize("cls", [Planetoid, Amazon, Coauthor, Wikipedia, Heterophilous])
def test_a_graph_must_be_one_of_those_there_are(cls: type[Dataset]) -> None:
    with pytest.raises(ValidationError, match="Input should be"):
        TypeAdapter(cls).validate_python({"graph": "cora"})

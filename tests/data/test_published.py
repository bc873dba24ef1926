import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import homes
import numpy as np
import pytest
import torch
from drawn_graphs import same

from fedsim.core.errors import UserError
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.files.published import published
from fedsim.data.graph import Graph


class Source:
    """A published graph of three nodes in a file of its own, and a count of how often it was read."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.file = folder / "toy.txt"
        self.file.write_text("0 1\n1 2\n2 2\n")
        self.reads = 0

    def read(self, pyg: Any, folder: str) -> list[Any]:
        self.reads += 1
        edges = np.loadtxt(Path(folder) / "Toy" / "raw" / "toy.txt", dtype=np.int64)
        (Path(folder) / "Toy" / "processed").mkdir()  # as PyG does
        data = {"train_mask": torch.eye(3, dtype=torch.bool)}
        return [ToyData(data, torch.from_numpy(edges.T))]


class ToyData(dict[str, Any]):
    def __init__(self, masks: dict[str, Any], edges: torch.Tensor) -> None:
        super().__init__(masks)
        self.edge_index, self.x, self.y = edges, torch.eye(3), torch.tensor([0, 1, 0])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    homes.move(monkeypatch, tmp_path / "home")
    return tmp_path / "home"


def load(source: Source, root: Path, url: str = "http://nowhere.invalid/toy.txt") -> Graph:
    return published(root, "Toy/raw", {"toy.txt": url}, source.read)


def test_a_graph_is_read_once_and_the_data_folder_left_alone(tmp_path: Path, home: Path) -> None:
    source = Source(tmp_path / "data" / "Toy" / "raw")
    first, again = (load(source, tmp_path / "data") for _ in range(2))
    assert source.reads == 1
    assert same(first, again)
    assert first["edges"].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert first["train"].tolist() == [True, False, False]  # the first of several public splits
    assert sorted(path.name for path in (tmp_path / "data").rglob("*")) == ["Toy", "raw", "toy.txt"]
    assert [path.suffix for path in (home / ".cache" / "fedsim").iterdir()] == [".pt"]  # nothing half done is left


def test_changed_data_is_read_anew(tmp_path: Path, home: Path) -> None:
    source = Source(tmp_path / "data" / "Toy" / "raw")
    load(source, tmp_path / "data")
    source.file.write_text("0 2\n0 1\n")
    assert load(source, tmp_path / "data")["edges"].tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]


def test_whoever_finishes_second_disturbs_nobody(tmp_path: Path, home: Path) -> None:
    source = Source(tmp_path / "data" / "Toy" / "raw")
    found = []

    def overtaken(pyg: Any, folder: str) -> list[Any]:
        found.append(load(source, tmp_path / "data"))  # another process reads and stores the same graph meanwhile
        return source.read(pyg, folder)

    found.append(published(tmp_path / "data", "Toy/raw", {"toy.txt": ""}, overtaken))
    found.append(load(source, tmp_path / "data"))
    assert source.reads == 2
    assert same(found[0], found[1])
    assert same(found[0], found[2])
    assert len(list((home / ".cache" / "fedsim").iterdir())) == 1


def test_missing_files_are_fetched_into_the_cache_only(tmp_path: Path, home: Path) -> None:
    source = Source(tmp_path / "server")
    (tmp_path / "data").mkdir()
    for _ in range(2):
        graph = load(source, tmp_path / "data", source.file.as_uri())
    assert graph["edges"].shape == (2, 4)
    assert source.reads == 1
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("error", [urllib.error.URLError("no route to host"), TimeoutError("timed out")], ids=str)
def test_what_cannot_be_had_is_one_error_with_the_mend(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(url: str, timeout: float) -> SimpleNamespace:
        raise error

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    raw = tmp_path / "CiteSeer" / "raw"
    raw.mkdir(parents=True)
    (raw / "ind.citeseer.x").touch()
    with pytest.raises(UserError) as caught:
        Planetoid("CiteSeer").load(tmp_path, 0)
    text = str(caught.value)
    assert f"data.dataset: {raw} lacks ind.citeseer.tx, " in text
    assert "ind.citeseer.x," not in text  # that one is there
    assert "ind.citeseer.tx could not be fetched" in text
    assert "FEDSIM_DATA" in text
    assert list((home / ".cache" / "fedsim").iterdir()) == []


def test_a_cache_that_cannot_be_made_is_the_users_to_mend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Source(tmp_path / "data" / "Toy" / "raw")
    (tmp_path / "file").touch()
    homes.move(monkeypatch, tmp_path / "file")
    with pytest.raises(UserError, match="set HOME"):
        load(source, tmp_path / "data")

"""Data sets that change: their measured numbers, the forms of files that a user brings, and the drawn one."""

import gzip
import os
import time
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import homes
import numpy as np
import pytest
import torch
from fake_events import listed
from pydantic import TypeAdapter, ValidationError

from fedsim.core.errors import ScenarioError, UserError
from fedsim.data.datasets.bitcoin_otc import BitcoinOtc
from fedsim.data.datasets.drifting import Drifting
from fedsim.data.files.published import prepared
from fedsim.data.graph import Graph
from fedsim.data.time.windows import bounds_of, snapshots_of
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

DBLP3 = [806, 899, 1017, 1243, 1414, 1302, 1395, 1308, 1243, 1142]  # two self loops less than published
DBLP5 = [1456, 1665, 1907, 2226, 2501, 2441, 2495, 2356, 2343, 2016]  # three less
PATENT = [3347, 2634, 3796, 933, 769, 735]
# As measured from the published files: nodes, those that ever have an edge, undirected entries, and how windows of
# so many, or so many seconds, go: their number, and their edges in all.
MEASURED = {
    "bitcoin_otc": (5881, 5881, 35592, {"step": 13.8 * 86400}, 138, 23691),
    "college_msg": (1899, 1899, 59795, {"step": 5 * 86400.0}, 39, 19857),  # 40 of 59,835 are there twice
    "as_733": (3615, 3615, 8140, {"steps": 21}, 21, 91347),
    "primary_school": (242, 242, 125773, {"steps": 1}, 1, 8317),
    "patent": (12214, 12214, 41916, {"steps": 1}, 1, None),
    "dblp3": (4257, 1405, None, {"steps": 10}, 10, sum(DBLP3)),
    "dblp5": (6606, 2390, None, {"steps": 10}, 10, sum(DBLP5)),
}


def needed(data_root: Path, name: str) -> Any:
    folder = {"bitcoin_otc": "BitcoinOTC", "college_msg": "CollegeMsg", "as_733": "AS733", "patent": "Patent"}
    known = folder.get(name) or {"primary_school": "PrimarySchool", "dblp3": "DBLP3", "dblp5": "DBLP5"}[name]
    if not (data_root / known / "raw").is_dir():
        pytest.skip(f"FEDSIM_DATA has no {known}")
    return find.build("dataset", Part(name=name))


def cut_up(graph: Graph, steps: int | None = None, step: float | None = None) -> list[Graph]:
    return snapshots_of(graph, bounds_of(graph, steps, step))


@pytest.mark.data
@pytest.mark.parametrize("name", MEASURED)
def test_published_graphs_have_their_measured_numbers(name: str, data_root: Path, cached_home: Path) -> None:
    dataset = needed(data_root, name)
    nodes, ever, entries, windows, count, edges = MEASURED[name]
    for graph in (dataset.load(data_root, 0), dataset.load(data_root, 1)):  # read, then from the cache
        assert tuple(graph["x"].shape) == (nodes, 32)
        assert (graph["x"] == 1).all()
        assert entries is None or graph["edges"].shape[1] == 2 * entries
        assert len(graph["since"]) == len(graph["until"]) == graph["edges"].shape[1]
        snapshots = cut_up(graph, **windows)
        assert len(snapshots) == count
        assert edges is None or sum(len(listed(snapshot)) for snapshot in snapshots) == 2 * edges
        assert int(snapshots[-1]["arrived"].sum()) == ever


@pytest.mark.data
def test_snapshots_of_recorded_graphs_are_those_published(data_root: Path, cached_home: Path) -> None:
    for name, wanted in (("dblp3", DBLP3), ("dblp5", DBLP5)):
        found = cut_up(needed(data_root, name).load(data_root, 0), steps=10)
        assert [len(listed(snapshot)) // 2 for snapshot in found] == wanted
    found = cut_up(needed(data_root, "as_733").load(data_root, 0), steps=21)
    counts = [(len(snapshot["edges"].unique()), len(listed(snapshot)) // 2) for snapshot in found]
    assert (counts[0], counts[-1]) == ((1476, 3132), (3570, 7033))
    gone = [set(listed(before)) - set(listed(now)) for before, now in pairwise(found)]
    assert all(gone)  # edges are deleted every day
    for pairs, snapshot in zip(gone, found[1:], strict=True):
        assert snapshot["changed"][torch.tensor(sorted({a for pair in pairs for a in pair}))].all()


@pytest.mark.data
def test_labels_are_those_published(data_root: Path, cached_home: Path) -> None:
    assert torch.bincount(needed(data_root, "patent").load(data_root, 0)["y"]).tolist() == PATENT
    school = torch.bincount(needed(data_root, "primary_school").load(data_root, 0)["y"]).tolist()
    assert (len(school), sum(school), school[-1]) == (11, 242, 10)  # the last in the alphabet are the ten teachers
    assert (needed(data_root, "as_733").load(data_root, 0)["y"] == -1).all()


@pytest.mark.data
def test_bitcoin_otc_is_the_same_in_every_time_zone_and_as_counted_in_utc(
    data_root: Path, cached_home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    needed(data_root, "bitcoin_otc")
    counts = []
    for zone in ("UTC", "America/New_York"):
        monkeypatch.setenv("TZ", zone)
        homes.move(monkeypatch, tmp_path / zone)
        (tmp_path / zone).mkdir(parents=True)
        time.tzset()
        graph = BitcoinOtc().load(data_root, 0)
        windows = torch.searchsorted(bounds_of(graph, None, 13.8 * 86400), graph["since"], right=True) - 1
        counts.append((torch.bincount(windows) // 2).tolist())
    monkeypatch.undo()
    time.tzset()
    text = (data_root / "BitcoinOTC/raw/soc-sign-bitcoinotc.csv").read_text().split()
    stamps = [float(line.split(",")[3]) for line in text]
    origin, wanted = datetime.fromtimestamp(stamps[0]).astimezone(), [0] * 138
    for stamp in stamps:
        wanted[(datetime.fromtimestamp(stamp).astimezone() - origin) // timedelta(days=13.8)] += 1
    assert counts == [wanted, wanted]
    assert sum(wanted) == 35592


@pytest.mark.parametrize("name", MEASURED)
def test_what_is_missing_is_one_message_with_the_mend(name: str, offline: Path) -> None:
    with pytest.raises(UserError, match=r"data\.dataset: .*/raw lacks .*copy the missing files there, or set FEDSIM"):
        find.build("dataset", Part(name=name)).load(offline, 0)


def write_otc(data: Path) -> None:
    raw = data / "BitcoinOTC" / "raw"
    raw.mkdir(parents=True)
    (raw / "soc-sign-bitcoinotc.csv").write_text("9,2,4,100.5\n2,9,1,101.25\n2,7,-3,104\n")


def test_features_are_made_up_as_asked(offline: Path) -> None:
    write_otc(offline)
    constant, numbers, degrees = (
        BitcoinOtc(features=kind, width=3).load(offline, 0)  # type: ignore[arg-type]
        for kind in ("constant", "onehot", "degree")
    )
    assert constant["x"].tolist() == [[1, 1, 1]] * 3
    assert numbers["x"].to_dense().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert constant["edges"].tolist() == [[0, 0, 0, 1, 2, 2], [1, 2, 2, 0, 0, 0]]  # 2, 7, 9 in their order
    assert constant["since"].tolist() == [104, 100.5, 101.25, 104, 100.5, 101.25]
    first, second = cut_up(degrees, steps=2)
    assert first["x"].argmax(1).tolist() == [1, 0, 1]
    assert second["x"].argmax(1).tolist() == [1, 1, 0]
    (only,) = cut_up(degrees, steps=1)
    assert only["x"].argmax(1).tolist() == [2, 1, 1]
    with pytest.raises(ValidationError, match="Input should be"):
        TypeAdapter(BitcoinOtc).validate_python({"features": "ones"})


def test_a_gzipped_file_is_fetched_and_unpacked(offline: Path) -> None:
    (offline / "far.txt.gz").write_bytes(gzip.compress(b"1 2\n"))
    seen = []

    def read(folder: Path) -> Graph:
        seen.append((folder / "near.txt").read_text())
        raise ValueError("no more")

    with pytest.raises(UserError, match="no more"):
        prepared(offline / "Toy" / "raw", {"near.txt": (offline / "far.txt.gz").as_uri()}, read)
    assert seen == ["1 2\n"]


def star(path: Path, **changed: Any) -> Path:
    """Write three nodes in four snapshots: 0-1 in all but the third, 1-2 in the last; 2 is unlabelled."""
    adjs = np.zeros((4, 3, 3))
    adjs[[0, 1, 3], 0, 1] = adjs[3, 2, 1] = adjs[:, 0, 0] = 1
    arrays = {"adjs": adjs, "attmats": np.arange(24.0).reshape(3, 4, 2), "labels": np.eye(4)[[2, 0, 0]]}
    arrays["labels"][2] = 0
    np.savez(path, **{**arrays, **changed})
    return path


def test_star_arrays_are_read_with_features_that_change(offline: Path) -> None:
    dataset = find.build("dataset", Part(name="star_arrays", options={"file": str(star(offline / "own.npz"))}))
    for _ in range(2):
        graph = dataset.load(Path("elsewhere"), 0)
        snapshots = cut_up(graph, steps=4)
        assert [listed(each) for each in snapshots] == [
            [(0, 1), (1, 0)], [(0, 1), (1, 0)], [], [(0, 1), (1, 0), (1, 2), (2, 1)],
        ]  # fmt: skip
        assert [each["x"].tolist() for each in snapshots][1] == [[2, 3], [10, 11], [18, 19]]
        assert graph["y"].tolist() == [2, 0, -1]
        assert all(each["arrived"].all() for each in snapshots)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": np.eye(2)}, r"must be \(T, N, N\), \(N, T, F\) and \(N, C\)"),
        ({"adjs": np.zeros((3, 3))}, r"must be \(T, N, N\)"),
        ({"attmats": np.array([{}, []], dtype=object)}, "allow_pickle=False"),
    ],
)
def test_arrays_that_do_not_fit_are_reported(changed: dict[str, Any], message: str, offline: Path) -> None:
    path = star(offline / "own.npz", **changed)
    with pytest.raises(UserError, match=message):
        find.build("dataset", Part(name="star_arrays", options={"file": str(path)})).load(Path(), 0)


def test_a_table_of_events_is_read_by_its_columns(offline: Path) -> None:
    path = offline / "events.csv"
    path.write_text("timestamp, destination,weight,source\n5,b,1.5,a\n3,c,,b\n5,a,2,a\n")
    options = {"file": str(path), "width": 2}
    graph = find.build("dataset", Part(name="tgb", options=options)).load(Path(), 0)
    assert graph["edges"].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert graph["since"].tolist() == [5, 5, 3, 3]
    path.write_text("source,destination,timestamp\n10,2,0\n2,3,1\n")
    os.utime(path, (1, 1))
    graph = find.build("dataset", Part(name="tgb", options=options)).load(Path(), 0)
    assert listed(graph) == [(0, 1), (0, 2), (1, 0), (2, 0)]  # 2, 3, 10: by number


def test_features_of_events_are_read_from_the_columns_named(offline: Path) -> None:
    path = offline / "events.csv"
    path.write_text("timestamp, destination,weight,source,size\n5,b,1.5,a,7\n3,c,-2,b,8\n5,a,2,a,9\n")
    both, one = [[7, 1.5], [7, 1.5], [8, -2], [8, -2]], [[1.5], [1.5], [-2], [-2]]
    for columns, message in ((["size", "weight"], both), (["weight"], one)):
        options = {"file": str(path), "message": columns}
        graph = find.build("dataset", Part(name="tgb", options=options)).load(Path(), 0)
        assert graph["edges"].tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
        assert graph["message"].tolist() == message
    assert "message" not in find.build("dataset", Part(name="tgb", options={"file": str(path)})).load(Path(), 0)
    for column, told in (("source", "could not convert"), ("height", "the header lacks height")):
        with pytest.raises(UserError, match=told):
            find.build("dataset", Part(name="tgb", options={"file": str(path), "message": [column]})).load(Path(), 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("u,i,ts\n1,2,3\n", "the header lacks source, destination, timestamp; it has u, i, ts"),
        ("source,destination,timestamp\n1,2,3\n1,,3\n", "line 3 lacks a value"),
        ("source,destination,timestamp\n1,2,noon\n", "noon"),
    ],
)
def test_tables_that_do_not_fit_are_reported(text: str, message: str, offline: Path) -> None:
    (offline / "events.csv").write_text(text)
    part = Part(name="tgb", options={"file": str(offline / "events.csv")})
    with pytest.raises(UserError, match=message):
        find.build("dataset", part).load(Path(), 0)


@pytest.mark.parametrize("name", ["tgb", "star_arrays"])
def test_a_file_of_the_users_own_must_be_there(name: str) -> None:
    with pytest.raises(ScenarioError, match="nowhere"):
        find.build("dataset", Part(name=name, options={"file": "/nowhere/at/all.npz"}))
    with pytest.raises(ScenarioError, match="needs the option 'file'"):
        find.build("dataset", Part(name=name))


GROWING = Drifting(nodes=600, edges=2400, classes=4, features=8, snapshots=8, growth=0.5, removal=0.2)


def test_the_drawn_graph_grows_and_loses_edges_as_asked() -> None:
    graph = GROWING.load(Path(), 3)
    snapshots = cut_up(graph, steps=8)
    there = [int(each["arrived"].sum()) for each in snapshots]
    assert there[0] == 300
    assert there[-1] == 600
    assert max(np.diff(there)) - min(np.diff(there)) <= 1
    for count, each in zip(there, snapshots, strict=True):
        assert len(listed(each)) // 2 == round(2400 * count / 600)
        assert each["arrived"][each["edges"]].all()
        same = (graph["y"][each["edges"][0]] == graph["y"][each["edges"][1]]).float().mean()
        assert float(same) == pytest.approx(0.8, abs=0.02)
    sets = [set(listed(each)) for each in snapshots]
    left = [len(before - now) / len(before) for before, now in pairwise(sets)]
    assert np.mean(left) == pytest.approx(0.2, abs=0.02)
    assert graph["y"].unique().tolist() == [0, 1, 2, 3]


def test_the_drawn_graphs_features_and_mix_drift() -> None:
    still, moving = (
        Drifting(nodes=4000, edges=8000, classes=4, snapshots=8, drift=drift, removal=0.0, signal=3.0).load(Path(), 1)
        for drift in (0.0, 0.6)
    )

    def facts(graph: Graph) -> tuple[float, float]:
        snapshots = cut_up(graph, steps=8)
        first, last = snapshots[0]["arrived"], snapshots[-1]["arrived"] & ~snapshots[-2]["arrived"]
        mix = [torch.bincount(graph["y"][rows], minlength=4) / int(rows.sum()) for rows in (first, last)]
        mean = [graph["frames"][t][rows & (graph["y"] == 0)].mean(0) for t, rows in ((0, first), (7, last))]
        assert int(first.sum()) == 2000
        kept = [(a["x"] == b["x"]).all(1)[a["arrived"]].float().mean() for a, b in pairwise(snapshots)]
        assert float(np.mean(kept)) == pytest.approx(0.9, abs=0.01)  # a tenth is renewed each time
        return float((mix[0] - mix[1]).abs().sum()), float((mean[0] - mean[1]).norm())

    assert facts(still)[0] < 0.2 < facts(moving)[0]
    assert facts(still)[1] < 1.5 < facts(moving)[1]


def test_the_drawn_graph_is_the_seeds() -> None:
    one, again, other = (GROWING.load(Path(), seed) for seed in (1, 1, 2))
    for key in ("edges", "since", "until", "y", "frames", "born"):
        assert torch.equal(one[key], again[key])  # type: ignore[literal-required]
    assert not torch.equal(one["edges"], other["edges"])
    (only,) = cut_up(Drifting(nodes=50, edges=60, snapshots=1).load(Path(), 0), steps=1)
    assert (len(listed(only)), int(only["arrived"].sum())) == (120, 50)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"classes": 1}, "classes must be 2 or more"),
        ({"nodes": 20, "growth": 0.9}, "at least twice as many"),
        ({"drift": -1.0}, "drift"),
        ({"edges": 200_000}, "too many for so few nodes"),
    ],
)
def test_options_without_meaning_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TypeAdapter(Drifting).validate_python(options)


def test_edges_that_cannot_be_drawn_are_reported() -> None:
    crowded = Drifting(nodes=60, edges=400, classes=10, homophily=1.0, growth=0.0)
    with pytest.raises(ScenarioError, match=r"data\.dataset\.edges: not enough different edges"):
        crowded.load(Path(), 0)

"""The stream of snapshots: whose edges each period has, what is scored on later ones, and whole runs."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import homes
import numpy as np
import pytest
import small_points
import torch
from drawn_graphs import drawn, names_to_streams
from extras import METIS
from fake_events import Stretch, entries, graph_of_stretches, in_whole_numbers, listed
from hypothesis import given, settings
from hypothesis import strategies as st
from metrics_by_name import splits as splits_by_name

from algorithms.local import Local
from fedsim import __main__ as command_line
from fedsim.core.errors import ScenarioError
from fedsim.core.units import Updates
from fedsim.data.datasets.drifting import Drifting
from fedsim.data.graph import Graph, Period
from fedsim.data.graphs.split import SplitOptions
from fedsim.data.partition import Partition
from fedsim.data.partitions.metis import Metis
from fedsim.data.partitions.random import Random
from fedsim.data.streams.snapshots import Snapshots
from fedsim.data.streams.static import Static
from fedsim.learn.tasks.node_classification import NodeClassification
from fedsim.point.build import learning, prepared
from fedsim.point.build.parts import Parts
from fedsim.scenario.part import Part

N = 12
HALF = SplitOptions(0.4, 0.2)
SMALL: dict[str, Any] = {
    "name": "drifting", "nodes": 90, "edges": 200, "classes": 3, "features": 6, "snapshots": 6, "growth": 0.7,
}  # fmt: skip


def stream(**options: Any) -> Snapshots:
    return Snapshots(every=Updates(2), **{"steps": 5, **options})


def cut_up(
    told: list[Stretch],
    clients: int = 3,
    split: SplitOptions = HALF,
    partition: Partition | None = None,
    **options: Any,
) -> tuple[list[Graph], list[list[np.ndarray]], list[list[Period]]]:
    cutter = stream(**options)
    snapshots = cutter.snapshots(graph_of_stretches(told, N))
    owned = (partition or Random()).follow(snapshots, clients, np.random.default_rng(1))
    return list(snapshots), owned, cutter.prepare_snapshots(snapshots, owned, split, names_to_streams(2))


def enough(told: list[Stretch]) -> list[Stretch]:
    return [*told, *[(a, (a + 1) % N, 0.0, 0.0) for a in range(N)]]  # so that all can be given to some client


@given(told=entries.map(enough), window=st.integers(1, 3), scored=st.sampled_from(["ahead", "split"]))
@settings(max_examples=40, deadline=None)
def test_a_period_has_the_snapshots_edges_among_a_clients_own_nodes(
    told: list[Stretch], window: int, scored: str
) -> None:
    snapshots, owned, periods = cut_up(told, window=window, scored=scored)
    assert {len(own) for own in periods} == {5 if scored == "split" else 3}
    for client, own in enumerate(periods):
        for t, period in enumerate(own):
            mine, graph = owned[t][client].tolist(), period.graph
            assert period.number == t
            assert graph["node"].tolist() == sorted(mine)
            assert in_whole_numbers(graph) == {(a, b) for a, b in listed(snapshots[t]) if a in mine and b in mine}
            assert graph["edges"].shape[1] == len(in_whole_numbers(graph))
            assert torch.equal(graph["y"], snapshots[t]["y"][graph["node"]])


@given(told=entries.map(enough))
@settings(max_examples=40, deadline=None)
def test_no_edge_of_a_later_snapshot_is_trained_on(told: list[Stretch]) -> None:
    snapshots, _, periods = cut_up(told)
    sets = [set(listed(snapshot)) for snapshot in snapshots]
    for own in periods:
        for t, period in enumerate(own):
            assert not in_whole_numbers(period.graph) & ((sets[t + 1] | sets[t + 2]) - sets[t])
            following, later = period.ahead
            assert in_whole_numbers(following) <= sets[t + 1]
            assert in_whole_numbers(later) <= sets[t + 2]
            for graph, split in ((period.graph, "train"), (following, "val"), (later, "test")):
                assert torch.equal(graph[split], graph["y"] >= 0)  # type: ignore[literal-required]
                others = {"train", "val", "test"} - {split}
                assert not any(graph[other].any() for other in others)  # type: ignore[literal-required]


@given(told=entries.map(enough), seed=st.integers(0, 50))
@settings(max_examples=40, deadline=None)
def test_changed_holds_the_ends_of_own_edges_that_came_or_went(told: list[Stretch], seed: int) -> None:
    cutter = stream()
    snapshots = cutter.snapshots(graph_of_stretches(told, N))
    rng = np.random.default_rng(seed)
    owned = []
    for snapshot in snapshots:  # owners change as they like, and some nodes have none
        owner = rng.integers(-1, 3, N)
        there = snapshot["arrived"].numpy()
        owned.append([np.flatnonzero((owner == client) & there) for client in range(3)])
    for own in cutter.prepare_snapshots(snapshots, owned, HALF, names_to_streams(2)):
        assert own[0].graph["changed"].all()
        graphs = [own[0].graph, own[1].graph, own[2].graph, own[2].ahead[0], own[2].ahead[1]]
        earlier: set[int] = set()
        for before, now in pairwise(graphs):
            touched = {a for pair in in_whole_numbers(before) ^ in_whole_numbers(now) for a in pair}
            come = set(now["node"].tolist()) - set(before["node"].tolist())
            mine = now["node"]
            changed = (touched | come | (earlier if now is graphs[-1] else set())) & set(mine.tolist())
            assert set(mine[now["changed"]].tolist()) == changed  # of both later graphs, since the present one
            earlier = changed


@METIS
@given(told=entries.map(enough), clients=st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_by_default_owners_last_and_nodes_are_owned_once_they_are_there(told: list[Stretch], clients: int) -> None:
    snapshots, owned, _ = cut_up(told, clients, partition=Metis())
    last = {int(node): client for client, own in enumerate(owned[-1]) for node in own}
    for snapshot, lists in zip(snapshots, owned, strict=True):
        assert sorted(np.concatenate(lists).tolist()) == snapshot["arrived"].nonzero().flatten().tolist()
        assert all(last[int(node)] == client for client, own in enumerate(lists) for node in own)
    assert sorted(last) == list(range(N))


def test_a_node_that_is_not_there_cannot_be_owned() -> None:
    cutter = stream(steps=3)
    snapshots = cutter.snapshots(graph_of_stretches([(0, 1, 0.0, 9.0), (2, 3, 8.0, 9.0)], 4))
    with pytest.raises(ValueError, match="snapshot 0, but has not arrived"):
        cutter.prepare_snapshots(snapshots, [[np.arange(4)]] * 3, HALF, names_to_streams(0))


def test_degrees_are_those_among_a_clients_own_nodes() -> None:
    graph = graph_of_stretches([(0, 1, 0.0, 9.0), (0, 2, 0.0, 9.0), (0, 3, 0.0, 9.0), (0, 4, 3.0, 9.0)], 5)
    graph = Graph(**{**graph, "x": torch.zeros(5, 4), "bins": torch.tensor([0, 1, 2, 3])})
    snapshots = (cutter := stream(steps=3)).snapshots(graph)
    assert [snapshot["x"][0].argmax().item() for snapshot in snapshots] == [3, 3, 3]
    owned = [[np.array([0, 1, 2]), np.array([3])], *[[np.array([0, 1, 2]), np.array([3, 4])]] * 2]
    (first, second) = cutter.prepare_snapshots(snapshots, owned, HALF, names_to_streams(0))
    assert first[0].graph["x"].argmax(1).tolist() == [2, 1, 1]
    assert second[0].ahead[1]["x"].argmax(1).tolist() == [0, 0]


def test_shares_divide_the_nodes_once_for_all_snapshots() -> None:
    told = enough([(a, (a + 3) % N, float(a), 30.0) for a in range(N)])
    snapshots, _, periods = cut_up(told, scored="split")
    for own in periods:
        assert not any(period.ahead for period in own)
        for period in own:
            graph, whole = period.graph, own[-1].graph
            later = dict(zip(whole["node"].tolist(), range(len(whole["y"])), strict=True))
            rows = torch.tensor([later[node] for node in graph["node"].tolist()], dtype=torch.long)
            for split in ("train", "val", "test"):
                assert torch.equal(graph[split], whole[split][rows])  # type: ignore[literal-required]
    total = {split: sum(int(own[-1].graph[split].sum()) for own in periods) for split in ("train", "val", "test")}  # type: ignore[literal-required]
    assert min(total.values()) > 0
    assert sum(total.values()) == int((snapshots[-1]["y"] >= 0).sum())


def test_fewer_labels_leave_train_only_and_the_same_ones_at_all_times() -> None:
    told = enough([(a, (a + 3) % N, 0.0, 30.0) for a in range(N)])
    whole, half = (cut_up(told, split=SplitOptions(labels=share))[2] for share in (1.0, 0.5))
    kept = {int(v) for own in half for v in own[0].graph["node"][own[0].graph["train"]]}
    assert 0 < len(kept) < sum(period.training_nodes for period in [own[0] for own in whole])
    for full, thin in zip(whole, half, strict=True):
        for before, after in zip(full, thin, strict=True):
            assert set(after.graph["node"][after.graph["train"]].tolist()) <= kept
            for one, other in zip(before.ahead, after.ahead, strict=True):
                assert torch.equal(one["val"], other["val"])
                assert torch.equal(one["test"], other["test"])


def test_graphs_that_cannot_be_cut_are_reported_with_the_remedy() -> None:
    with pytest.raises(ScenarioError, match=r"data\.stream: 'snapshots' needs a data set that changes"):
        stream().snapshots(drawn(20, 2, 0))
    with pytest.raises(ScenarioError, match="needs a data set that changes"):
        stream().prepare([drawn(20, 2, 0)], HALF, names_to_streams(0))
    with pytest.raises(ScenarioError, match="all edges occur at second 4"):
        stream().snapshots(graph_of_stretches([(0, 1, 4.0, 4.0)], 2))
    with pytest.raises(ScenarioError, match="there are 2 snapshots, and the last two only score"):
        stream(steps=2).snapshots(graph_of_stretches([(0, 1, 4.0, 9.0)], 2))
    assert len(stream(steps=2, scored="split").snapshots(graph_of_stretches([(0, 1, 4.0, 9.0)], 2))) == 2
    assert Static().snapshots(drawn(20, 2, 0)) is None


@pytest.mark.parametrize("options", [{"steps": None}, {"step": 5.0}], ids=str)
def test_windows_are_told_in_exactly_one_way(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give one of 'steps'"):
        stream(**options)


def described(clients: int, **data: Any) -> prepared.Prepared:
    plain = small_points.scenario(
        data__dataset=SMALL, data__stream={"name": "snapshots", "steps": 6, "every": "2 updates"}, **data
    )
    assert plain.data is not None
    return prepared.periods_of(plain.data.model_dump_json(), clients, 3, Path(), "cpu")


def test_the_server_overlooks_the_whole_graph() -> None:
    made = described(4)
    overview = made.overview
    assert overview is not None
    assert (made.features, made.classes, len(made.periods)) == (6, 3, 4)
    assert len(overview.snapshots) == len(overview.owners) == len(overview.seeds) == 6
    for t, (snapshot, owner) in enumerate(zip(overview.snapshots, overview.owners, strict=True)):
        assert np.array_equal(owner >= 0, snapshot["arrived"].numpy())
        if t < 4:
            for client, own in enumerate(made.periods):
                assert own[t].graph["node"].tolist() == np.flatnonzero(owner == client).tolist()
    owners = overview.owners[0][overview.snapshots[0]["edges"].numpy()]
    inside = int((owners[0] == owners[1]).sum())
    assert inside == sum(own[0].graph["edges"].shape[1] for own in made.periods)
    assert 0 < inside < owners.shape[1]  # it sees the edges between clients too


def test_what_is_kept_of_edges_is_the_same_at_all_times() -> None:
    kept = described(2, data__keep={"edges": 0.5, "features": 0.5}).overview
    full = described(2).overview
    assert kept is not None
    assert full is not None
    pairs: list[set[tuple[int, int]]] = [set(), set()]
    for thin, whole in zip(kept.snapshots, full.snapshots, strict=True):
        mine, theirs = set(listed(thin)), set(listed(whole))
        assert mine <= theirs
        pairs[0] |= mine
        pairs[1] |= theirs - mine
        filled = whole["x"] != 0
        assert torch.equal(thin["x"][thin["x"] != 0], whole["x"][thin["x"] != 0])
        assert 0.35 < (thin["x"][filled] == 0).float().mean() < 0.65
    assert pairs[0]
    assert not pairs[0] & pairs[1]


def test_a_stream_without_time_sees_every_edge_there_ever_was(tmp_path: Path) -> None:
    row = small_points.run_in(tmp_path / "run", data__dataset=SMALL, data__stream="static")
    assert row["status"] == "done"
    plain = small_points.scenario(data__dataset=SMALL, data__stream="static")
    assert plain.data is not None
    made = prepared.periods_of(plain.data.model_dump_json(), 1, 3, Path(), "cpu")
    whole = Drifting(**{key: value for key, value in SMALL.items() if key != "name"}).load(Path(), 3)
    assert made.overview is None
    assert made.periods[0][0].graph["edges"].shape[1] == len({(a, b) for a, b in whole["edges"].T.tolist()})


def whole_run(folder: Path, **changes: Any) -> dict[str, Any]:
    rules = {"metrics": ["accuracy"], "models": ["global", "local"], "splits": ["test", "val", "train"]}
    sync = {"name": "sync", "rounds": 8, "participation": 1.0}
    cut = {"name": "snapshots", "steps": 6, "every": "2 updates"}
    own = {"data__dataset": SMALL, "data__stream": cut, "protocol": sync, "measure": rules}
    return small_points.run_in(folder, **{**own, **changes})


def test_a_whole_run_trains_on_each_snapshot_and_scores_on_later_ones(tmp_path: Path) -> None:
    row = whole_run(tmp_path / "run")
    assert row["status"] == "done"
    assert row["score"] > 0.4  # three classes
    made = described(5)
    scores = small_points.table(tmp_path / "run", "scores")
    assert {score["period"] for score in scores} == {0, 1, 2, 3}
    for score in scores:
        period = made.periods[score["client"]][score["period"]]
        ahead = {"train": period.graph, "val": period.ahead[0], "test": period.ahead[1]}[score["split"]]
        assert score["weight"] == len(ahead["y"])
    arrivals = small_points.table(tmp_path / "run", "arrivals")
    assert sorted((row["client"], row["period"]) for row in arrivals) == [(k, t) for k in range(5) for t in range(4)]


def test_clients_without_a_node_take_part(tmp_path: Path) -> None:
    many = {"count": 45, "speed": "100 kFLOP/s"}
    row = whole_run(tmp_path / "run", clients=many)
    assert row["status"] == "done"
    assert min(len(own[0].graph["y"]) for own in described(45).periods) == 0
    assert row["folded"] == 8 * 45


@pytest.mark.long
def test_a_scenario_in_yaml_runs_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cut = {"name": "snapshots", "step": "1500 ms", "window": 2, "every": "1 update"}
    plain = small_points.scenario(data__dataset=SMALL, data__stream=cut, grid={"seed": [0, 1]}).plain()
    (tmp_path / "asks.yaml").write_text(json.dumps(plain), encoding="utf-8")  # JSON is YAML too
    assert command_line.main(["asks.yaml", "--jobs", "1"]) == 0
    arrivals = [
        table for path in tmp_path.rglob("arrivals.parquet") for table in small_points.table(path.parent, "arrivals")
    ]
    assert {row["period"] for row in arrivals} == {0, 1}  # four windows of 1.5 s in six


def test_scores_equal_those_of_each_later_graph_alone(tmp_path: Path) -> None:
    from fedsim.learner.scoring.plans import Plans

    period = described(2).periods[0][1]
    plain, splits = Period(0, period.graph), splits_by_name("train", "val", "test")
    assert splits["train"].graphs(period) == (period.graph,)
    assert splits["val"].graphs(period) == splits["test"].graphs(period) == period.ahead
    assert splits["test"].graphs(plain) == (period.graph,)
    plans = Plans({}, NodeClassification(), Local(), splits)
    plan = plans.of(True, [(0, period, 1), (1, plain, 1)])
    sizes = [len(graph["y"]) for graph in (period.graph, *period.ahead)]
    rows, owner = plan.rows["test"]
    assert owner.unique().tolist() == [0]
    assert torch.equal(rows, torch.arange(sizes[2]) + sizes[0] + sizes[1])
    assert torch.equal(plan.joined.graph["y"][plan.rows["val"][0]], period.ahead[0]["y"])
    assert [len(plan.rows["train"][0])] == [2 * sizes[0]]


def test_a_graph_without_labels_cannot_be_classified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    homes.move(monkeypatch, tmp_path / "home")
    path = tmp_path / "events.csv"
    path.write_text("source,destination,timestamp\n" + "".join(f"{a},{a + 1},{a}\n" for a in range(30)))
    with pytest.raises(ScenarioError, match=r"data\.dataset: 'tgb' has no labels to learn"):
        whole_run(tmp_path / "run", data__dataset={"name": "tgb", "file": str(path)})


def test_an_algorithm_is_shown_what_the_server_overlooks() -> None:
    scenario = small_points.scenario(
        data__dataset=SMALL, data__stream={"name": "snapshots", "steps": 6, "every": "2 s"}
    )
    told = {}
    for name, stream_ in (("snapshots", scenario.data.stream), ("static", Part(name="static"))):  # type: ignore[union-attr]
        data = scenario.data.model_copy(update={"stream": stream_})  # type: ignore[union-attr]
        lesson = learning.prepare(Parts(scenario.model_copy(update={"data": data})), Path())
        told[name] = lesson.algorithm.overview
    assert told["static"] is None
    assert len(told["snapshots"].snapshots) == 6


def test_a_table_tells_of_each_partition_and_the_server_is_billed_for_what_was_read(tmp_path: Path) -> None:
    whole_run(tmp_path / "run", data__partition={"name": "colearn", "tau": 0.0}, server={"speed": "1 kFLOP/s"})
    made = described(5, data__partition={"name": "colearn", "tau": 0.0})
    assert made.overview is not None
    assert made.overview.scanned is not None
    rows = small_points.table(tmp_path / "run", "partitions")
    arrivals = small_points.table(tmp_path / "run", "arrivals")
    served = [
        (span["start"], span["end"]) for span in small_points.table(tmp_path / "run", "spans") if span["client"] == -1
    ]
    assert [row["snapshot"] for row in rows] == [0, 1, 2, 3]
    for row in rows:
        t = row["snapshot"]
        owner, edges = made.overview.owners[t], made.overview.snapshots[t]["edges"].numpy()
        inside = [int((owner[edges] == client).all(0).sum()) // 2 for client in range(5)]
        assert row["time"] == min(one["time"] for one in arrivals if one["period"] == t)
        assert (row["edges"], row["cut"], row["largest"]) == (
            edges.shape[1] // 2, edges.shape[1] // 2 - sum(inside), max(inside),
        )  # fmt: skip
        assert (row["nodes"], row["owners"]) == ((owner >= 0).sum(), len({*owner[owner >= 0]}))
        before = made.overview.owners[max(0, t - 1)]
        assert row["moved"] == ((owner != before) & (owner >= 0) & (before >= 0)).sum()
        assert row["scanned"] == made.overview.scanned[t] > 0
        assert any(start == row["time"] and end == start + row["scanned"] / 1e3 for start, end in served)


def test_what_nobody_has_counted_costs_no_time(tmp_path: Path) -> None:
    whole_run(tmp_path / "run", data__partition="random")
    assert [row["scanned"] for row in small_points.table(tmp_path / "run", "partitions")] == [-1] * 4
    spans = [span for span in small_points.table(tmp_path / "run", "spans") if span["client"] == -1]
    assert all(span["start"] > 0 for span in spans)  # nothing before the first update
    small_points.run_in(tmp_path / "still")
    assert small_points.table(tmp_path / "still", "partitions") == []

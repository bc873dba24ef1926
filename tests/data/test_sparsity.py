from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_points
import torch
from drawn_graphs import drawn, graphs, names_to_streams, same
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from fedsim.data.graph import Graph, Period, graph_of, sparse_if_worth
from fedsim.data.graphs.sparsity import fewer
from fedsim.data.graphs.split import SplitOptions, split_all
from fedsim.point.build.prepared import periods_of
from fedsim.scenario.learning import Data, Keep
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

Thin = Callable[[Sequence[Graph], float, Callable[[str], np.random.Generator]], list[Graph]]
fewer_features, fewer_edges, fewer_labels = (partial(fewer, kind) for kind in ("features", "edges", "labels"))
KINDS: list[Thin] = [fewer_features, fewer_edges, fewer_labels]
shares = st.floats(0.01, 1.0)
few = settings(deadline=None, max_examples=25)


def trained(graph: Graph) -> Graph:
    """Return the graph with two thirds of its nodes to train on."""
    return split_all([graph], SplitOptions(0.67, 0.2), names_to_streams(3))[0]


def stored(graph: Graph) -> Graph:
    """Return the graph with sparse features."""
    x = graph["x"]
    return Graph(**{**graph, "x": x if x.layout == torch.sparse_csr else sparse_if_worth(x, below=2.0, wide=0)})


def items(graph: Graph) -> list[set[Any]]:
    """Return what each kind can take: non-zero entries with their values, directed edges, nodes to train on."""
    x = graph["x"].to_dense()
    entries = {(*at, float(x[tuple(at)])) for at in x.nonzero().tolist()}
    return [entries, set(map(tuple, graph["edges"].T.tolist())), set(graph["train"].nonzero().squeeze(1).tolist())]


def within_binomial(kept: int, count: int, share: float) -> bool:
    """Return whether so many of `count` independent items are no surprise: within six standard deviations."""
    return abs(kept - share * count) <= 6 * sqrt(count * share * (1 - share)) + 1e-9


@pytest.mark.parametrize("kind", range(3))
@given(graph=graphs, sparse=st.booleans(), small=shares, large=shares, seed=st.integers(0, 99))
@few
def test_a_smaller_share_keeps_a_subset_and_touches_nothing_else(
    kind: int, graph: Graph, sparse: bool, small: float, large: float, seed: int
) -> None:
    small, large = sorted((small, large))
    whole = trained(stored(graph) if sparse else graph)
    one, two = (KINDS[kind]([whole], share, names_to_streams(seed))[0] for share in (small, large))
    assert items(one)[kind] <= items(two)[kind] <= items(whole)[kind]
    for other in {0, 1, 2} - {kind}:
        assert items(one)[other] == items(whole)[other]
    for name in ("y", "val", "test", "client", "sizes"):
        assert torch.equal(one[name], whole[name])  # type: ignore[literal-required]


@pytest.mark.parametrize("thin", KINDS)
def test_a_share_of_one_is_the_same_tensors_and_draws_nothing(thin: Thin) -> None:
    def refuse(name: str) -> np.random.Generator:
        raise AssertionError(name)

    whole = trained(drawn(30, 3, 1))
    (done,) = thin([whole], 1.0, refuse)
    assert all(done[name] is whole[name] for name in ("x", "edges", "train"))  # type: ignore[literal-required]


@pytest.mark.parametrize("share", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("sparse", [False, True])
def test_what_is_kept_is_binomial(share: float, sparse: bool) -> None:
    graph = trained(drawn(2000, 3, 5, edges=4000))
    graph = stored(graph) if sparse else graph
    for kind, thin in enumerate(KINDS):
        kept, before = (len(items(g)[kind]) for g in (thin([graph], share, names_to_streams(8))[0], graph))
        pair = 2 if thin is fewer_edges else 1  # both directions are one edge
        assert kept % pair == 0
        assert within_binomial(kept // pair, before // pair, share)
        assert kept not in (0, before)


def test_every_entry_edge_and_label_is_as_likely_as_another() -> None:
    every = torch.ones(6, dtype=torch.bool)
    graph = graph_of(torch.ones(6, 4), torch.tensor([[0, 1, 4, 5], [1, 0, 5, 4]]), torch.zeros(6), every)
    runs = range(600)
    left = sum(fewer_features([graph], 0.3, names_to_streams(seed))[0]["x"] for seed in runs)
    assert isinstance(left, Tensor)
    assert all(within_binomial(int(times), len(runs), 0.3) for times in left.flatten())
    first = [(0, 1) in items(fewer_edges([graph], 0.3, names_to_streams(seed))[0])[1] for seed in runs]
    assert within_binomial(sum(first), len(runs), 0.3)
    told = torch.stack([fewer_labels([graph], 0.3, names_to_streams(seed))[0]["train"] for seed in runs]).sum(0)
    assert all(within_binomial(int(times), len(runs), 0.3) for times in told)


@given(graph=graphs, share=shares, seed=st.integers(0, 99))
@few
def test_both_directions_of_an_edge_stay_or_go_together(graph: Graph, share: float, seed: int) -> None:
    order = torch.randperm(graph["edges"].shape[1], generator=torch.Generator().manual_seed(seed))
    mixed = Graph(**{**graph, "edges": graph["edges"][:, order]})  # in the order of a cut, edges need not be sorted
    one, two = (items(fewer_edges([g], share, names_to_streams(seed))[0])[1] for g in (graph, mixed))
    assert one == two
    assert {(target, source) for source, target in one} == one


@given(graph=graphs, share=shares, seed=st.integers(0, 99))
@few
def test_sparse_features_stay_well_formed(graph: Graph, share: float, seed: int) -> None:
    whole = stored(graph)["x"]
    x = fewer_features([stored(graph)], share, names_to_streams(seed))[0]["x"]
    assert (x.layout, x.shape, x.dtype) == (torch.sparse_csr, whole.shape, whole.dtype)
    again = sparse_if_worth(x.to_dense(), below=2.0, wide=0)
    for part in ("crow_indices", "col_indices", "values"):  # nothing that is zero is stored
        assert torch.equal(getattr(x, part)(), getattr(again, part)())


def test_a_client_and_a_kind_have_a_stream_of_their_own() -> None:
    asked: list[str] = []
    rng = names_to_streams(4)

    def noted(name: str) -> np.random.Generator:
        asked.append(name)
        return rng(name)

    some = [trained(drawn(40, 3, seed)) for seed in range(3)]
    for thin in KINDS:
        two = thin([some[0], some[1]], 0.5, noted)
        assert same(two[1], thin([some[2], some[1], some[0]], 0.5, rng)[1])
        assert not same(two[1], thin([some[0], some[1]], 0.5, names_to_streams(5))[1])
    assert asked == [f"data.keep.{kind}.{client}" for kind in ("features", "edges", "labels") for client in (0, 1)]


@pytest.mark.parametrize("numpy_seed", [None, 2025])
@pytest.mark.parametrize("name", [name for name in find.names("stream") if name != "snapshots"])  # see test_snapshots
def test_in_every_stream_labels_leave_train_only(name: str, numpy_seed: int | None) -> None:
    some = [drawn(200, 4, seed, edges=400) for seed in range(2)]
    stream = find.build("stream", Part(name=name, options={"every": "1 updates"} if name != "static" else {}))

    def prepared(share: float) -> list[Period]:
        split = SplitOptions(0.5, 0.2, numpy_seed, labels=share)
        return [period for own in stream.prepare(some, split, names_to_streams(6)) for period in own]

    whole, most, least = (prepared(share) for share in (1.0, 0.6, 0.2))
    assert len(whole) == len(most) == len(least) > 0
    for before, many, little in zip(whole, most, least, strict=True):
        assert items(little.graph)[2] <= items(many.graph)[2] <= items(before.graph)[2]
        for key in ("x", "edges", "y", "val", "test"):
            assert torch.equal(little.graph[key], before.graph[key])  # type: ignore[literal-required]
    counts = [sum(period.training_nodes for period in periods) for periods in (whole, most, least)]
    assert within_binomial(counts[1], counts[0], 0.6)
    assert within_binomial(counts[2], counts[0], 0.2)


def test_how_a_client_meets_its_data_does_not_decide_which_labels_it_has() -> None:
    some = [drawn(60, 4, 1, edges=200)]
    split = SplitOptions(0.5, 0.2, 2025, labels=0.4)
    kept = []
    for order in ("same", "numpy"):
        part = Part(
            name="class_incremental", options={"every": "1 updates", "classes": 2, "edges": "kept", "order": order}
        )
        (own,) = find.build("stream", part).prepare(some, split, names_to_streams(6))
        kept.append(torch.stack([period.graph["train"] for period in own]).any(0))
    assert torch.equal(*kept)


def periods(keep: dict[str, float]) -> list[list[Period]]:
    """Return the periods of two clients of a small drawn graph, as a scenario with this `data.keep` has them."""
    dataset = {"name": "synthetic", "nodes": 300, "classes": 4, "features": 8}
    stream = {"name": "class_incremental", "classes": 2, "every": "1 updates"}
    data = Data.model_validate({"dataset": dataset, "partition": "random", "keep": keep, "stream": stream})
    return periods_of(data.model_dump_json(), 2, 0, Path(), "cpu").periods


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_scenario_takes_each_kind_away_by_itself(kind: int) -> None:
    names = ("features", "edges", "labels")
    every, one, none = (periods(keep) for keep in (dict.fromkeys(names, 0.4), {names[kind]: 0.4}, {}))
    for all_thin, thin, whole in zip(*(own[0] + own[1] for own in (every, one, none)), strict=True):
        assert items(all_thin.graph)[kind] == items(thin.graph)[kind]  # whatever is taken of the others
        assert 0 < len(items(thin.graph)[kind]) < len(items(whole.graph)[kind])
        for other in {0, 1, 2} - {kind}:
            assert items(thin.graph)[other] == items(whole.graph)[other]


def test_shares_are_read_as_elsewhere_and_none_may_be_nothing() -> None:
    assert Keep.model_validate({"labels": "20 %", "edges": 0.5}) == Keep(features=1.0, edges=0.5, labels=0.2)
    for wrong in (0, "0 %", 1.5, -0.1):
        with pytest.raises(ValidationError, match=r"labels\n"):
            Keep.model_validate({"labels": wrong})


def test_sparsity_is_an_axis_of_a_grid() -> None:
    points = list(small_points.scenario(grid={"data.keep.labels": [1, "20 %"]}).points())
    assert [point.scenario.data.keep.labels for point in points if point.scenario.data] == [1.0, 0.2]
    assert points[0].id == small_points.scenario().id()  # a share of one is what is meant where nothing is said
    assert points[1].id != points[0].id


def test_a_run_goes_on_where_clients_have_no_label_left(tmp_path: Path) -> None:
    keep = {"features": 0.5, "edges": 0.5, "labels": 0.03}
    graphs = [period.graph for own in periods({"labels": 0.03}) for period in own]
    assert min(int(graph["train"].sum()) for graph in graphs) < 2 < min(int(graph["test"].sum()) for graph in graphs)
    row = small_points.run_in(tmp_path / "sparse", data__keep=keep)
    assert small_points.run_in(tmp_path / "again", data__keep=keep)["score"] == row["score"]
    assert small_points.files(tmp_path / "again") == small_points.files(tmp_path / "sparse")
    small_points.run_in(tmp_path / "whole")
    assert small_points.files(tmp_path / "whole") != small_points.files(tmp_path / "sparse")

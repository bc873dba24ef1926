"""GHOST's published partition: its draw, the size of its test graph, and what one-shot FedAvg reaches on it."""

from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_graphs import drawn
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from fedsim import simulate
from fedsim.core.errors import ScenarioError
from fedsim.data.datasets.planetoid import Planetoid
from fedsim.data.graph import Graph, graph_of
from fedsim.data.graphs.split import SplitOptions, split_all
from fedsim.data.partitions.dirichlet_ghost import DirichletGhost

PUBLISHED = Path(__file__).parents[2] / "scenarios" / "ghost_published.yaml"
PRINTED = 0.3061  # 334 of 1,091


def anywhere() -> np.random.Generator:
    return np.random.default_rng()


@given(
    graph=st.builds(drawn, nodes=st.integers(80, 300), classes=st.integers(5, 9), seed=st.integers(0, 999)),
    draw=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_every_node_has_one_owner_whatever_the_seed_of_the_run(graph: Graph, draw: int) -> None:
    own = DirichletGhost(draw_seed=draw).assign(graph, 4, anywhere())
    assert np.sort(np.concatenate(own)).tolist() == list(range(len(graph["y"])))
    assert min(map(len, own)) >= 5
    assert all((np.diff(mine) > 0).all() for mine in own)
    again = DirichletGhost(draw_seed=draw).assign(graph, 4, anywhere())
    assert all(np.array_equal(*pair) for pair in zip(own, again, strict=True))


def test_a_full_client_gets_no_further_class() -> None:
    y = torch.arange(8).repeat(50)
    graph = graph_of(torch.zeros(len(y), 1), torch.zeros(2, 0), y)
    for draw in range(20):
        *others, _ = DirichletGhost(draw_seed=draw).assign(graph, 4, anywhere())  # the last gets what rounding leaves
        for mine in others:
            counts = np.bincount(y.numpy()[mine], minlength=8)
            assert counts[: counts.nonzero()[0][-1]].sum() < 100


def test_what_cannot_be_drawn_or_makes_no_sense_is_refused() -> None:
    graph = graph_of(torch.zeros(60, 1), torch.zeros(2, 0), torch.arange(2).repeat(30))
    with pytest.raises(ScenarioError, match=r"in 50 tries no draw of alpha 0\.01 gave each of 8 clients 5 of 60"):
        DirichletGhost(alpha=0.01, tries=50).assign(graph, 8, anywhere())
    with pytest.raises(ValueError, match=r"alpha\n.*greater than 0"):
        TypeAdapter(DirichletGhost).validate_python({"alpha": 0.0})
    with pytest.raises(ValueError, match=r"draw_seed\n.*greater than or equal to 0"):
        TypeAdapter(DirichletGhost).validate_python({"draw_seed": -1})


@given(n=st.integers(1, 200), train=st.sampled_from([0.2, 0.25, 0.3]), val=st.sampled_from([0.1, 0.4, 0.45]))
@settings(max_examples=40, deadline=None)
def test_each_share_may_be_rounded_down_by_itself(n: int, train: float, val: float) -> None:
    graph = graph_of(torch.ones(n, 1), torch.zeros(2, 0), torch.zeros(n))
    options = SplitOptions(train, val, by="client", rounding="each")
    (done,) = split_all([graph], options, lambda name: np.random.default_rng(0))
    counts = [int(done[name].sum()) for name in ("train", "val", "test")]
    assert counts == [int(train * 100) * n // 100, round(val * 100) * n // 100, n - counts[0] - counts[1]]


@pytest.mark.data
def test_the_published_draw_of_cora_has_1091_test_nodes(data_root: Path, cached_home: Path) -> None:
    own = DirichletGhost().assign(Planetoid("Cora").load(data_root, 0), 10, anywhere())
    assert [len(mine) for mine in own] == [354, 304, 84, 146, 48, 350, 700, 574, 78, 70]
    assert sum(len(mine) - len(mine) * 2 // 10 - len(mine) * 4 // 10 for mine in own) == 1091


@pytest.mark.data
@pytest.mark.long
def test_the_printed_value_of_one_shot_fedavg_lies_among_those_of_six_first_weights(
    tmp_path: Path, data_root: Path
) -> None:
    axes = {"data.partition.draw_seed": [0], "algorithm": ["fedavg"], "seed": [*range(6)]}
    result = simulate(PUBLISHED, data=data_root, out=tmp_path, progress=False, grid=axes)
    scores = result.scores
    last = scores[(scores["split"] == "pooled") & (scores["version"] == 1)]
    assert set(last["weight"]) == {1091}
    values = last.groupby("run")["value"].mean()
    assert values.min() < PRINTED < values.max()
    assert (values - PRINTED).abs().min() < 0.01
    assert values.mean() == pytest.approx(PRINTED, abs=0.04)

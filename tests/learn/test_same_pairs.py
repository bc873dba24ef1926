"""Pairs that everybody is asked: the same for one client and for ten, for every algorithm, and for heuristics."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import small_points
import torch
from metrics_by_name import built
from sklearn.metrics import average_precision_score

from fedsim.core.errors import ScenarioError
from fedsim.data.graph import Graph, graph_of
from fedsim.data.graphs import common_pairs
from fedsim.learner.scoring import same_pairs

SPLITS = ("all_pairs", "own_pairs", "cut_pairs")
DATA: dict[str, Any] = {
    "name": "drifting", "nodes": 90, "edges": 270, "classes": 3, "snapshots": 4, "features": 4, "growth": 0.3,
}  # fmt: skip
STREAM = {"name": "snapshots", "steps": 4, "every": "1 updates", "scored": "links", "compared": 4}
RUN: dict[str, Any] = {
    "data__dataset": DATA, "data__partition": {"name": "colearn", "per_client": 60}, "data__stream": STREAM,
    "task": {"name": "link_prediction", "negatives": 20}, "model": {"name": "roland", "hidden": 4, "norm": "sum"},
    "protocol": {"name": "sync", "rounds": 2, "participation": 1.0},
    "measure": {
        "metrics": ["average_precision", "mrr"], "splits": ["test", *SPLITS],
        "heuristics": [*common_pairs.SCORERS],
    },
}  # fmt: skip
EXACT = {"name": "dg_colearn", "rounds": 1, "exchange": "exact"}
CENTRAL = {"name": "dg_colearn", "exchange": "none", "retrain": "full"}


def world(seed: int = 0, nodes: int = 60, edges: int = 150) -> tuple[Graph, torch.Tensor, np.ndarray]:
    rng = np.random.default_rng(seed)
    ends = np.unique(np.sort(rng.integers(0, nodes, (2, edges)) ** 2 // nodes, axis=0), axis=1)
    ends = ends[:, ends[0] != ends[1]]
    both = torch.from_numpy(np.concatenate([ends, ends[::-1]], axis=1))
    graph = graph_of(torch.zeros(nodes, 1), both, torch.zeros(nodes, dtype=torch.long))
    return graph, torch.from_numpy(rng.random(nodes) < 0.9), rng.integers(-1, 3, nodes)


def stream(split: str) -> np.random.Generator:
    return np.random.default_rng(len(split))


@pytest.mark.parametrize("negatives", ["uniform", "degree"])
@pytest.mark.parametrize("seed", range(4))
def test_positives_are_the_later_edges_and_negatives_are_of_their_kind(seed: int, negatives: Any) -> None:
    later, present, owner = world(seed)
    edges = {(a, b) for a, b in later["edges"].T.tolist() if a < b and present[a] and present[b]}
    kinds = {
        "all_pairs": edges,
        "own_pairs": {(a, b) for a, b in edges if owner[a] == owner[b] >= 0},
        "cut_pairs": {(a, b) for a, b in edges if owner[a] != owner[b] and min(owner[a], owner[b]) >= 0},
    }
    for split in kinds:
        pairs, links = common_pairs.asked(later, present, owner, negatives, split, stream(split))  # type: ignore[arg-type]
        listed = [(a, b) for a, b in pairs.T.tolist()]
        assert all(a < b for a, b in listed)
        assert len(set(listed)) == len(listed) == 2 * len(kinds[split]) > 0
        assert {pair for pair, there in zip(listed, links.tolist(), strict=True) if there} == kinds[split]
        for a, b in (pair for pair, there in zip(listed, links.tolist(), strict=True) if not there):
            assert (a, b) not in edges
            assert present[a]
            assert present[b]
            if split != "all_pairs":
                assert min(owner[a], owner[b]) >= 0
                assert (owner[a] == owner[b]) == (split == "own_pairs")


def test_negatives_end_where_there_are_none() -> None:
    edges = torch.tensor([(a, b) for a in range(5) for b in range(5) if a != b]).T
    whole = graph_of(torch.zeros(5, 1), edges, torch.zeros(5, dtype=torch.long))
    given = whole, torch.ones(5, dtype=torch.bool), np.zeros(5, dtype=np.int64), "degree"
    pairs, links = common_pairs.asked(*given, "all_pairs", stream("all_pairs"))  # type: ignore[arg-type]
    assert links.all()
    assert pairs.shape == (2, 10)
    assert common_pairs.asked(*given, "cut_pairs", stream("cut_pairs"))[0].shape == (2, 0)  # type: ignore[arg-type]


def test_degrees_tell_links_from_uniform_negatives_and_not_from_matched_ones() -> None:
    later, present, owner = world(1, 400, 1200)
    found = {}
    for negatives in ("uniform", "degree"):
        pairs, links = common_pairs.asked(later, present, owner, negatives, "all_pairs", stream("all_pairs"))  # type: ignore[arg-type]
        found[negatives] = average_precision_score(links, common_pairs.degree(later["edges"], owner, pairs))
    assert found["uniform"] > 0.7
    assert abs(found["degree"] - 0.5) < 0.1


def test_heuristics_by_hand() -> None:
    """Path 0-1-2-3 and the edge 0-2; nodes 0 and 1 are one client's, 2 and 3 another's."""
    ends = torch.tensor([[0, 1, 2, 0], [1, 2, 3, 2]])
    edges, owner = torch.cat([ends, ends.flip(0)], 1), np.array([0, 0, 1, 1])
    pairs = torch.tensor([[0, 0, 1], [1, 3, 3]])
    told = {name: score(edges, owner, pairs).tolist() for name, score in common_pairs.SCORERS.items()}
    assert told == {
        "degree": [4, 2, 2],
        "common_neighbours": [1, 1, 1],
        "persistence": [1, 0, 0],
        "foreign_neighbours": [1, 0, 0],
    }


def asked_in(monkeypatch: pytest.MonkeyPatch, folder: Any, **changes: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Return the pairs of every period and split that a run asks, and its scores."""
    seen: dict[Any, Any] = {}
    real = same_pairs.PairScorer.pairs

    def of(self: Any, period: int) -> Any:
        found = real(self, period)
        seen[period, self.which] = found[0].tolist(), found[1].tolist()
        return found

    monkeypatch.setattr(same_pairs.PairScorer, "pairs", of)
    small_points.run_in(folder, **{**RUN, **changes})
    monkeypatch.undo()
    return seen, [row for row in small_points.table(folder, "scores") if row["split"] in SPLITS]


@pytest.mark.long
def test_everybodys_pairs_are_the_same_pairs(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = {
        "many": {"clients__count": 4, "algorithm": EXACT},
        "fedavg": {"clients__count": 4, "algorithm": "fedavg"},
        "one": {"clients__count": 1, "algorithm": CENTRAL},
    }
    told = {name: asked_in(monkeypatch, tmp_path / name, **changes) for name, changes in runs.items()}
    pairs, rows = told["many"]
    assert {split for _, split in pairs} == set(SPLITS)
    assert all(len(links) > 10 for _, links in pairs.values())
    for others, theirs in told.values():
        assert others == pairs
        weights = [
            {(row["period"], row["split"], row["model"]): row["weight"] for row in each} for each in (rows, theirs)
        ]
        assert weights[0] == weights[1]
    for name in common_pairs.SCORERS:
        if name != "foreign_neighbours":  # one client has none
            values = [[row["value"] for row in each if row["model"] == name] for _, each in told.values()]
            assert values[0] == values[1] == values[2] != []
    models = Counter(row["model"] for row in rows if row["metric"] == "average_precision")
    assert set(models) == {"global", *common_pairs.SCORERS}
    assert {row["model"] for row in rows if row["metric"] == "mrr"} == {"global"}
    assert all(row["client"] == -1 and 0 < row["value"] <= 1 for row in rows)


def test_scores_are_those_of_the_embeddings_and_no_pair_is_dropped() -> None:
    from fedsim.data.time.temporal import Overview
    from fedsim.learn.task import bind
    from fedsim.learn.tasks.link_prediction import LinkPrediction

    later, present, owner = world(2)
    now = Graph(**{**later, "arrived": present})
    task = bind(LinkPrediction(), None, 1, 0, 3, "cpu")  # type: ignore[arg-type]
    overview, metrics = Overview([now, later], [owner, owner]), built("average_precision", "mrr")
    same = same_pairs.PairScorer("all_pairs", overview, task, "uniform", 1, metrics)
    h = torch.randn(60, 5, generator=torch.Generator().manual_seed(1))
    node = torch.from_numpy(np.flatnonzero((owner >= 0) & (owner < 2) & present.numpy()))  # client 2 is not there
    union = Graph(node=node, period=torch.zeros_like(node))  # type: ignore[typeddict-item]
    values, weight = same.scores(h[node], union, 0)
    pairs, links = same.pairs(0)
    known = torch.zeros_like(h)
    known[node] = h[node]
    assert weight == len(links)
    assert values["average_precision"] == pytest.approx(
        average_precision_score(links, (known[pairs[0]] * known[pairs[1]]).sum(1)), abs=1e-6
    )
    assert 0 < values["mrr"] < 1


@pytest.mark.parametrize(
    ("measure", "message"),
    [
        ({"splits": ["all_pairs"]}, r"measure\.splits: 'all_pairs' has no score per client"),
        ({"heuristics": ["degree"]}, r"measure\.heuristics: 'degree' scores pairs"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Any, measure: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        small_points.run_in(tmp_path / "p", **{**RUN, "measure": {"metrics": ["auc"], **measure}})


def test_other_tasks_have_no_such_pairs(tmp_path: Any) -> None:
    with pytest.raises(ScenarioError, match=r"'own_pairs' scores links of a later snapshot"):
        small_points.run_in(tmp_path / "p", measure={"splits": ["test", "own_pairs"]})

"""Attributes and weights of edges go with their edges: read, cut, thinned, joined, and handed to a GINE module."""

from pathlib import Path

import numpy as np
import own_files
import pytest
import small_points
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_nets import GINEConv
from torch import nn

from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.seeds import Streams
from fedsim.data.files import own_arrays
from fedsim.data.graph import Graph, induced
from fedsim.data.graphs import sparsity
from fedsim.data.graphs.split import SplitOptions
from fedsim.data.partition import cut
from fedsim.learn.engine import joining, tree
from fedsim.learn.modules.module_model import adopted
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find

KEYS = ("edge_attr", "edge_weight")


def written(nodes: int, count: int, seed: int) -> dict[str, np.ndarray]:
    """Arrays of a graph with self loops, edges in both directions with values of their own, and equal repeats."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(nodes, size=(2, count))
    edges = np.concatenate([edges, [[0], [1]]], axis=1)  # one at least
    _, first = np.unique(edges[0] * nodes + edges[1], return_index=True)
    edges = edges[:, np.concatenate([first, first[::2]])]
    values = rng.standard_normal((len(first), 3)).astype(np.float32)
    values = np.concatenate([values, values[::2]])
    order = rng.permutation(edges.shape[1])
    x = rng.standard_normal((nodes, 2)).astype(np.float32)
    edges, values = edges[:, order], values[order]
    y = rng.integers(3, size=nodes)
    return {"x": x, "y": y, "edge_index": edges, "edge_attr": values, "edge_weight": values[:, 0].copy()}


def of_each(arrays: dict[str, np.ndarray]) -> dict[tuple[int, int], list[float]]:
    """What each direction of each edge has, by a loop: its own values, or those of the other direction."""
    given = {}
    for ends, values in zip(arrays["edge_index"].T.tolist(), arrays["edge_attr"].tolist(), strict=True):
        given[tuple(ends)] = values
    pairs = {pair for a, b in given if a != b for pair in ((a, b), (b, a))}
    return {pair: given[pair] if pair in given else given[pair[::-1]] for pair in pairs}


def graph_of_arrays(arrays: dict[str, np.ndarray]) -> Graph:
    return own_arrays.raw("here", arrays).graph("here", "refuse")


def held(graph: Graph, nodes: np.ndarray) -> dict[tuple[int, int], list[float]]:
    """What the entries of a graph have, by the numbers of their ends in the whole graph."""
    ends = nodes[graph["edges"].numpy()]
    assert graph["edge_weight"].tolist() == graph["edge_attr"][:, 0].tolist()
    return dict(zip(map(tuple, ends.T.tolist()), graph["edge_attr"].tolist(), strict=True))


cases = given(nodes=st.integers(2, 14), count=st.integers(0, 60), seed=st.integers(0, 9999))


@cases
@settings(max_examples=60, deadline=None)
def test_each_direction_keeps_its_own_or_takes_the_others(nodes, count, seed):
    arrays = written(nodes, count, seed)
    assert held(graph_of_arrays(arrays), np.arange(nodes)) == of_each(arrays)


@cases
@settings(max_examples=60, deadline=None)
def test_they_are_cut_with_their_edges(nodes, count, seed):
    arrays, rng = written(nodes, count, seed), np.random.default_rng(seed)
    whole, expected, owner = graph_of_arrays(arrays), of_each(arrays), rng.integers(3, size=nodes)
    owned = [rng.permutation(np.flatnonzero(owner == client)) for client in range(3)]
    for part, own in zip(cut(whole, owned, empty=True), owned, strict=True):
        inner = {pair: value for pair, value in expected.items() if {*pair} <= {*own.tolist()}}
        assert held(part, own) == inner == held(induced(whole, own), own)


@cases
@settings(max_examples=30, deadline=None)
def test_thinned_edges_keep_theirs(nodes, count, seed):
    arrays = written(nodes, count, seed)
    whole, expected = graph_of_arrays(arrays), of_each(arrays)
    (few,) = sparsity.fewer("edges", [whole], 0.5, Streams(seed))
    for thinned in (few, sparsity.fewer_neighbours(whole, 2, seed)):
        found = held(thinned, np.arange(nodes))
        assert found == {pair: expected[pair] for pair in found}
        assert {pair[::-1] for pair in found} == {*found}


def test_a_union_joins_them_and_a_graph_that_lacks_them_is_refused():
    graphs = [graph_of_arrays(written(6, 20, seed)) for seed in (1, 2)]
    joined = joining.union(graphs)
    for key in KEYS:
        assert joined[key].equal(torch.cat([graph[key] for graph in graphs]))
    bare = Graph(**{key: value for key, value in graphs[0].items() if key not in (*KEYS, "layout")})
    with pytest.raises(ValueError, match="some graphs of a union have 'edge_attr'"):
        joining.union([graphs[1], bare])
    alone = induced(bare, np.arange(1))  # without an edge it has none of them to lack
    assert joining.union([graphs[1], alone])["edge_attr"].equal(graphs[1]["edge_attr"])


class Gine(nn.Module):
    """One layer that shows what it is handed: identities, and the first two features of edges."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.conv = GINEConv(nn.Linear(features, classes, bias=False), edge_dim=3)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor, edge_attr: torch.Tensor) -> torch.Tensor:
        return self.conv(x, edge_index, edge_attr)


@pytest.mark.parametrize("seed", range(3))
def test_a_gine_module_gets_the_attributes_of_its_own_edges(seed):
    arrays, rng = written(12, 50, seed), np.random.default_rng(seed)
    expected, owner = of_each(arrays), rng.integers(3, size=12)
    owned = [np.flatnonzero(owner == client) for client in range(3)]
    parts = cut(graph_of_arrays(arrays), owned)
    model = adopted(Gine)()
    model.settle(2, 4, 0, parts[0])
    params = model.resident.drawn(1)
    lin, bias, out = params["conv.lin.weight"], params["conv.lin.bias"], params["conv.nn.weight"]

    def by_hand(v: int, own: set[int]) -> torch.Tensor:
        x = torch.from_numpy(arrays["x"])
        total = x[v].clone()
        for (a, b), values in expected.items():
            if b == v and {a, b} <= own:
                total += (x[a] + lin @ torch.tensor(values) + bias).relu()
        return out @ total

    wanted = torch.stack([by_hand(v, {*own.tolist()}) for own in owned for v in own.tolist()])
    output = model.forward(tree.stack([params]), joining.union(parts, shared=True))
    assert torch.allclose(output, wanted, atol=1e-5)


@pytest.mark.parametrize("kind", ["npz", "pt", "data.pt"])
def test_every_file_of_arrays_holds_them(tmp_path, kind):
    arrays = written(9, 30, 4)
    plain = {**{f"{name}_mask": np.zeros(9, bool) for name in ("train", "val", "test")}, **arrays}
    part = own_files.write(tmp_path, plain, kind)
    graph = find.build("dataset", Part(name="file", options={"file": part["file"]})).load(Path(), 0)
    assert held(graph, np.arange(9)) == of_each(arrays)


WRONG = {
    "repeat": ({"edge_index": [[0, 0], [1, 1]], "edge_weight": [1.0, 2.0]}, "'edge_weight', the edge 0 to 1 is given "
               "twice, as entries 0 and 1, and they differ; keep one, or add them up"),
    "short": ({"edge_index": [[0, 0], [1, 2]], "edge_weight": [1.0]}, r"'edge_weight' has the shape \(1,\)"),
    "wide": ({"edge_index": [[0], [1]], "edge_weight": [[1.0]]}, r"'edge_weight' .*must be \(1,\), a number an edge"),
    "nan": ({"edge_index": [[0], [1]], "edge_attr": [[1.0, float("nan")]]}, "'edge_attr' is nan at edge 0"),
    "texts": ({"edge_index": [[0], [1]], "edge_attr": [["strong"]]}, "'edge_attr' holds texts"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_ambiguous_or_no_number_is_refused(case):
    changes, message = WRONG[case]
    arrays = {"x": np.eye(3), "y": np.arange(3), **{name: np.array(value) for name, value in changes.items()}}
    with pytest.raises(UserError, match=f"^here: {message}"):
        graph_of_arrays(arrays)


def test_loops_may_differ_since_they_are_dropped_and_a_list_is_a_column():
    arrays = {"x": np.eye(3), "y": np.arange(3), "edge_index": np.array([[1, 1, 0], [1, 1, 1]])}
    graph = graph_of_arrays({**arrays, "edge_attr": np.array([1, 2, 3])})
    assert graph["edge_attr"].tolist() == [[3.0], [3.0]]


def test_periods_by_class_keep_them():
    arrays = written(40, 300, 6)
    arrays["x"] = np.arange(40, dtype=np.float32)[:, None]  # tells who a node is
    whole, expected = graph_of_arrays(arrays), of_each(arrays)
    stream = find.build("stream", Part(name="class_incremental", options={"classes": 1, "every": "1 updates"}))
    ((*periods,),) = stream.prepare([whole], SplitOptions(), Streams(0))
    kept = {}
    for period in periods:
        kept |= held(period.graph, period.graph["x"][:, 0].long().numpy())
    assert kept == {pair: value for pair, value in expected.items() if len({*arrays["y"][list(pair)]}) == 1}


def changes(folder: Path, **more):
    arrays = written(60, 400, 1)
    np.savez(folder / "graph.npz", **{**arrays, "edge_attr": arrays["edge_attr"][:, :2]})
    dataset = {"name": "file", "file": str(folder / "graph.npz")}
    data = {"dataset": dataset, "partition": "random", "split": {"train": 0.5, "val": 0.2, "test": 0.3}}
    return {"data": data, "model": "gcn", "clients__count": 3, **more}


STREAMS = ["static", {"name": "class_incremental", "classes": 2, "every": "2 updates"}]


@pytest.mark.parametrize("stream", STREAMS, ids=["static", "by class"])
@pytest.mark.parametrize("partition", ["random", "louvain"])
def test_a_gine_with_batchnorm_runs(tmp_path, partition, stream):
    given = changes(tmp_path, model="plain_nets.Gine")
    given["data"] |= {"partition": partition, "stream": stream, "keep": {"edges": 0.8, "fanout": 9}}
    scores = small_points.run_tables(tmp_path / "run", **given)["scores"]
    assert {row["split"] for row in scores} == {"test", "val"}
    assert all(0 <= row["value"] <= 1 for row in scores)


def test_a_model_that_does_not_read_them_is_refused(tmp_path):
    with pytest.raises(ScenarioError, match=r"model: 'gcn' does not read 'edge_attr' of edges; take a torch module"):
        small_points.run_in(tmp_path / "run", **changes(tmp_path, model="gcn"))


def test_edges_that_arrive_have_none(tmp_path):
    given = changes(tmp_path)
    given["data"]["dataset"] = {"name": "arriving", "of": given["data"]["dataset"]}
    given["data"]["stream"] = {"name": "snapshots", "steps": 5, "every": "1 updates"}
    with pytest.raises(ScenarioError, match="edges have attributes or weights, which edges that arrive have not"):
        small_points.run_in(tmp_path / "run", **given)

"""The topology-consistency criterion against loops over edges and finite differences."""

import pytest
import torch
from learnlab import drawn, drawn_task

from algorithms.ghost import teaching
from fedsim.learn.engine import tree
from fedsim.learn.model import plain
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.masked_gcn import MaskedGCN
from fedsim.learn.models.roland import Roland
from fedsim.learn.models.sage import SAGE


def double(params):
    return tree.transform(torch.Tensor.double, params)


def parts(model=None, seed=1):
    task = drawn_task(model or GCN(hidden=5, layers=2))
    return task.model, task.init(), drawn(12, seed)


def by_hand(model, params, graph, loops):
    """J of each layer, one edge at a time."""
    stacked, h, found = tree.stack([params]), graph["x"], []
    edges = [tuple(edge) for edge in graph["edges"].T.tolist()] + [(i, i) for i in range(len(h)) if loops]
    for i in range(1, model.layers + 1):
        h = model.layer(stacked[f"layer{i}"], h, graph)
        h = torch.relu(h) if i < model.layers else h
        weight = params[f"layer{i}"]["weight"]
        each = [float((weight @ h[a]) @ torch.tanh(weight @ h[b])) for a, b in edges]
        found.append(sum(e * e for e in each) / len(each))
    return found


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("model", [GCN(hidden=5), GCN(hidden=4, layers=3), SAGE(hidden=5), GAT(hidden=5)], ids=repr)
def test_every_layer_is_measured_as_written(model, loops):
    model, params, graph = parts(model)
    found = teaching.measures(model, tree.stack([params]), graph, self_loops=loops)
    assert len(found) == model.layers
    assert [float(one) for one in found] == pytest.approx(by_hand(model, params, graph, loops), rel=1e-4)


def test_the_last_layer_is_the_output_itself():
    model, params, graph = parts()
    stacked = tree.stack([params])
    outputs = teaching.layers(model, stacked, graph)
    torch.testing.assert_close(outputs[-1], model.forward(stacked, graph))
    torch.testing.assert_close(outputs[0], model.embed(stacked, graph))
    assert float(outputs[-1].min()) < 0 <= float(outputs[0].min())


def test_importance_is_the_sum_of_the_slopes_sizes():
    model, params, graph = parts()
    found = teaching.importance(model, params, graph)

    def layerwise(name, key, place, step):
        moved = tree.transform(torch.clone, params)
        moved[name][key][place] += step
        return torch.stack(teaching.measures(model, tree.stack([moved]), graph)).double()

    for name, key, place in (("layer1", "weight", (2, 3)), ("layer1", "bias", (1,)), ("layer2", "weight", (4, 0))):
        rise = (layerwise(name, key, place, 1e-2) - layerwise(name, key, place, -1e-2)) / 2e-2
        assert float(found[name][key][place]) == pytest.approx(float(rise.abs().sum()), rel=0.02, abs=2e-3)
    assert all(bool((leaf >= 0).all()) for leaf in tree.leaves(found))
    assert {name: {k: v.shape for k, v in one.items()} for name, one in found.items()} == {
        name: {k: v.shape for k, v in one.items()} for name, one in params.items()
    }


def test_both_layers_count_and_dropout_does_not():
    model, params, graph = parts(GCN(hidden=5, dropout=0.9))
    found = teaching.importance(model, params, graph)
    again = teaching.importance(GCN(hidden=5, dropout=0.0), params, graph)
    assert torch.equal(found["layer1"]["weight"], again["layer1"]["weight"])
    assert float(found["layer2"]["weight"].sum()) > 0  # only the last layer's measure depends on it
    assert not any(leaf.requires_grad for leaf in tree.leaves(params))


def test_the_scale_does_not_hang_on_how_often_a_graph_is_there():
    model, params, graph = parts()
    n = len(graph["y"])
    twice = {
        "x": torch.cat([graph["x"]] * 2), "y": torch.cat([graph["y"]] * 2),
        "edges": torch.cat([graph["edges"], graph["edges"] + n], 1), "client": torch.zeros(2 * n, dtype=torch.long),
        "sizes": torch.tensor([2 * n]),
        **{name: torch.cat([graph[name]] * 2) for name in ("train", "val", "test")},
    }  # fmt: skip
    one, two = (teaching.importance(model, params, g) for g in (graph, twice))
    torch.testing.assert_close(one["layer1"]["weight"], two["layer1"]["weight"], rtol=1e-4, atol=1e-4)


def test_without_an_edge_nothing_matters():
    model, params, graph = parts()
    graph = {**{k: v for k, v in graph.items() if k != "layout"}, "edges": torch.zeros(2, 0, dtype=torch.long)}
    assert all(float(leaf.abs().sum()) == 0 for leaf in tree.leaves(teaching.importance(model, params, graph)))


def test_only_plain_layers_suit():
    assert all(plain(model) for model in (GCN(), SAGE(), GAT()))
    assert not any(plain(model) for model in (MaskedGCN(), Roland()))

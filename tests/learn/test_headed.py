"""Models with a linear classifier behind their layers: as deep as recurrent ones, their outputs written out."""

import pytest
import torch
from changing import dense, undirected

from fedsim.learn.engine import layout, tree
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.gcn_head import GCNHead
from fedsim.learn.models.sage_head import SAGEHead

FEATURES, HIDDEN, CLASSES = 7, 5, 3


def first(model):
    return model.init(FEATURES, CLASSES, torch.Generator().manual_seed(0))


def test_a_gcn_with_a_head_is_two_convolutions_and_a_linear_map():
    model, graph = GCNHead(hidden=HIDDEN), undirected(20, 1)
    params = first(model)
    a = dense(graph)
    root = a.sum(1).rsqrt()
    a, h = root.unsqueeze(1) * a * root, graph["x"].to_dense()
    for i in (1, 2):
        h = torch.relu(a @ (h @ params[f"layer{i}"]["weight"]) + params[f"layer{i}"]["bias"])
    stacked = tree.stack([params])
    torch.testing.assert_close(model.embed(stacked, graph), h, rtol=1e-4, atol=1e-5)
    expected = h @ params["classifier"]["weight"] + params["classifier"]["bias"]
    torch.testing.assert_close(model.forward(stacked, graph), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [GCNHead, SAGEHead])
def test_it_has_the_widths_the_dropout_and_the_embedding_of_evolve_gcn(kind):
    model, other = kind(hidden=HIDDEN), EvolveGCNO(hidden=HIDDEN)
    assert (model.layers, model.dropout) == (other.layers, other.dropout)
    assert model.widths(FEATURES, CLASSES) == other.widths(FEATURES, CLASSES)
    assert {name: layer["weight"].shape for name, layer in first(model).items()} == {
        name: layer["weight"].shape for name, layer in first(other).items()
    }


def test_the_head_is_billed():
    graph = undirected(20, 1)
    layer = GCN(hidden=HIDDEN, layers=1)
    nodes, edges = 20, graph["edges"].shape[1]
    convolutions = layer.layer_flops(nodes, edges, layout.of(graph).nonzeros, FEATURES, HIDDEN)
    convolutions += layer.layer_flops(nodes, edges, nodes * HIDDEN, HIDDEN, HIDDEN)
    assert GCNHead(hidden=HIDDEN).flops(graph, CLASSES) == convolutions + 2 * nodes * HIDDEN * CLASSES

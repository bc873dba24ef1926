"""The layers against PyG's own, in values and gradients: one client, and ragged unions of several."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedsim.data.graph import graph_of, sparse_if_worth
from fedsim.learn.engine import joining, ops, tree
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.mlp import MLP
from fedsim.learn.models.sage import SAGE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

FEATURES, HIDDEN, CLASSES = 70, 8, 3


def drawn(nodes: int, seed: int, sparse: bool = False):
    """A random graph with isolated nodes, self loops and, where it can, edges in one direction only."""
    g = torch.Generator().manual_seed(seed)
    edges = torch.randint(max(nodes, 1), (2, 2 * nodes), generator=g)
    edges = torch.unique(edges[:, (edges < max(1, nodes - 2)).all(0)], dim=1)
    x = torch.randn(nodes, FEATURES, generator=g) * (torch.rand(nodes, FEATURES, generator=g) < 0.1)
    y = torch.randint(CLASSES, (nodes,), generator=g)
    train = torch.rand(nodes, generator=g) < 0.6
    return graph_of(sparse_if_worth(x) if sparse and nodes else x, edges, y, train, ~train, ~train)


def gcn_layer(p):
    conv = GCNConv(*p["weight"].shape)
    conv.lin.weight.data, conv.bias.data = p["weight"].T.clone(), p["bias"].clone()
    return conv, lambda: {"weight": conv.lin.weight.grad.T, "bias": conv.bias.grad}


def gat_layer(p):
    conv = GATConv(*p["weight"].shape, heads=1)
    conv.lin.weight.data, conv.bias.data = p["weight"].T.clone(), p["bias"].clone()
    conv.att_src.data, conv.att_dst.data = p["source"].view(1, 1, -1).clone(), p["target"].view(1, 1, -1).clone()
    return conv, lambda: {
        "weight": conv.lin.weight.grad.T,
        "source": conv.att_src.grad.flatten(),
        "target": conv.att_dst.grad.flatten(),
        "bias": conv.bias.grad,
    }


def sage_layer(p):
    conv = SAGEConv(*p["weight"].shape)
    conv.lin_l.weight.data, conv.lin_l.bias.data = p["weight"].T.clone(), p["bias"].clone()
    conv.lin_r.weight.data = p["root"].T.clone()
    return conv, lambda: {
        "weight": conv.lin_l.weight.grad.T,
        "bias": conv.lin_l.bias.grad,
        "root": conv.lin_r.weight.grad.T,
    }


def mlp_layer(p):
    plain = torch.nn.Linear(*p["weight"].shape)
    plain.weight.data, plain.bias.data = p["weight"].T.clone(), p["bias"].clone()

    class Layer(torch.nn.Module):
        def forward(self, x, edges):
            return plain(x)

    return Layer(), lambda: {"weight": plain.weight.grad.T, "bias": plain.bias.grad}


MODELS = {"gcn": (GCN, gcn_layer), "gat": (GAT, gat_layer), "sage": (SAGE, sage_layer), "mlp": (MLP, mlp_layer)}


def theirs(layer_of, params, graph):
    """Output and gradients of the sum of squared outputs, by PyG's layers."""
    pairs = [layer_of(params[f"layer{i}"]) for i in (1, 2)]
    x = graph["x"].to_dense() if graph["x"].layout == torch.sparse_csr else graph["x"]
    out = pairs[1][0](torch.relu(pairs[0][0](x, graph["edges"])), graph["edges"])
    out.square().sum().backward()
    return out.detach(), {f"layer{i}": pairs[i - 1][1]() for i in (1, 2)}


def ours(model, params, graphs):
    stacked = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), tree.stack(params))
    out = model.forward(stacked, joining.union(graphs) if len(graphs) > 1 else graphs[0])
    leaves = list(tree.leaves(stacked))
    grads = iter(torch.autograd.grad(out.square().sum(), leaves))
    return out.detach(), tree.transform(lambda _: next(grads), stacked)


def close(a, b, within=1e-5):
    scale = max(1.0, float(b.abs().max()) if b.numel() else 1.0)
    return a.shape == b.shape and float((a - b).abs().max() if a.numel() else 0) <= within * scale


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=15, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=6), seed=st.integers(0, 10**6))
def test_outputs_and_gradients_are_those_of_pyg(name, sparse, sizes, seed):
    kind, layer_of = MODELS[name]
    model = kind(hidden=HIDDEN)
    graphs = [drawn(size, seed + k, sparse) for k, size in enumerate(sizes)]
    if len({graph["x"].layout for graph in graphs}) > 1:  # a tiny graph may happen to be dense
        graphs = [drawn(size, seed + k) for k, size in enumerate(sizes)]
    params = [model.init(FEATURES, CLASSES, torch.Generator().manual_seed(seed + k)) for k in range(len(sizes))]
    out, grads = ours(model, params, graphs)
    at = 0
    for k, graph in enumerate(graphs):
        expected, expected_grads = theirs(layer_of, params[k], graph)
        assert close(out[at : at + sizes[k]], expected)
        for key, mine in tree.at(grads, k).items():
            assert all(close(mine[name], expected_grads[key][name]) for name in mine), key
        at += sizes[k]


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_graph_in_a_union_changes_nothing_and_has_no_gradient(name):
    model = MODELS[name][0](hidden=HIDDEN)
    graphs = [drawn(12, 1), drawn(0, 2), drawn(7, 3)]
    params = [model.init(FEATURES, CLASSES, torch.Generator().manual_seed(k)) for k in range(3)]
    out, grads = ours(model, params, graphs)
    without, _ = ours(model, [params[0], params[2]], [graphs[0], graphs[2]])
    assert close(out, without)
    assert all(float(leaf.abs().max()) == 0 for leaf in tree.leaves(tree.at(grads, 1)))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_one_set_of_parameters_on_a_shared_union_is_the_same_as_copies(name, sparse):
    model = MODELS[name][0](hidden=HIDDEN)
    graphs = [drawn(size, size, sparse) for size in (30, 5, 17)]
    params = model.init(FEATURES, CLASSES, torch.Generator().manual_seed(0))
    shared = model.forward(tree.stack([params]), joining.union(graphs, shared=True))
    assert close(shared, model.forward(tree.stack([params] * 3), joining.union(graphs)))


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 50), min_size=1, max_size=12), seed=st.integers(0, 999))
def test_linear_is_each_clients_own_product_whatever_the_padding(sizes, seed):
    graph = (
        joining.union([drawn(size, seed + k) for k, size in enumerate(sizes)])
        if len(sizes) > 1
        else drawn(sizes[0], seed)
    )
    g = torch.Generator().manual_seed(seed)
    weight, bias = torch.randn(len(sizes), FEATURES, 5, generator=g), torch.randn(len(sizes), 5, generator=g)
    rows = torch.split(graph["x"], sizes)
    expected = torch.cat([x @ weight[k] + bias[k] for k, x in enumerate(rows)])
    assert close(ops.linear(graph["x"], weight, graph, bias), expected)


def test_flops_grow_with_nodes_edges_features_and_layers():
    small, large = drawn(20, 1), drawn(40, 1)
    for kind, _ in MODELS.values():
        assert 0 < kind(hidden=8).flops(small, 3) < kind(hidden=8).flops(large, 3)
        assert kind(hidden=8).flops(small, 3) < kind(hidden=8, layers=3).flops(small, 3)
        sparse = drawn(40, 1, sparse=True)
        assert sparse["x"].layout == torch.sparse_csr
        assert kind(hidden=8).flops(sparse, 3) < kind(hidden=8).flops(large, 3)

"""Our layers against PyTorch Geometric's, client by client: outputs and gradients."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from learnlab import drawn

from fedsim.learn import layout, tree
from fedsim.learn.models.gat import GAT
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.mlp import MLP
from fedsim.learn.models.sage import SAGE

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

FEATURES, HIDDEN, CLASSES = 7, 5, 3


class GraphFree(torch.nn.Linear):
    def forward(self, x, edges):
        return super().forward(x)


# our parameter → PyG's; ours are (inputs, outputs), PyG's the other way round
LAYERS = {
    GCN: (GCNConv, {"weight": "lin.weight", "bias": "bias"}),
    GAT: (GATConv, {"weight": "lin.weight", "source": "att_src", "target": "att_dst", "bias": "bias"}),
    SAGE: (SAGEConv, {"weight": "lin_l.weight", "bias": "lin_l.bias", "root": "lin_r.weight"}),
    MLP: (GraphFree, {"weight": "weight", "bias": "bias"}),
}


def theirs(model, params, graph, pull):
    """Logits and gradients of Σ pull · logits of one client by PyG."""
    kind, names = LAYERS[model]
    first, second = kind(FEATURES, HIDDEN), kind(HIDDEN, CLASSES)
    for layer, own in ((first, params["layer1"]), (second, params["layer2"])):
        for name, place in names.items():
            parameter = layer.get_parameter(place)
            parameter.data = (own[name].T if own[name].dim() == 2 else own[name]).reshape(parameter.shape).clone()
    x = graph["x"].to_dense() if graph["x"].layout == torch.sparse_csr else graph["x"]
    logits = second(torch.relu(first(x, graph["edges"])), graph["edges"])
    (logits * pull).sum().backward()
    grads = {}
    for key, layer in (("layer1", first), ("layer2", second)):
        grads[key] = {}
        for name, place in names.items():
            grad, own = layer.get_parameter(place).grad, params[key][name]
            grads[key][name] = grad.T if own.dim() == 2 else grad.reshape(own.shape)
    return logits.detach(), grads


def agree(model, sizes, seed, as_csr):
    graphs = [drawn(n, seed + k, features=FEATURES, classes=CLASSES, as_csr=as_csr) for k, n in enumerate(sizes)]
    generator = torch.Generator().manual_seed(seed)
    net = model(hidden=HIDDEN)
    each = [net.init(FEATURES, CLASSES, generator) for _ in graphs]
    for params in each:
        for leaf in tree.leaves(params):
            leaf += 0.1 * torch.randn(leaf.shape, generator=generator)  # biases too are worth a test
    stacked = tree.stack(each)
    leaves = [leaf.requires_grad_(True) for leaf in tree.leaves(stacked)]
    union = layout.union(graphs) if len(graphs) > 1 else graphs[0]
    pull = torch.randn(sum(sizes), CLASSES, generator=generator)
    logits = net.forward(stacked, union)
    grads = iter(torch.autograd.grad((logits * pull).sum(), leaves))
    grads = tree.transform(lambda leaf: next(grads), stacked)
    at = 0
    for k, (graph, n) in enumerate(zip(graphs, sizes, strict=True)):
        own = tree.at(grads, k)
        if n == 0:
            assert all(not leaf.any() for leaf in tree.leaves(own))
            continue
        expected, slopes = theirs(model, each[k], graph, pull[at : at + n])
        torch.testing.assert_close(logits[at : at + n], expected, atol=1e-5, rtol=1e-5)
        for mine, other in zip(tree.leaves(own), tree.leaves(slopes), strict=True):
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
        at += n


@pytest.mark.parametrize("model", LAYERS)
@settings(deadline=None, max_examples=12)
@given(
    sizes=st.lists(st.integers(0, 14), min_size=1, max_size=5).filter(any),
    seed=st.integers(0, 10**6),
    as_csr=st.booleans(),
)
def test_layers_agree_with_pyg_on_any_union(model, sizes, seed, as_csr):
    agree(model, sizes, seed, as_csr)


@pytest.mark.parametrize("model", LAYERS)
@pytest.mark.parametrize("as_csr", [False, True])
@pytest.mark.parametrize("sizes", [[30], [1], [9, 0, 40, 2, 9], [0, 6], [6, 0], [8, 8, 8], [200, 1, 1, 1]])
def test_layers_agree_with_pyg(model, as_csr, sizes):
    agree(model, sizes, 17, as_csr)


@pytest.mark.parametrize("model", LAYERS)
@pytest.mark.parametrize("as_csr", [False, True])
def test_a_shared_union_gives_what_each_graph_gives_alone(model, as_csr):
    graphs = [drawn(n, n, as_csr=as_csr) for n in (5, 0, 12, 3)]
    params = tree.stack([model(hidden=HIDDEN).init(FEATURES, CLASSES, torch.Generator().manual_seed(1))])
    net = model(hidden=HIDDEN)
    together = net.forward(params, layout.union(graphs, shared=True))
    apart = torch.cat([net.forward(params, graph) for graph in graphs])
    torch.testing.assert_close(together, apart, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", LAYERS)
def test_an_empty_graph_has_no_output(model):
    params = tree.stack([model(hidden=HIDDEN).init(FEATURES, CLASSES, torch.Generator())])
    assert model(hidden=HIDDEN).forward(params, drawn(0, 0)).shape == (0, CLASSES)


@pytest.mark.parametrize("model", LAYERS)
def test_deeper_networks_have_as_many_layers_as_said(model):
    net = model(hidden=HIDDEN, layers=3)
    params = net.init(FEATURES, CLASSES, torch.Generator().manual_seed(0))
    assert list(params) == ["layer1", "layer2", "layer3"]
    stacked = tree.stack([params])
    assert net.embed(stacked, drawn(6, 1)).shape == (6, HIDDEN)
    assert net.forward(stacked, drawn(6, 1)).shape == (6, CLASSES)


@pytest.mark.parametrize("model", LAYERS)
def test_flops_grow_with_what_is_computed(model):
    net = model(hidden=HIDDEN)
    small, large = drawn(10, 1), drawn(20, 1)
    assert 0 < net.flops(small, CLASSES) < net.flops(large, CLASSES)
    assert net.flops(drawn(20, 1, as_csr=True), CLASSES) < net.flops(large, CLASSES)


def test_flops_of_a_perceptron_by_hand():
    graph = drawn(10, 1)
    assert MLP(hidden=HIDDEN).flops(graph, CLASSES) == 2 * 10 * FEATURES * HIDDEN + 2 * 10 * HIDDEN * CLASSES

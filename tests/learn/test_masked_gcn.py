"""The masked GCN: its layers written out in dense matrices, what a mask does in training and in evaluation."""

import pytest
import torch
from learnlab import drawn, largest_gap
from pydantic import TypeAdapter

from fedsim.learn.engine import joining, ops, tree
from fedsim.learn.models.gcn import GCN
from fedsim.learn.models.masked_gcn import MaskedGCN

FEATURES, CLASSES = 7, 3
MODEL = MaskedGCN(hidden=5, dropout=0.5, threshold=0.1)


def params_of(seed, model=MODEL, features=FEATURES):
    """The first parameters, their biases and masks drawn at random: one mask entry in ten is below the threshold."""
    g = torch.Generator().manual_seed(seed)
    params = model.init(features, CLASSES, g)
    return {
        name: {"weight": p["weight"], "bias": torch.randn(len(p["bias"]), generator=g), "mask": masks(p["weight"], g)}
        for name, p in params.items()
    }


def masks(weight, g):
    return 2 * torch.rand(weight.shape, generator=g) - 1


def dense_adjacency(graph):
    n = len(graph["y"])
    a = torch.zeros(n, n, dtype=torch.double)
    source, target = graph["edges"]
    a[target, source] = 1
    a.fill_diagonal_(1)
    root = a.sum(1).rsqrt()
    return root.unsqueeze(1) * a * root


def by_hand(params, graph, threshold):
    """The output of the second convolution and the logits, without dropout; no mask is cut off at threshold 0."""

    def times(h, p):
        mask = p["mask"].clone()
        mask[mask.abs() < threshold] = 0
        return h @ (p["weight"] * mask).double()

    a, x = dense_adjacency(graph), graph["x"].to_dense().double()
    first = torch.relu(a @ times(x, params["layer1"]) + params["layer1"]["bias"])
    second = a @ times(first, params["layer2"]) + params["layer2"]["bias"]
    return second, times(torch.relu(second), params["layer3"]) + params["layer3"]["bias"]


@pytest.mark.parametrize("as_csr", [False, True])
def test_in_evaluation_small_masks_are_cut_off_and_nothing_is_dropped(as_csr):
    graph, params = drawn(20, 1, as_csr=as_csr), params_of(0)
    convolved, logits = by_hand(params, graph, MODEL.threshold)
    stacked = tree.stack([params])
    torch.testing.assert_close(MODEL.convolved(stacked, graph).double(), convolved, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(MODEL.embed(stacked, graph).double(), convolved.relu(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(MODEL.forward(stacked, graph).double(), logits, rtol=1e-4, atol=1e-5)
    assert float((by_hand(params, graph, 0.0)[1] - logits).abs().max()) > 1e-3


def test_in_training_every_mask_counts():
    graph, params, model = drawn(20, 1), params_of(0), MaskedGCN(hidden=5, dropout=0.0, threshold=0.1)
    training = {**graph, "seed": torch.tensor([3])}
    expected = by_hand(params, graph, 0.0)[1]
    torch.testing.assert_close(model.forward(tree.stack([params]), training).double(), expected, rtol=1e-4, atol=1e-5)


def test_both_convolutions_are_dropped_from_in_training():
    graph = {**drawn(40, 2), "seed": torch.tensor([3])}
    h = tree.stack([params_of(1)])
    first = ops.dropout(MODEL.layer(h["layer1"], graph["x"], graph).relu(), 0.5, graph, 1)
    second = MODEL.layer(h["layer2"], first, graph)
    torch.testing.assert_close(MODEL.convolved(h, graph), second)
    torch.testing.assert_close(MODEL.embed(h, graph), ops.dropout(second.relu(), 0.5, graph, 2))
    assert 0.4 < float((MODEL.embed(h, graph) == 0).float().mean()) < 0.95


@pytest.mark.parametrize(
    ("entry", "counts"), [(0.1, True), (-0.1, True), (0.0999, False), (-0.0999, False), (1.0, True)]
)
def test_the_threshold_itself_counts(entry, counts):
    layer = {"weight": torch.full((1, 2, 2), 3.0), "mask": torch.full((1, 2, 2), entry)}
    weight = MODEL.weight(layer, drawn(3, 0))
    torch.testing.assert_close(weight, torch.full((1, 2, 2), 3 * entry if counts else 0.0))


def test_masks_begin_as_ones_and_then_it_is_a_gcn_with_a_linear_classifier():
    params, graph = MODEL.init(FEATURES, CLASSES, torch.Generator().manual_seed(0)), drawn(20, 3)
    assert all(p["mask"].shape == p["weight"].shape and bool((p["mask"] == 1).all()) for p in params.values())
    assert [tuple(p["weight"].shape) for p in params.values()] == [(7, 5), (5, 5), (5, 3)]
    assert float(params["layer3"]["bias"].abs().min()) > 0
    stacked = tree.stack([params])
    torch.testing.assert_close(MODEL.convolved(stacked, graph), GCN(hidden=5).forward(stacked, graph))


def test_the_classifier_is_drawn_as_published():
    """Uniformly from ±√(6 / (inputs + outputs)), its bias as a matrix of one row."""
    hidden, classes = 64, 6
    params = MaskedGCN(hidden=hidden).init(FEATURES, classes, torch.Generator().manual_seed(0))
    for name, bound, share in (("weight", (6 / (hidden + classes)) ** 0.5, 0.95), ("bias", (6 / 7) ** 0.5, 0.3)):
        assert share * bound < float(params["layer3"][name].abs().max()) <= bound
    assert not any(bool(params[f"layer{i}"]["bias"].any()) for i in (1, 2))


def test_the_clients_of_a_union_are_those_alone_in_values_and_gradients():
    graphs, params = [drawn(12, 1), drawn(0, 2), drawn(7, 3)], [params_of(k) for k in range(3)]

    def outcome(some, graph, seeds):
        leaves = tree.transform(lambda leaf: leaf.clone().requires_grad_(True), tree.stack(some))
        out = MODEL.forward(leaves, {**graph, "seed": torch.tensor(seeds)})
        order = iter(torch.autograd.grad(out.square().sum(), list(tree.leaves(leaves))))
        return out.detach(), tree.transform(lambda _: next(order), leaves)

    out, grads = outcome(params, joining.union(graphs), [5, 6, 7])
    at = 0
    for k, graph in enumerate(graphs):
        alone, own = outcome([params[k]], graph, [5 + k])
        torch.testing.assert_close(out[at : at + len(alone)], alone, rtol=1e-4, atol=1e-4)
        assert largest_gap(tree.at(grads, k), tree.at(own, 0)) < 1e-2
        assert (float(own["layer2"]["mask"].abs().max()) > 0) == (len(alone) > 0)
        at += len(alone)


def test_its_work_is_counted_by_layers():
    graph = drawn(20, 4)
    arcs = graph["edges"].shape[1] + 20
    convolutions = 2 * 20 * 7 * 5 + 2 * arcs * 5 + 7 * 5 + 2 * 20 * 5 * 5 + 2 * arcs * 5 + 5 * 5
    assert MODEL.convolutions_flops(graph) == convolutions
    assert MODEL.flops(graph, CLASSES) == convolutions + 2 * 20 * 5 * 3 + 5 * 3


def test_a_classifier_without_a_convolution_is_refused():
    with pytest.raises(ValueError, match=r"layers\n.*greater than or equal to 2"):
        TypeAdapter(MaskedGCN).validate_python({"layers": 1})

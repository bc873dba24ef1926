"""EvolveGCN with its matrices written out, and how weights turn from period to period."""

import pytest
import torch
from changing import dense, shaken, undirected
from learnlab import largest_gap

from fedsim.learn.engine import joining, tree
from fedsim.learn.models.evolve_gcn_h import EvolveGCNH
from fedsim.learn.models.evolve_gcn_o import EvolveGCNO

FEATURES, HIDDEN, CLASSES = 7, 5, 3
KINDS = {"O": EvolveGCNO, "H": EvolveGCNH}


def first(kind, seed=0):
    return shaken(kind(hidden=HIDDEN).init(FEATURES, CLASSES, torch.Generator().manual_seed(seed)), seed)


def evolved(p, summary):
    """The matrix recurrence, gate by gate."""
    w = p["weight"]

    def pre(gate, memory):
        return p["input"][gate] @ summary + p["memory"][gate] @ memory + p["bias"][gate]

    u, r = torch.sigmoid(pre(0, w)), torch.sigmoid(pre(1, w))
    return (1 - u) * w + u * torch.tanh(pre(2, r * w))


def summary(name, p, h):
    if name == "O":
        return p["weight"]
    score = h @ p["scorer"] / p["scorer"].norm()
    best = sorted(range(len(h)), key=lambda v: -float(score[v].detach()))[:HIDDEN]
    best += best[-1:] * (HIDDEN - len(best))
    return (h[best] * torch.tanh(score[best]).unsqueeze(1)).T


def by_hand(name, params, graph, norm="sym"):
    """Logits and the weights evolved."""
    a = dense(graph)
    root = a.sum(1).rsqrt()
    a = {"sym": root.unsqueeze(1) * a * root, "mean": a / a.sum(1, keepdim=True), "sum": a}[norm]
    h, weights = graph["x"].to_dense(), []
    for i in (1, 2):
        weights.append(evolved(params[f"layer{i}"], summary(name, params[f"layer{i}"], h)))
        h = torch.relu(a @ h @ weights[-1])
    return h @ params["classifier"]["weight"] + params["classifier"]["bias"], weights


@pytest.mark.parametrize("as_csr", [False, True])
@pytest.mark.parametrize("size", [20, 3])
@pytest.mark.parametrize("name", KINDS)
def test_outputs_weights_and_gradients_are_those_written_out(name, size, as_csr):
    model, graph = KINDS[name](hidden=HIDDEN), undirected(size, 1, as_csr=as_csr)
    params = tree.transform(lambda leaf: leaf.requires_grad_(True), first(KINDS[name]))
    expected, weights = by_hand(name, params, graph)
    out = model.forward(tree.stack([params]), graph)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    leaves = list(tree.leaves(params))
    for mine, other in zip(
        torch.autograd.grad(out.square().sum(), leaves), torch.autograd.grad(expected.square().sum(), leaves),
        strict=True,
    ):  # fmt: skip
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-4)
    turned = model.turn(tree.stack([params]), graph)
    for i in (1, 2):
        torch.testing.assert_close(turned[f"layer{i}"]["weight"][0], weights[i - 1], rtol=1e-4, atol=1e-5)
    assert not any(leaf.requires_grad for leaf in tree.leaves(turned))


@pytest.mark.parametrize("norm", ["mean", "sum"])
@pytest.mark.parametrize("name", KINDS)
def test_neighbours_may_be_averaged_as_graphsage_does(name, norm):
    model, graph, params = KINDS[name](hidden=HIDDEN, norm=norm), undirected(20, 1), first(KINDS[name])
    expected, _ = by_hand(name, params, graph, norm)
    torch.testing.assert_close(model.forward(tree.stack([params]), graph), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", KINDS)
def test_only_weights_turn_and_again_in_every_period(name):
    model, params = KINDS[name](hidden=HIDDEN), tree.stack([first(KINDS[name])])
    now, last = params, None
    for seed in range(3):
        graph = undirected(20, seed)
        expected = by_hand(name, tree.at(now, 0), graph)[1]
        last, now = now, model.turn(now, graph)
        torch.testing.assert_close(now["layer2"]["weight"][0], expected[1], rtol=1e-4, atol=1e-5)
        assert not torch.allclose(now["layer1"]["weight"], last["layer1"]["weight"], atol=1e-3)
    for layer, own in now.items():
        for key, value in own.items():
            assert torch.equal(value, params[layer][key]) == (key != "weight" or layer == "classifier")


def test_turning_a_cohort_turns_each_client_by_its_own_graph():
    model, graphs = EvolveGCNH(hidden=HIDDEN), [undirected(size, size) for size in (12, 4, 30)]
    params = [first(EvolveGCNH, k) for k in range(3)]
    turned = model.turn(tree.stack(params), joining.union(graphs))
    for k, graph in enumerate(graphs):
        assert largest_gap(tree.at(turned, k), tree.at(model.turn(tree.stack([params[k]]), graph), 0)) < 1e-4
    with pytest.raises(ValueError, match="cannot evolve by several graphs"):
        model.turn(tree.stack(params[:1]), joining.union(graphs, shared=True))


def test_equal_scores_count_in_the_order_of_the_nodes():
    model, graph, params = EvolveGCNH(hidden=HIDDEN), undirected(20, 2), first(EvolveGCNH)
    x = graph["x"] * 0 + 1.0
    x[:, 0] = torch.arange(20.0)
    params["layer1"]["scorer"] = torch.tensor([0.0, 1, 1, 1, 1, 1, 1])
    found = model.summary(tree.stack([params["layer1"]]), x, graph)
    size = torch.tanh(torch.tensor(6.0).sqrt())
    torch.testing.assert_close(found[0, 0], torch.arange(5.0) * size)


@pytest.mark.parametrize("name", KINDS)
def test_parameters_and_work_are_counted(name):
    model, graph = KINDS[name](hidden=HIDDEN), undirected(20, 3)
    scorers = {"O": 0, "H": 7 + 5}[name]
    layers = 7 * 5 + 3 * (2 * 7 * 7 + 7 * 5) + 5 * 5 + 3 * (2 * 5 * 5 + 5 * 5)
    assert tree.count(first(KINDS[name])) == layers + scorers + 5 * 3 + 3
    arcs = graph["edges"].shape[1] + 20
    work = 12 * 49 * 5 + 350 + 2 * 20 * 35 + 2 * arcs * 5 + 12 * 125 + 250 + 2 * 20 * 25 + 2 * arcs * 5 + 2 * 20 * 15
    assert model.flops(graph, CLASSES) == work + (3 * 20 * 12 + 40 if name == "H" else 0)


def test_an_unrolled_recurrence_is_so_many_turns_in_one_pass():
    graph, params, one = undirected(20, 1), first(EvolveGCNO), EvolveGCNO(hidden=HIDDEN)
    thrice, seen = EvolveGCNO(hidden=HIDDEN, unroll=3), tree.stack([params])
    turned = one.turn(one.turn(seen, graph), graph)
    torch.testing.assert_close(thrice.forward(seen, graph), one.forward(turned, graph))
    assert largest_gap(thrice.turn(seen, graph), one.turn(turned, graph)) < 1e-6
    assert float((thrice.forward(seen, graph) - one.forward(seen, graph)).abs().max()) > 1e-2
    gates = sum(12.0 * wide**2 * HIDDEN + 10.0 * wide * HIDDEN for wide in (FEATURES, HIDDEN))
    assert thrice.flops(graph, CLASSES) - one.flops(graph, CLASSES) == 2 * gates

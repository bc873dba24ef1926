"""ROLAND against torch's own cells and layers, and against closed forms."""

import warnings

import pytest
import torch
from changing import dense, shaken, undirected

from fedsim.learn.engine import tree
from fedsim.learn.models.roland import Roland

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import GATConv, GCNConv

FEATURES, HIDDEN = 7, 5


def first(model, seed=0):
    return shaken(model.init(FEATURES, 3, torch.Generator().manual_seed(seed)), seed)


def message_by_torch(p, h, graph, convolution, normalise):
    """selu(BatchNorm(conv(h)))."""
    conv = GCNConv(*p["weight"].shape) if convolution == "gcn" else GATConv(*p["weight"].shape)
    conv.lin.weight.data, conv.bias.data = p["weight"].T.clone(), p.get("bias", torch.zeros(HIDDEN)).clone()
    if convolution == "gat":
        conv.att_src.data, conv.att_dst.data = p["source"].view(1, 1, -1).clone(), p["target"].view(1, 1, -1).clone()
    m = conv(h, graph["edges"])
    if normalise == "batch":
        norm = torch.nn.BatchNorm1d(HIDDEN)
        norm.weight.data, norm.bias.data = p["scale"].clone(), p["shift"].clone()
        m = norm(m)
    return torch.selu(m)


def as_cell(p):
    """torch's GRU cell with the same weights, its reset applied behind a diagonal weight, where it makes no matter."""
    cell = torch.nn.GRUCell(HIDDEN, HIDDEN)
    gates, candidate = p["gates"].T, p["candidate"].T
    z, r = gates.split(HIDDEN)
    cell.weight_ih.data = torch.cat([r[:, :HIDDEN], z[:, :HIDDEN], candidate[:, :HIDDEN]])
    cell.weight_hh.data = torch.cat([r[:, HIDDEN:], z[:, HIDDEN:], candidate[:, HIDDEN:]])
    of_z, of_r = p["gates_bias"].split(HIDDEN)
    cell.bias_ih.data = torch.cat([of_r, of_z, p["candidate_bias"]])
    cell.bias_hh.data.zero_()
    return cell


def diagonal(p):
    """The same layer, its candidate's weight on the states diagonal."""
    weight = p["candidate"].clone()
    weight[HIDDEN:] = torch.diag(weight[HIDDEN:].diagonal())
    return {**p, "candidate": weight}


@pytest.mark.parametrize("convolution", ["gcn", "gat"])
@pytest.mark.parametrize("normalise", ["batch", "none"])
def test_two_layers_are_torchs_convolutions_and_cells(convolution, normalise):
    model = Roland(hidden=HIDDEN, convolution=convolution, normalise=normalise)
    params, graph = first(model), undirected(20, 1, width=2 * HIDDEN)
    params = {name: diagonal(p) if "candidate" in p else p for name, p in params.items()}
    h, states = graph["x"], []
    for i, before in enumerate(graph["state"].split(HIDDEN, dim=1), 1):
        p = params[f"layer{i}"]
        h = as_cell(p)(message_by_torch(p, h, graph, convolution, normalise), before)
        states.append(h)
    embedding = torch.nn.functional.normalize(h, dim=1)
    logits = embedding @ params["classifier"]["weight"] + params["classifier"]["bias"]
    out, found = model.step(tree.stack([params]), graph)
    torch.testing.assert_close(found, torch.cat(states, 1).detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(out, logits.detach(), rtol=1e-4, atol=1e-5)


def test_the_reset_comes_before_the_weight():
    model = Roland(hidden=HIDDEN, layers=1, normalise="none", unit=False)
    params, graph = first(model, 2), undirected(12, 2, width=HIDDEN)
    p, s = params["layer1"], graph["state"]
    m = message_by_torch(p, graph["x"], graph, "gcn", "none")
    z, r = torch.sigmoid(torch.cat([m, s], 1) @ p["gates"] + p["gates_bias"]).split(HIDDEN, 1)
    c = torch.tanh(m @ p["candidate"][:HIDDEN] + (r * s) @ p["candidate"][HIDDEN:] + p["candidate_bias"])
    expected = z * s + (1 - z) * c
    torch.testing.assert_close(model.embed(tree.stack([params]), graph), expected.detach(), rtol=1e-4, atol=1e-5)
    cell = as_cell(p)(m, s)  # torch resets behind a weight that is not diagonal here
    assert not torch.allclose(cell, expected, atol=1e-3)


def test_a_moving_average_is_its_closed_form_over_periods():
    model = Roland(hidden=HIDDEN, layers=1, update="moving_average", keep=0.4, unit=False)
    params, state = tree.stack([first(model)]), torch.zeros(15, HIDDEN)
    messages = []
    for seed in range(4):
        graph = {**undirected(15, seed), "state": state}
        messages.append(message_by_torch(tree.at(params["layer1"], 0), graph["x"], graph, "gcn", "batch").detach())
        state = model.remember(params, graph)
    expected = sum(0.6 * 0.4 ** (3 - t) * m for t, m in enumerate(messages))
    torch.testing.assert_close(state, expected, rtol=1e-4, atol=1e-5)


def test_by_degrees_a_moving_average_weighs_each_period_by_its_edges():
    model = Roland(hidden=HIDDEN, layers=1, update="moving_average", normalise="none", unit=False)
    params, state = tree.stack([first(model)]), torch.zeros(15, HIDDEN + 1)
    assert model.state_width(FEATURES, 3) == HIDDEN + 1
    total, weighed = torch.zeros(15), torch.zeros(15, HIDDEN)
    for seed in range(3):
        graph = {**undirected(15, seed), "state": state}
        message = message_by_torch(tree.at(params["layer1"], 0), graph["x"], graph, "gcn", "none").detach()
        degree = dense(graph, loops=False).sum(1)
        total, weighed = total + degree, weighed + degree.unsqueeze(1) * message
        state = model.remember(params, graph)
    torch.testing.assert_close(state[:, -1], total)
    there = total > 0
    expected = weighed[there] / total[there].unsqueeze(1)
    torch.testing.assert_close(state[there, :-1], expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(state[~there, :-1], message[~there], rtol=1e-4, atol=1e-5)


def test_an_mlp_updates_by_both():
    model = Roland(hidden=HIDDEN, layers=1, update="mlp", unit=False)
    params, graph = first(model), undirected(12, 3, width=HIDDEN)
    p = params["layer1"]
    both = torch.cat([message_by_torch(p, graph["x"], graph, "gcn", "batch"), graph["state"]], 1)
    expected = torch.relu(both @ p["mix"] + p["mix_bias"]) @ p["out"] + p["out_bias"]
    torch.testing.assert_close(model.embed(tree.stack([params]), graph), expected.detach(), rtol=1e-4, atol=1e-5)


def test_its_work_is_counted_by_layers():
    graph = undirected(20, 4)
    arcs = graph["edges"].shape[1] + 20
    passing = 2 * 20 * 7 * 5 + (2 * arcs + 200) * 5 + 2 * 20 * 5 * 5 + (2 * arcs + 200) * 5
    classifier = 2 * 20 * 5 * 3
    products = {"gru": 2 * 20 * 10 * 15, "mlp": 2 * 20 * (10 * 5 + 5 * 5), "moving_average": 0}
    for update, work in products.items():
        assert Roland(hidden=5, update=update).flops(graph, 3) == passing + 2 * work + classifier

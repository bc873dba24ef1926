"""Recurrent networks of Chebyshev convolutions against PyG's ChebConv."""

import warnings

import pytest
import torch
from changing import shaken, undirected

from fedsim.learn.engine import joining, layout, tree
from fedsim.learn.layers.convolution import chebyshev
from fedsim.learn.models.gcrn_baseline import GCRNBaseline
from fedsim.learn.models.gcrn_gru import GCRNGRU
from fedsim.learn.models.gcrn_lstm import GCRNLSTM

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch_geometric.nn import ChebConv

FEATURES, HIDDEN, ORDER = 7, 5, 7


def theirs(h, weight, graph, gate, gates):
    """PyG's convolution with one gate's part of weights (F, order · gates · H)."""
    conv = ChebConv(h.shape[1], HIDDEN, ORDER, bias=False)
    parts = weight.view(len(weight), ORDER, gates, HIDDEN)[:, :, gate]
    for k, lin in enumerate(conv.lins):
        lin.weight = torch.nn.Parameter(parts[:, k].T.clone())
    return conv(h, graph["edges"]).detach()


def stacked(model, seed=0):
    params = shaken(model.init(FEATURES, 3, torch.Generator().manual_seed(seed)), seed)
    return params, tree.stack([params])


@pytest.mark.parametrize("order", [1, 2, 3, 7])
def test_the_convolution_is_pygs_self_loops_left_out(order):
    graph = undirected(20, 1)
    graph["edges"] = torch.cat([graph["edges"], torch.tensor([[3, 4], [3, 4]])], 1)
    graph.pop("layout", None)
    weight = torch.randn(FEATURES, order * HIDDEN, generator=torch.Generator().manual_seed(0))
    conv = ChebConv(FEATURES, HIDDEN, order, bias=False)
    for k, lin in enumerate(conv.lins):
        lin.weight.data = weight.view(FEATURES, order, HIDDEN)[:, k].T.clone()
    found = chebyshev(graph["x"], weight.unsqueeze(0), graph, order)
    torch.testing.assert_close(found, conv(graph["x"], graph["edges"]).detach(), rtol=1e-4, atol=1e-4)


def test_a_gated_unit_is_made_of_their_convolutions():
    model, graph = GCRNGRU(hidden=HIDDEN), undirected(20, 2, width=HIDDEN)
    params, stack = stacked(model)
    p, x, s = params["layer1"], graph["x"], graph["state"]
    bias = p["bias"].split(HIDDEN)

    def gate(k):
        of_states = theirs(s, p["memory"], graph, k, 2)
        return torch.sigmoid(theirs(x, p["input"], graph, k, 3) + of_states + bias[k])

    z, r = gate(0), gate(1)
    fresh = theirs(x, p["input"], graph, 2, 3) + theirs(r * s, p["candidate"], graph, 0, 1) + bias[2]
    expected = z * s + (1 - z) * torch.tanh(fresh)
    torch.testing.assert_close(model.remember(stack, graph), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.embed(stack, graph), expected, rtol=1e-4, atol=1e-4)


def test_an_lstm_is_made_of_their_convolutions_and_sees_its_cells():
    model, graph = GCRNLSTM(hidden=HIDDEN), undirected(20, 3, width=2 * HIDDEN)
    params, stack = stacked(model)
    p, x = params["layer1"], graph["x"]
    s, c = graph["state"].split(HIDDEN, 1)
    bias, peep = p["bias"].split(HIDDEN), p["peepholes"].split(HIDDEN)

    def pre(k):
        return theirs(x, p["input"], graph, k, 4) + theirs(s, p["memory"], graph, k, 4) + bias[k]

    i, f = torch.sigmoid(pre(0) + peep[0] * c), torch.sigmoid(pre(1) + peep[1] * c)
    cell = f * c + i * torch.tanh(pre(3))
    out = torch.sigmoid(pre(2) + peep[2] * cell) * torch.tanh(cell)
    torch.testing.assert_close(model.remember(stack, graph), torch.cat([out, cell], 1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model.embed(stack, graph), out, rtol=1e-4, atol=1e-4)
    assert model.state_width(FEATURES, 3) == 2 * HIDDEN


def test_a_baseline_convolves_its_input_alone_and_is_torchs_lstm_without_peepholes():
    model, graph = GCRNBaseline(hidden=HIDDEN), undirected(20, 3, width=2 * HIDDEN)
    params, _ = stacked(model)
    p = params["layer1"]
    cell = torch.nn.LSTMCell(HIDDEN, HIDDEN)
    order = [0, 1, 3, 2]  # torch has the input before the output gate
    for name, ours in (("weight_ih", p["given"]), ("weight_hh", p["memory"]), ("bias_ih", p["bias"])):
        parts = ours.T.chunk(4) if ours.ndim == 2 else ours.chunk(4)
        getattr(cell, name).data = torch.cat([parts[k] for k in order])
    cell.bias_hh.data.zero_()
    seen = theirs(graph["x"], p["input"], graph, 0, 1) + p["shift"]
    out, after = cell(seen, graph["state"].chunk(2, 1))
    plain = tree.stack([{**params, "layer1": {**p, "peepholes": torch.zeros(3 * HIDDEN)}}])
    expected = torch.cat([out, after], 1).detach()
    torch.testing.assert_close(model.remember(plain, graph), expected, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(model.remember(tree.stack([params]), graph), expected, atol=1e-3)


def test_a_second_layer_reads_outputs_and_not_cells():
    model, graph = GCRNLSTM(hidden=HIDDEN, layers=2), undirected(20, 4, width=4 * HIDDEN)
    params, stack = stacked(model)
    one = GCRNLSTM(hidden=HIDDEN)
    lower = one.remember(tree.stack([{"layer1": params["layer1"]}]), {**graph, "state": graph["state"][:, :10]})
    upper = {**graph, "x": lower[:, :HIDDEN], "state": graph["state"][:, 10:]}
    upper.pop("layout", None)
    expected = torch.cat([lower, one.remember(tree.stack([{"layer1": params["layer2"]}]), upper)], 1)
    torch.testing.assert_close(model.remember(stack, graph), expected, rtol=1e-4, atol=1e-4)


def test_layouts_of_a_union_are_block_diagonal():
    graphs = [undirected(size, size) for size in (5, 8)]
    whole, parts = layout.of(joining.union(graphs)), [layout.of(graph) for graph in graphs]
    for norm in ("closed", "open_sym"):
        joined = torch.block_diag(*[part.matrix(norm).rows.tensor().to_dense() for part in parts])
        torch.testing.assert_close(whole.matrix(norm).rows.tensor().to_dense(), joined)
        torch.testing.assert_close(whole.matrix(norm).columns.tensor().to_dense(), joined.T)
    torch.testing.assert_close(whole.degree, torch.cat([part.degree for part in parts]))


@pytest.mark.parametrize(("kind", "gates", "rest"), [(GCRNGRU, 3, 12), (GCRNLSTM, 4, 20)])
def test_their_work_is_counted_by_gates(kind, gates, rest):
    graph = undirected(20, 5)
    moves = 6 * (2 * graph["edges"].shape[1] + 60) * gates * 5
    expected = 2 * 140 * 7 * gates * 5 + 2 * 100 * 7 * gates * 5 + 2 * moves + rest * 100 + 2 * 20 * 5 * 3
    assert kind(hidden=5).flops(graph, 3) == expected

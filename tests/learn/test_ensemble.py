"""An ensemble as one model, and parameters in eight bits."""

import pytest
import torch

from algorithms.fens.ensemble import Ensemble, aggregator_flops, dequantised, quantised
from fedsim.core import wire
from fedsim.data.graph import graph_of
from fedsim.learn.engine import joining, tree
from fedsim.learn.models.gcn import GCN


def gap(one, other):
    return max(float((a - b).abs().max()) for a, b in zip(tree.leaves(one), tree.leaves(other), strict=True))


def generator(seed):
    return torch.Generator().manual_seed(seed)


def graph(seed, n=9):
    g = generator(seed)
    return graph_of(torch.randn(n, 5, generator=g), torch.randint(n, (2, 20), generator=g), torch.arange(n) % 3)


def drawn(model, seed, members=2):
    return {
        "members": {str(m): model.init(5, 3, generator(10 * seed + m)) for m in range(members)},
        "aggregator": model.aggregator(members, 3, generator(seed)),
    }


def test_its_logits_are_the_aggregators_of_all_members_and_clients_keep_apart():
    model = Ensemble(one=GCN(hidden=4), width=6)
    sets, graphs = [drawn(model, seed) for seed in (1, 2)], [graph(1), graph(2, 7)]
    parts = []
    for params, data in zip(sets, graphs, strict=True):
        logits = [GCN(hidden=4).forward(tree.stack([one]), data) for one in params["members"].values()]
        first, second = params["aggregator"]["layer1"], params["aggregator"]["layer2"]
        hidden = (torch.cat(logits, 1) @ first["weight"] + first["bias"]).clamp(min=0)
        parts.append(hidden @ second["weight"] + second["bias"])
    torch.testing.assert_close(model.forward(tree.stack(sets), joining.union(graphs)), torch.cat(parts))


def test_a_single_model_is_itself():
    model, data = Ensemble(one=GCN(hidden=4)), graph(3)
    params = tree.stack([model.init(5, 3, generator(0))])
    assert gap(params, tree.stack([GCN(hidden=4).init(5, 3, generator(0))])) == 0
    assert torch.equal(model.forward(params, data), GCN(hidden=4).forward(params, data))
    assert torch.equal(model.embed(params, data), GCN(hidden=4).embed(params, data))
    assert model.flops(data, 3) == GCN(hidden=4).flops(data, 3)
    assert aggregator_flops(7, 2, 3, 6) == 2 * 7 * (6 * 6 + 6 * 3)


def test_eight_bits_are_half_a_step_off_at_most_and_take_a_byte_a_number():
    params = {"layer1": {"weight": 3 * torch.randn(50, 40, generator=generator(0)), "bias": torch.zeros(40)}}
    sent = quantised(params)
    assert wire.array_bytes(sent) == 50 * 40 + 40 + 2 * 8
    back, weight = dequantised(sent), params["layer1"]["weight"]
    step = float(weight.max() - weight.min()) / 255
    assert gap(back, params) == pytest.approx(step / 2, rel=0.05)
    assert torch.equal(back["layer1"]["bias"], params["layer1"]["bias"])
    assert float(back["layer1"]["weight"].max()) == pytest.approx(float(weight.max()), rel=1e-5)
    one = torch.tensor([2.5, 2.5])
    assert torch.equal(dequantised(quantised({"b": one}))["b"], one)

"""Affine layers without a graph: torch's own are the oracle."""

import torch

from fedsim.learn.engine import tree
from fedsim.learn.layers import dense


def test_two_layers_are_torchs_with_the_same_numbers() -> None:
    params = dense.layers((5, 7, 3), torch.Generator().manual_seed(4))
    h = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
    oracle = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3))
    for module, name in ((oracle[0], "layer1"), (oracle[2], "layer2")):
        module.weight.data, module.bias.data = params[name]["weight"].T.clone(), params[name]["bias"].clone()
    assert torch.allclose(dense.through(params, h), oracle(h), atol=1e-6)


def test_layers_are_drawn_as_declared_and_within_torchs_range() -> None:
    widths = (64, 200, 10)
    params = dense.layers(widths, torch.Generator().manual_seed(0))
    like = dense.like(widths)
    assert params.keys() == like.keys()
    for (name, parts), inputs in zip(like.items(), widths[:-1], strict=True):
        bound = inputs**-0.5
        for part, spec in parts.items():
            drawn = params[name][part]
            assert tuple(drawn.shape) == spec.shape
            assert drawn.dtype == torch.float32
            assert drawn.abs().max() <= bound
            assert drawn.abs().max() > 0.5 * bound


def test_a_tree_moves_whole_and_keeps_what_is_no_tensor() -> None:
    moved = tree.to({"a": torch.ones(2), "b": (None, 3, [torch.zeros(1)])}, "meta")
    assert moved["a"].device.type == moved["b"][2][0].device.type == "meta"
    assert moved["b"][0] is None
    assert moved["b"][1] == 3

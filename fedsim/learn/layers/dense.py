"""Layers without a graph: affine maps one after the other, drawn as `torch.nn.Linear` draws them.

Parameters are {"layer1": {"weight": (F, H), "bias": (H,)}, …}, without a client axis.  What comes between the
layers is up to the caller.  Not modelled: normalisation.
"""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Generator, Tensor

from fedsim.core.wire import Spec
from fedsim.learn.model import Parameters, fan_in


def layer(inputs: int, outputs: int, generator: Generator) -> dict[str, Tensor]:
    """Return one layer's first weight and bias, on the CPU."""
    return {"weight": fan_in(inputs, generator, (inputs, outputs)), "bias": fan_in(inputs, generator, (outputs,))}


def layers(widths: Sequence[int], generator: Generator) -> Parameters:
    """Return the first parameters of layers between these widths, on the CPU."""
    return {f"layer{i}": layer(*ends, generator) for i, ends in enumerate(pairwise(widths), 1)}


def layer_like(inputs: int, outputs: int) -> dict[str, Spec]:
    """Return the shapes of a layer, as it travels."""
    return {"weight": Spec((inputs, outputs), "float32"), "bias": Spec((outputs,), "float32")}


def like(widths: Sequence[int]) -> dict[str, dict[str, Spec]]:
    """Return the shapes of such parameters, as they travel."""
    return {f"layer{i}": layer_like(*ends) for i, ends in enumerate(pairwise(widths), 1)}


def through(params: Parameters, h: Tensor) -> Tensor:
    """Return the output (n, ·) of two layers with a rectifier between them for h (n, ·)."""
    first, second = params["layer1"], params["layer2"]
    hidden = torch.relu(torch.addmm(first["bias"], h, first["weight"]))
    return torch.addmm(second["bias"], hidden, second["weight"])

"""Eight-bit parameters, for methods that quantise their models themselves.

Each tensor is sent as its smallest and largest number, and for every number the index of the nearest of 256 evenly
spaced values between them.  Not modelled: a range for each row, random rounding (the codec `int8` has it).
"""

import torch
from torch import Tensor

from fedsim.core.wire import Spec
from fedsim.learn import tree

STEPS = 255


def small(params: tree.Tree) -> tree.Tree:
    """Return the parameters as they are sent: {"steps": uint8, "range": float32 (2,)} for every tensor."""
    if isinstance(params, dict):
        return {key: small(value) for key, value in params.items()}
    ends = torch.stack([params.min(), params.max()]).float()
    unit = ((ends[1] - ends[0]) / STEPS).clamp(min=torch.finfo(torch.float32).tiny)
    return {"steps": ((params - ends[0]) / unit).round().clamp(0, STEPS).to(torch.uint8), "range": ends}


def whole(sent: tree.Tree) -> tree.Tree:
    """Return parameters from the output of `small`, each at most half a step off."""
    if set(sent) != {"steps", "range"}:
        return {key: whole(value) for key, value in sent.items()}
    low, high = sent["range"]
    return low + sent["steps"].to(torch.float32) * ((high - low) / STEPS)


def like(params: tree.Tree) -> tree.Tree:
    """Return a tree as large as `small` makes these parameters."""
    if isinstance(params, Tensor):
        return {"steps": Spec(tuple(params.shape), "uint8"), "range": Spec((2,), "float32")}
    return {key: like(value) for key, value in params.items()}

"""Trees at either end of a deployed message: bytes in, tensors out.

Every array that arrives becomes a tensor on the receiver's device, as it is where a run is simulated.
"""

from typing import Any

import numpy as np
import torch

from fedsim.core import wire
from fedsim.core.wire import Tree


def parted(message: bytes) -> tuple[dict[str, Any], Tree]:
    """Return envelope and payload of an encoded message, with numpy's arrays.  Raises ValueError for other bytes."""
    envelope, used = wire.decode_first(message)
    return envelope, wire.decode(message[used:])


def tensors(tree: Tree, device: str) -> Tree:
    """Return the tree with a tensor for each array."""
    if isinstance(tree, dict):
        return {key: tensors(value, device) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(tensors(value, device) for value in tree)
    return torch.from_numpy(np.array(tree)).to(device) if isinstance(tree, np.ndarray) else tree

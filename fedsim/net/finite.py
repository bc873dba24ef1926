"""Check whether all numbers of a tree are finite, which decides what a server accepts from a client.

If a sum is finite, so are its terms; one pass is enough unless something is wrong.  Only if the sum is not finite is
every number checked, as large ones may overflow in the sum.  Not modelled: time.
"""

import math
from typing import Any

import numpy as np

from fedsim.core.wire import Spec, Tree
from fedsim.net import floats


def is_finite(tree: Tree) -> bool:
    """Return whether all numbers of a tree are finite, in arrays and alone; a Spec has none.

    A dict with an attribute `finite` other than None (learn/rows.py) is not read.
    """
    if isinstance(tree, dict):
        known = None if type(tree) is dict else getattr(tree, "finite", None)
        return all(map(is_finite, tree.values())) if known is None else bool(known)
    if isinstance(tree, list | tuple):
        return all(map(is_finite, tree))
    if type(tree) is int:
        return True
    if isinstance(tree, float):
        return math.isfinite(tree)
    return not floats.is_array(tree) or isinstance(tree, Spec) or _all_finite(tree)


def _all_finite(array: Any) -> bool:
    if floats.spec(array).dtype not in floats.LETTERS:
        return True
    if hasattr(array, "isfinite"):
        return math.isfinite(array.sum().item()) or bool(array.isfinite().all())
    with np.errstate(over="ignore", invalid="ignore"):
        return math.isfinite(array.sum()) or bool(np.isfinite(array).all())

"""Whether a tree holds real numbers only: what a server takes from a client and what it refuses.

A sum that is finite has finite terms only, so that one pass is enough where nothing is wrong; only where a sum is not
is every number looked at, for large ones may add up beyond the type's range.  It models no time.
"""

import math
from typing import Any

import numpy as np

from fedsim.core.wire import Spec, Tree
from fedsim.net import floats


def is_finite(tree: Tree) -> bool:
    """Return whether no number of a tree, alone or in an array, is infinite or not a number; a Spec holds none.

    A dict that knows says so itself by `finite` (learn/rows.py), without being looked into.
    """
    if isinstance(tree, dict):
        known = None if type(tree) is dict else getattr(tree, "finite", None)
        return all(map(is_finite, tree.values())) if known is None else bool(known)
    if isinstance(tree, list | tuple):
        return all(map(is_finite, tree))
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

"""The weighted mean of trees of whatever can be multiplied and added.  It knows no arrays of its own."""

from collections.abc import Sequence
from typing import Any


def weighted(trees: Sequence[Any], weights: Sequence[float]) -> Any:
    """Return the weighted mean of equal trees: dicts, lists and tuples of numbers, arrays or tensors."""
    first, total = trees[0], sum(weights)
    if isinstance(first, dict):
        return {key: weighted([one[key] for one in trees], weights) for key in first}
    if isinstance(first, list | tuple):
        return type(first)(weighted(parts, weights) for parts in zip(*trees, strict=True))
    return sum(leaf * (weight / total) for leaf, weight in zip(trees, weights, strict=True))

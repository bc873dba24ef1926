"""Arithmetic on trees of tensors: add, subtract, scale, average, stack.

A tree holds tensors, numbers and None in dicts, lists and tuples; messages are trees.  Numbers and None are
left as they are by `transform`.  `sq_distance` and `inner` are of trees with a leading client axis, as a loss
and a correction see them; a client's own tree in `work`, and a reply's in `update`, has none.  Everything else
works with or without one.  Operations on many clients' trees that were trained together run on all of them at
once (`rows.py`).
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache

import torch
from torch import Tensor

from fedsim.core.wire import Tree as Tree
from fedsim.learn.engine import rows
from fedsim.learn.engine.rows import at as at
from fedsim.learn.engine.rows import leaves as leaves
from fedsim.learn.engine.rows import sub as sub
from fedsim.learn.engine.rows import transform as transform
from fedsim.learn.engine.rows import unstack as unstack


def add(first: Tree, second: Tree) -> Tree:
    """Return first + second."""
    return transform(torch.add, first, second)


def scale(tree: Tree, factor: float) -> Tree:
    """Return the tree times a number."""
    return transform(lambda leaf: leaf * factor, tree)


def to(tree: Tree, device: str | torch.device) -> Tree:
    """Return a tree with its leaves on a device."""
    return transform(lambda leaf: leaf.to(device), tree)


def zeros_like(tree: Tree) -> Tree:
    """Return a tree of zeros of the same shapes."""
    return transform(torch.zeros_like, tree)


def filled(tree: Tree, values: Iterable[Tensor]) -> Tree:
    """Return a tree of the same shape that holds these tensors, in the order of `leaves`."""
    order = iter(values)
    return transform(lambda _: next(order), tree)


def named(tree: Tree, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a tree with their names, those of the dicts and places on the way joined by dots."""
    if isinstance(tree, Tensor):
        yield name, tree
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list | tuple) else ()
    for key, value in inner:
        yield from named(value, f"{name}.{key}" if name else str(key))


def mean(trees: Sequence[Tree], weights: Sequence[float], factors: Sequence[float] | None = None) -> Tree:
    """Return the weighted mean of trees of the same shapes; equal weights where all are zero.

    Weights are normalised in double precision; with `factors`, each tree is first multiplied by its own,
    which changes no weight.

    >>> mean([{"w": torch.tensor([0.0, 4.0])}, {"w": torch.tensor([4.0, 4.0])}], weights=[3, 1])
    {'w': tensor([1., 4.])}
    """
    total = float(sum(weights))
    shares = [weight / total for weight in weights] if total > 0 else [1 / len(trees)] * len(trees)
    if factors is not None:
        shares = [share * factor for share, factor in zip(shares, factors, strict=True)]
    whole = rows.weighted(trees, shares)
    if whole is not None:
        return whole

    @cache
    def share(dtype: torch.dtype, device: torch.device) -> Tensor:
        return torch.tensor(shares, dtype=dtype, device=device)

    def average(*values: Tensor) -> Tensor:
        one = share(values[0].dtype, values[0].device)
        return torch.tensordot(one, torch.stack(values), dims=1)  # type: ignore[no-any-return]

    return transform(average, *trees)


def stack(trees: Sequence[Tree]) -> Tree:
    """Return one tree with a leading client axis; leaves that are all the same tensor are expanded, not copied.

    >>> stack([{"w": torch.zeros(3)}, {"w": torch.ones(3)}])["w"].shape
    torch.Size([2, 3])
    """
    if all(one is trees[0] for one in trees):
        return transform(lambda leaf: leaf.expand(len(trees), *leaf.shape), trees[0])
    whole = rows.restack(trees)
    if whole is not None:
        return whole

    def join(*values: Tensor) -> Tensor:
        if all(value is values[0] for value in values):
            return values[0].unsqueeze(0).expand(len(values), *values[0].shape)
        return torch.stack(values)

    return transform(join, *trees)


def sq_distance(first: Tree, second: Tree) -> Tensor:
    """Return Σ (first - second)² over all but the client axis: (K,)."""
    parts = [(a - b).square().reshape(len(a), -1).sum(1) for a, b in zip(leaves(first), leaves(second), strict=True)]
    return torch.stack(parts).sum(0)


def inner(first: Tree, second: Tree) -> Tensor:
    """Return Σ first · second over all but the client axis: (K,)."""
    parts = [(a * b).reshape(len(a), -1).sum(1) for a, b in zip(leaves(first), leaves(second), strict=True)]
    return torch.stack(parts).sum(0)


def count(tree: Tree) -> int:
    """Return how many numbers the tensors of a tree hold.

    >>> count({"w": torch.zeros(4, 2), "b": torch.zeros(2)})
    10
    """
    return sum(leaf.numel() for leaf in leaves(tree))

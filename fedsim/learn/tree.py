"""Arithmetic on trees of tensors: add, subtract, scale, average, stack.

A tree holds tensors, numbers and None in dicts, lists and tuples; messages are trees.  Numbers and None are left as
they are by `transform`.  `sq_distance` keeps the leading client axis, everything else works with or without one.
Operations on many clients' trees that were trained together run on all of them at once (`rows.py`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fedsim.learn import rows

Tree = Any


def transform(function: Callable[..., Any], first: Tree, *others: Tree) -> Tree:
    """Apply the function to every tensor of the first tree and the leaves in the same place of the others.

    Raises KeyError or ValueError if the trees differ in shape.
    """
    if isinstance(first, dict):
        if any(first.keys() != other.keys() for other in others):
            raise ValueError(f"trees differ: {sorted(first)} against {[sorted(other) for other in others]}")
        return {key: transform(function, first[key], *(other[key] for other in others)) for key in first}
    if isinstance(first, (list, tuple)):
        return type(first)(transform(function, *rest) for rest in zip(first, *others, strict=True))
    return function(first, *others) if isinstance(first, Tensor) else first


def leaves(tree: Tree) -> Iterator[Tensor]:
    """Yield the tensors of a tree, in order."""
    if isinstance(tree, dict):
        for value in tree.values():
            yield from leaves(value)
    elif isinstance(tree, (list, tuple)):
        for value in tree:
            yield from leaves(value)
    elif isinstance(tree, Tensor):
        yield tree


def add(first: Tree, second: Tree) -> Tree:
    """Return first + second."""
    return transform(torch.add, first, second)


def sub(first: Tree, second: Tree) -> Tree:
    """Return first - second."""
    row = rows.difference(first, second)
    return transform(torch.sub, first, second) if row is None else row


def scale(tree: Tree, factor: float) -> Tree:
    """Return the tree times a number."""
    return transform(lambda leaf: leaf * factor, tree)


def to(tree: Tree, device: str | torch.device) -> Tree:
    """Return a tree with its leaves on a device."""
    return transform(lambda leaf: leaf.to(device), tree)


def zeros_like(tree: Tree) -> Tree:
    """Return a tree of zeros of the same shapes."""
    return transform(torch.zeros_like, tree)


def mean(trees: Sequence[Tree], weights: Sequence[float], factors: Sequence[float] | None = None) -> Tree:
    """Return the weighted mean of trees of the same shapes; equal weights where all are zero.

    Weights are normalised in double precision; with `factors`, each tree is first multiplied by its own, which
    changes no weight.
    """
    total = float(sum(weights))
    shares = [weight / total for weight in weights] if total > 0 else [1 / len(trees)] * len(trees)
    if factors is not None:
        shares = [share * factor for share, factor in zip(shares, factors, strict=True)]
    whole = rows.weighted(trees, shares)
    if whole is not None:
        return whole

    def average(*values: Tensor) -> Tensor:
        share = torch.tensor(shares, dtype=values[0].dtype, device=values[0].device)
        mixed: Tensor = torch.tensordot(share, torch.stack(values), dims=1)
        return mixed

    return transform(average, *trees)


def stack(trees: Sequence[Tree]) -> Tree:
    """Return one tree with a leading client axis; leaves that are all the same tensor are expanded, not copied."""
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


def at(tree: Tree, client: int) -> Tree:
    """Return one client's part of a stacked tree."""
    return transform(lambda leaf: leaf[client], tree)


def unstack(tree: Tree, clients: int) -> list[Tree]:
    """Return every client's part of a stacked tree, which must not be changed afterwards."""
    parted = rows.of(tree, clients)
    return _parts(tree, clients) if parted is None else parted


def _parts(tree: Tree, clients: int) -> list[Tree]:
    if isinstance(tree, dict):
        parts = {key: _parts(value, clients) for key, value in tree.items()}
        return [{key: part[k] for key, part in parts.items()} for k in range(clients)]
    if isinstance(tree, (list, tuple)):
        columns = [_parts(value, clients) for value in tree]
        return [type(tree)(column[k] for column in columns) for k in range(clients)]
    return list(tree.unbind(0)) if isinstance(tree, Tensor) else [tree] * clients


def sq_distance(first: Tree, second: Tree) -> Tensor:
    """Return Σ (first - second)² over all but the client axis: (K,)."""
    parts = [(a - b).square().flatten(1).sum(1) for a, b in zip(leaves(first), leaves(second), strict=True)]
    return torch.stack(parts).sum(0)


def inner(first: Tree, second: Tree) -> Tensor:
    """Return Σ first · second over all but the client axis: (K,)."""
    parts = [(a * b).flatten(1).sum(1) for a, b in zip(leaves(first), leaves(second), strict=True)]
    return torch.stack(parts).sum(0)


def count(tree: Tree) -> int:
    """Return how many numbers the tensors of a tree hold."""
    return sum(leaf.numel() for leaf in leaves(tree))

"""Rows: lazy per-client views of one stacked tree, each a dict that is filled when it is read.

A cohort is trained as one stacked tree, a leading client axis K before every tensor.  Splitting it into a
dict per client would cost four to five tensors each, again for the differences that are sent, and again to
average these.  So each client gets a `PlacedTree`, a dict that only holds its place; what `tree` does with
many rows of one stack, it does with the stack.  Once read, a row is an ordinary dict of tensors, which may be
changed.  Only dicts of dense floating-point tensors are kept so; other trees are split at once.
"""

import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fedsim.core import wire
from fedsim.core.wire import Tree


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


class Stack:
    """K trees in one: dicts of tensors (K, …).  Never changed, except through rows that were read."""

    def __init__(self, tree: Tree, clients: int, minuend: "Stack | None" = None, subtrahend: Tree = None) -> None:
        """Wrap the stacked tree of K clients; a difference also keeps its operands."""
        self.tree, self.clients = tree, clients
        self._subtrahend = subtrahend
        self._less: weakref.ref[Stack] | None = None  # the last difference from it, while a row needs it
        self._measured: tuple[int, int] | None = None
        self._finite: list[bool] | None = None
        if minuend is not None:
            minuend._less = weakref.ref(self)

    @property
    def measured(self) -> tuple[int, int]:
        """A row's size on the wire without the prefix, and the bytes of its arrays."""
        if self._measured is None:
            like = transform(
                lambda leaf: wire.Spec((*leaf.shape[1:],), str(leaf.dtype).removeprefix("torch.")), self.tree
            )
            self._measured = wire.size(like) - wire.PREFIX, wire.array_bytes(like)
        return self._measured

    @property
    def finite(self) -> list[bool]:
        """Whether each row holds finite numbers only; all are checked together, once."""
        if self._finite is None:
            tensors = [*leaves(self.tree)]
            if math.isfinite(torch.stack([leaf.sum(dtype=torch.float64) for leaf in tensors]).sum().item()):
                self._finite = [True] * self.clients  # for a finite sum has finite terms only
            else:
                finite = [leaf.reshape(self.clients, -1).isfinite().all(1) for leaf in tensors]
                self._finite = torch.stack(finite).all(0).tolist()
        return self._finite


class PlacedTree(dict[str, Any]):
    """One client's tree; to readers, a dict of tensors like any other."""

    __slots__ = ("_place", "_stack")

    def __init__(self, stack: Stack, place: int) -> None:
        """Stay empty until the row is read."""
        self._stack: Stack | None = stack
        self._place = place

    @property
    def origin(self) -> tuple[Stack, int] | None:
        """The stack and the place in it, or None once the row has been read and may have changed."""
        return None if self._stack is None else (self._stack, self._place)

    @property
    def measured(self) -> tuple[int, int] | None:
        """The sizes for core/wire.py; None if it must measure itself."""
        return None if self._stack is None else self._stack.measured

    @property
    def finite(self) -> bool | None:
        """Whether the row is finite, for `all_finite` of learner/client.py; None if it must check itself."""
        return None if self._stack is None else self._stack.finite[self._place]

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain dict."""
        return dict, (dict(self),)


def _filled_first(name: str) -> Any:
    """Return a dict's method, before which the row becomes an ordinary dict of tensors."""
    method = getattr(dict, name)

    def call(self: PlacedTree, *args: Any, **options: Any) -> Any:
        if self._stack is not None:
            stack, self._stack = self._stack, None
            self.update(at(stack.tree, self._place))
        return method(self, *args, **options)

    call.__name__, call.__doc__ = name, method.__doc__
    return call


# Every method that reads or changes a dict.  CPython itself uses keys() and [] if these are overridden.
for _name in (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__", "__ne__", "__or__"),
    *("__repr__", "__reversed__", "__ror__", "__setitem__", "clear", "copy", "get", "items", "keys", "pop", "popitem"),
    *("setdefault", "update", "values"),
):
    setattr(PlacedTree, _name, _filled_first(_name))


def unstack(tree: Tree, clients: int) -> list[Tree]:
    """Return every client's part of a stacked tree, which must not be changed afterwards."""
    if not (isinstance(tree, dict) and _is_stacked(tree, clients)):
        return [at(tree, client) for client in range(clients)]
    stack = Stack(tree, clients)
    return [PlacedTree(stack, place) for place in range(clients)]


def sub(first: Tree, second: Tree) -> Tree:
    """Return first - second; of a row that has not been read, as a row of the difference of the whole stack.

    The other rows of the stack then share that difference.
    """
    if type(first) is not PlacedTree or (stack := first._stack) is None:
        return transform(torch.sub, first, second)
    less = None if stack._less is None else stack._less()
    if less is None or less._subtrahend is not second:
        if not _fits(stack.tree, second):
            return transform(torch.sub, first, second)
        less = Stack(transform(torch.sub, stack.tree, second), stack.clients, stack, second)
    return PlacedTree(less, first._place)


def weighted(trees: Sequence[Tree], shares: Sequence[float]) -> Tree | None:
    """Return Σ share · tree with one product per stack, or None if not all are rows of similar stacks.

    Rows that are left out are not read: they may hold infinite numbers.
    """
    groups = _by_stack(trees)
    if groups is None:
        return None
    total = None
    for stack, indexes, places in groups:
        part = _product(stack.tree, *_in_order(stack, places, [shares[i] for i in indexes]), {})
        total = part if total is None else transform(torch.add, total, part)
    return total


def restack(trees: Sequence[Tree]) -> Tree | None:
    """Return rows as one stacked tree, or None if not all are rows of one stack; a complete stack is not copied."""
    groups = _by_stack(trees)
    return gather([(groups[0][0].tree, groups[0][2])]) if groups is not None and len(groups) == 1 else None


def gather(parts: Sequence[tuple[Tree, Sequence[int]]]) -> Tree:
    """Return these places of stacked trees, in order, as one stacked tree; a complete one is not copied."""

    def join(*leaves: Tensor) -> Tensor:
        taken = [_taken(leaf, places) for leaf, (_, places) in zip(leaves, parts, strict=True)]
        return taken[0] if len(taken) == 1 else torch.cat(taken)

    return transform(join, *(tree for tree, _ in parts))


def at(tree: Tree, client: int) -> Tree:
    """Return one client's part of a stacked tree."""
    return transform(lambda leaf: leaf[client], tree)


def _by_stack(trees: Sequence[Tree]) -> list[tuple[Stack, list[int], list[int]]] | None:
    """Return the stacks that these rows are of, each with the rows' indexes and places; None if some are not."""
    groups: dict[int, tuple[Stack, list[int], list[int]]] = {}
    for index, tree in enumerate(trees):
        if type(tree) is not PlacedTree or tree._stack is None:
            return None
        _, indexes, places = groups.setdefault(id(tree._stack), (tree._stack, [], []))
        indexes.append(index)
        places.append(tree._place)
    stacks = list(groups.values())
    alike = all(_fits(stacks[0][0].tree, other.tree, stack=True) for other, _, _ in stacks[1:])
    return stacks if stacks and alike else None


def _taken(leaf: Tensor, places: Sequence[int]) -> Tensor:
    if len(places) == 1:
        return leaf.narrow(0, places[0], 1)
    if len(places) == len(leaf) and [*places] == [*range(len(leaf))]:
        return leaf
    return leaf.index_select(0, torch.tensor(places, device=leaf.device))


def _in_order(stack: Stack, places: list[int], shares: list[float]) -> tuple[Sequence[int], list[float]]:
    """Return places and shares in the order of the stack if it is complete, so that shares move and not tensors."""
    if len(places) != stack.clients or len(set(places)) != stack.clients:
        return places, shares
    ordered = dict(zip(places, shares, strict=True))
    return range(stack.clients), [ordered[place] for place in range(stack.clients)]


def _product(node: Tree, places: Sequence[int], shares: list[float], vectors: dict[Any, Tensor]) -> Tree:
    """Return Σ share · row; `vectors` has the shares as tensors, by type and device."""
    if isinstance(node, dict):
        return {key: _product(value, places, shares, vectors) for key, value in node.items()}
    kind = node.dtype, node.device
    if kind not in vectors:
        vectors[kind] = torch.tensor(shares, dtype=node.dtype, device=node.device)
    return (vectors[kind] @ _taken(node, places).reshape(len(shares), -1)).view(node.shape[1:])


def _is_stacked(node: Tree, clients: int) -> bool:
    if isinstance(node, dict):
        return bool(node) and all(_is_stacked(value, clients) for value in node.values())
    if not isinstance(node, Tensor) or node.layout != torch.strided or node.requires_grad:
        return False
    return node.is_floating_point() and node.dim() > 0 and len(node) == clients


def _fits(stacked: Tree, tree: Tree, *, stack: bool = False) -> bool:
    """Return whether a tree, or every row of another `stack`, is like the rows: what holds for them holds for it."""
    if isinstance(stacked, dict):
        same = isinstance(tree, dict) and stacked.keys() == tree.keys()
        return same and all(_fits(value, tree[key], stack=stack) for key, value in stacked.items())
    if not isinstance(tree, Tensor) or tree.requires_grad or tree.layout != torch.strided:
        return False
    shape = tree.shape[1:] if stack else tree.shape
    return (tree.dtype, tree.device, shape) == (stacked.dtype, stacked.device, stacked.shape[1:])

"""Rows: lazy per-client views of one stacked tree, each a dict that is filled when it is read.

A cohort is trained as one stacked tree, a leading client axis K before every tensor.  Splitting it
into a dict per client would cost four to five tensors each, again for the differences that are sent, and again to
average these.  So each client gets a `Row`, a dict that only holds its place; what `tree` does with many rows of one
stack, it does with the stack.  Once read, a row is an ordinary dict of tensors, which may be changed.
Only dicts of dense floating-point tensors are kept so; other trees are split at once.
"""

import math
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from fedsim.core import wire

Tree = Any


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
            like = _specs(self.tree)
            self._measured = wire.size(like) - wire.PREFIX, wire.array_bytes(like)
        return self._measured

    @property
    def finite(self) -> list[bool]:
        """Whether each row holds finite numbers only; all are checked together, once."""
        if self._finite is None:
            self._finite = _finite(self.tree, self.clients)
        return self._finite

    def minus(self, second: Tree) -> "Stack | None":
        """Return the stack minus one tree, the same for all rows; None if shapes differ."""
        less = None if self._less is None else self._less()
        if less is not None and less._subtrahend is second:
            return less
        if not _fits(self.tree, second):
            return None
        return Stack(_minus(self.tree, second), self.clients, self, second)


class Row(dict[str, Any]):
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
        """Whether the row is finite, for net/finite.py; None if it must check itself."""
        return None if self._stack is None else self._stack.finite[self._place]

    def fill(self) -> None:
        """Become an ordinary dict of tensors."""
        if self._stack is not None:
            stack, self._stack = self._stack, None
            self.update(at(stack.tree, self._place))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle as a plain dict."""
        return dict, (dict(self),)


def _filled_first(name: str) -> Any:
    method = getattr(dict, name)

    def call(self: Row, *args: Any, **options: Any) -> Any:
        self.fill()
        return method(self, *args, **options)

    call.__name__, call.__doc__ = name, method.__doc__
    return call


# Every method that reads or changes a dict.  CPython itself uses keys() and [] if these are overridden.
for _name in (
    *("__contains__", "__delitem__", "__eq__", "__getitem__", "__ior__", "__iter__", "__len__", "__ne__", "__or__"),
    *("__repr__", "__reversed__", "__ror__", "__setitem__", "clear", "copy", "get", "items", "keys", "pop", "popitem"),
    *("setdefault", "update", "values"),
):
    setattr(Row, _name, _filled_first(_name))


def of(tree: Tree, clients: int) -> list[Tree] | None:
    """Return the rows of a stacked tree, or None unless it is made of dicts of floating-point tensors (K, …)."""
    if not (isinstance(tree, dict) and _is_stacked(tree, clients)):
        return None
    stack = Stack(tree, clients)
    return [Row(stack, place) for place in range(clients)]


def difference(first: Tree, second: Tree) -> Row | None:
    """Return first - second as a row of the difference of the whole stack, which the other rows then share.

    None if the first is not a row, or has been read, or the second has other shapes.
    """
    if type(first) is not Row or (origin := first.origin) is None:
        return None
    less = origin[0].minus(second)
    return None if less is None else Row(less, origin[1])


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
        total = part if total is None else _plus(total, part)
    return total


def restack(trees: Sequence[Tree]) -> Tree | None:
    """Return rows as one stacked tree, or None if not all are rows of one stack; a complete stack is not copied."""
    groups = _by_stack(trees)
    return gather([(groups[0][0].tree, groups[0][2])]) if groups is not None and len(groups) == 1 else None


def gather(parts: Sequence[tuple[Tree, Sequence[int]]]) -> Tree:
    """Return these places of stacked trees, in order, as one stacked tree; a complete one is not copied."""
    first = parts[0][0]
    if isinstance(first, dict):
        return {key: gather([(one[key], places) for one, places in parts]) for key in first}
    if isinstance(first, (list, tuple)):
        return type(first)(gather([(one[i], places) for one, places in parts]) for i in range(len(first)))
    if isinstance(first, Tensor):
        taken = [_taken(one, places) for one, places in parts]
        return taken[0] if len(taken) == 1 else torch.cat(taken)
    return first


def at(tree: Tree, place: int) -> Tree:
    """Return one row of a stacked tree of dicts and tensors."""
    return {key: at(value, place) for key, value in tree.items()} if isinstance(tree, dict) else tree[place]


def _by_stack(trees: Sequence[Tree]) -> list[tuple[Stack, list[int], list[int]]] | None:
    """Return the stacks that these rows are of, each with the rows' indexes and places; None if some are not."""
    groups: dict[int, tuple[Stack, list[int], list[int]]] = {}
    for index, tree in enumerate(trees):
        if type(tree) is not Row or tree._stack is None:
            return None
        group = groups.get(id(tree._stack))
        if group is None:
            group = groups[id(tree._stack)] = (tree._stack, [], [])
        group[1].append(index)
        group[2].append(tree._place)
    found = list(groups.values())
    return found if found and all(_alike(found[0][0].tree, one.tree) for one, _, _ in found[1:]) else None


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


def _plus(first: Tree, second: Tree) -> Tree:
    return {key: _plus(first[key], second[key]) for key in first} if isinstance(first, dict) else first + second


def _minus(first: Tree, second: Tree) -> Tree:
    if isinstance(first, dict):
        return {key: _minus(value, second[key]) for key, value in first.items()}
    return first - second


def _is_stacked(node: Tree, clients: int) -> bool:
    if isinstance(node, dict):
        return bool(node) and all(_is_stacked(value, clients) for value in node.values())
    if not isinstance(node, Tensor) or node.layout != torch.strided or node.requires_grad:
        return False
    return node.is_floating_point() and node.dim() > 0 and len(node) == clients


def _finite(tree: Tree, clients: int) -> list[bool]:
    """Return whether each row is finite: a finite sum has finite terms only; otherwise every number is checked."""
    leaves = [*_leaves(tree)]
    if math.isfinite(torch.stack([leaf.sum(dtype=torch.float64) for leaf in leaves]).sum().item()):
        return [True] * clients
    whole = [leaf.reshape(clients, -1) for leaf in leaves]
    sound: list[bool] = torch.stack([leaf.isfinite().all(1) for leaf in whole]).all(0).tolist()
    return sound


def _leaves(node: Tree) -> Iterator[Tensor]:
    if isinstance(node, dict):
        for value in node.values():
            yield from _leaves(value)
    else:
        yield node


def _fits(stacked: Tree, one: Tree) -> bool:
    """Return whether a tree has the shapes of the rows, so that what is computed for the stack holds for each."""
    if isinstance(stacked, dict):
        same = isinstance(one, dict) and stacked.keys() == one.keys()
        return same and all(_fits(value, one[key]) for key, value in stacked.items())
    if not isinstance(one, Tensor) or one.requires_grad or one.shape != stacked.shape[1:]:
        return False
    return one.dtype == stacked.dtype and one.device == stacked.device and one.layout == torch.strided


def _alike(first: Tree, second: Tree) -> bool:
    if isinstance(first, dict):
        same = isinstance(second, dict) and list(first) == list(second)
        return same and all(_alike(value, second[key]) for key, value in first.items())
    same_kind = isinstance(second, Tensor) and first.dtype == second.dtype and first.device == second.device
    return same_kind and first.shape[1:] == second.shape[1:]


def _specs(node: Tree) -> Tree:
    if isinstance(node, dict):
        return {key: _specs(value) for key, value in node.items()}
    return wire.Spec(tuple(node.shape[1:]), str(node.dtype).removeprefix("torch."))

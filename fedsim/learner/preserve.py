"""Serialise values that refer to one another, for the checkpoint of a running point, and restore them.

Objects stay shared, memory stays shared at the same offsets, and a row that was never read stays lazy (`rows.py`):
otherwise results would not be equal to the last bit.  Supported are None, numbers, texts, bytes, arrays, tensors,
`torch.dtype`s, dicts, lists, tuples, sets, and instances of fedsim's and the algorithms' dataclasses and named tuples
of such values.  Graphs of the point's own data are stored by their number.  What is derived from a graph is not stored
but derived again.

Nothing is pickled: no code runs except that of the classes named, which must belong to fedsim or the algorithms.
"""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from typing import Any

import msgpack
import numpy as np
import torch
from torch import Tensor

from fedsim.learn import layout
from fedsim.learn.layout import Layout
from fedsim.learn.rows import Row, Stack

PLAIN = (type(None), bool, float, str, bytes)
PACKAGES = ("fedsim", "algorithms")
DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class Unfit(Exception):  # noqa: N818
    """A checkpoint cannot keep a value of this type."""


class Given:
    """The graphs of a point's data, and the memory of their tensors, by number."""

    def __init__(self, graphs: Iterable[Any]) -> None:
        """Number the graphs in order."""
        self.graphs = list({id(graph): graph for graph in graphs}.values())
        self.tensors = list({id(one): one for graph in self.graphs for one in _tensors(graph)}.values())
        parts = [part for tensor in self.tensors for part in _parts(tensor)]
        self.storages = list({part.untyped_storage().data_ptr(): part for part in parts if part.numel()}.values())
        self.graph_of = {id(graph): number for number, graph in enumerate(self.graphs)}
        self.tensor_of = {id(tensor): number for number, tensor in enumerate(self.tensors)}
        self.storage_of = {part.untyped_storage().data_ptr(): number for number, part in enumerate(self.storages)}


def pack(value: Any, given: Given) -> bytes:
    """Return the bytes of a value and of all that it refers to.  Raises Unfit for an unsupported value."""
    writer = _Writer(given)
    root = writer.refer(value)
    return msgpack.packb([root, writer.nodes])  # type: ignore[no-any-return]


def unpack(data: bytes, given: Given) -> Any:
    """Return the value from its bytes."""
    root, nodes = msgpack.unpackb(data, strict_map_key=False)
    return _Reader(nodes, given).value(root)


class _Writer:
    """Turns values into nodes [kind, contents], each once; a reference is a plain value, or the list [its node]."""

    def __init__(self, given: Given) -> None:
        self.nodes: list[Any] = []
        self._given = given
        self._known: dict[Any, tuple[int, Any]] = {}  # by identity; holding the values keeps it unique

    def refer(self, value: Any) -> Any:
        if type(value) in PLAIN or (type(value) is int and -(2**63) <= value < 2**64):
            return value
        return self._once(_identity(value), value, self._node)

    def _once(self, key: Any, value: Any, make: Callable[[Any], list[Any]]) -> list[int]:
        if key not in self._known:
            self._known[key] = len(self.nodes), value
            self.nodes.append(None)
            self.nodes[self._known[key][0]] = make(value)
        return [self._known[key][0]]

    def _node(self, value: Any) -> list[Any]:
        kind = type(value)
        if id(value) in self._given.graph_of:
            return ["graph", self._given.graph_of[id(value)]]
        if kind is Row and (origin := value.origin) is not None:
            return ["row", self.refer(origin[0]), origin[1]]
        if kind in (dict, Row):
            return ["dict", self._pairs(value)]
        if kind in (list, tuple, set, frozenset):
            return [kind.__name__, [self.refer(one) for one in value]]
        if isinstance(value, Tensor):
            return self._tensor(value)
        if kind is np.ndarray or isinstance(value, np.generic):
            if value.dtype.hasobject:
                raise Unfit(f"an array of {value.dtype}")
            return ["array", value.dtype.str, list(value.shape), value.tobytes(), kind is np.ndarray]
        if kind is Stack:
            return ["stack", self.refer(value.tree), value.clients]
        if kind is Layout:
            if id(value.graph) in self._given.graph_of:
                return ["layout", self.refer(value.graph)]
            return ["layout", self.refer(value.graph), [self.refer(part) for part in value.parts], value.shared]
        return self._other(value)

    def _other(self, value: Any) -> list[Any]:
        kind = type(value)
        if kind is int:
            return ["int", str(value)]
        if kind is torch.dtype:
            return ["dtype", str(value).removeprefix("torch.")]
        named, own = (kind.__module__, kind.__qualname__), kind.__module__.partition(".")[0] in PACKAGES
        if own and isinstance(value, tuple):
            return ["named", *named, [self.refer(one) for one in value]]
        if own and is_dataclass(value):
            return ["made", *named, {one.name: self.refer(getattr(value, one.name)) for one in fields(value)}]
        raise Unfit(f"a value of type {kind.__module__}.{kind.__qualname__}")

    def _pairs(self, value: dict[Any, Any]) -> list[list[Any]]:
        return [[self.refer(key), self.refer(one)] for key, one in value.items()]

    def _tensor(self, value: Tensor) -> list[Any]:
        if id(value) in self._given.tensor_of:
            return ["tensor", self._given.tensor_of[id(value)]]
        if value.layout == torch.sparse_csr:
            parts = (value.crow_indices(), value.col_indices(), value.values())
            return ["csr", [self.refer(part) for part in parts], list(value.shape)]
        if value.layout != torch.strided or not value.is_leaf:
            raise Unfit(f"a tensor of layout {value.layout}" if value.is_leaf else "a tensor with a history")
        dtype, storage = str(value.dtype).removeprefix("torch."), value.untyped_storage()
        where = self._once(("memory", storage.data_ptr(), storage.nbytes()), value, self._memory)
        stride, offset = list(value.stride()), value.storage_offset()
        return ["view", where, dtype, list(value.shape), stride, offset, value.requires_grad]

    def _memory(self, value: Tensor) -> list[Any]:
        storage = value.untyped_storage()
        if storage.data_ptr() in self._given.storage_of:
            return ["memory", self._given.storage_of[storage.data_ptr()]]
        raw = torch.empty(0, dtype=torch.uint8, device=value.device).set_(storage)
        return ["memory", str(value.device), raw.cpu().numpy().tobytes()]


class _Reader:
    """Turns nodes back into values, each once."""

    def __init__(self, nodes: list[Any], given: Given) -> None:
        self._nodes, self._given = nodes, given
        self._known: dict[int, Any] = {}

    def value(self, reference: Any) -> Any:
        if not isinstance(reference, list):
            return reference
        (number,) = reference
        if number not in self._known:
            kind, *rest = self._nodes[number]
            self._known[number] = getattr(self, f"_{kind}")(number, *rest)
        return self._known[number]

    def _keep(self, number: int, made: Any) -> Any:
        # before its contents are read, which may refer to it
        self._known[number] = made
        return made

    def _pairs(self, pairs: list[list[Any]]) -> dict[Any, Any]:
        return {self.value(key): self.value(one) for key, one in pairs}

    def _graph(self, number: int, place: int) -> Any:
        return self._given.graphs[place]

    def _row(self, number: int, stack: Any, place: int) -> Row:
        return Row(self.value(stack), place)

    def _stack(self, number: int, tree: Any, clients: int) -> Stack:
        return Stack(self.value(tree), clients)

    def _dict(self, number: int, pairs: list[list[Any]]) -> dict[Any, Any]:
        made: dict[Any, Any] = self._keep(number, {})
        made.update(self._pairs(pairs))
        return made

    def _list(self, number: int, items: list[Any]) -> list[Any]:
        made: list[Any] = self._keep(number, [])
        made.extend(map(self.value, items))
        return made

    def _tuple(self, number: int, items: list[Any]) -> tuple[Any, ...]:
        return tuple(map(self.value, items))

    def _set(self, number: int, items: list[Any]) -> set[Any]:
        return set(map(self.value, items))

    def _frozenset(self, number: int, items: list[Any]) -> frozenset[Any]:
        return frozenset(map(self.value, items))

    def _int(self, number: int, digits: str) -> int:
        return int(digits)

    def _dtype(self, number: int, name: str) -> torch.dtype:
        return DTYPES[name]

    def _array(self, number: int, dtype: str, shape: list[int], raw: bytes, whole: bool) -> Any:
        array = np.frombuffer(raw, dtype).reshape(shape).copy()
        return array if whole else array[()]

    def _tensor(self, number: int, place: int) -> Tensor:
        return self._given.tensors[place]

    def _csr(self, number: int, parts: list[Any], shape: list[int]) -> Tensor:
        crow, columns, values = map(self.value, parts)
        return torch.sparse_csr_tensor(crow, columns, values, tuple(shape))

    def _view(
        self, number: int, memory: Any, dtype: str, shape: list[int], stride: list[int], offset: int, grad: bool
    ) -> Tensor:
        base: Tensor = self.value(memory)
        empty = torch.empty(0, dtype=DTYPES[dtype], device=base.device)
        view = empty.set_(base.untyped_storage(), offset, tuple(shape), tuple(stride))
        return view.requires_grad_(grad)

    def _memory(self, number: int, where: Any, raw: bytes = b"") -> Tensor:
        if isinstance(where, int):
            return self._given.storages[where]
        # allocated by torch: its alignment decides how sums over it are grouped
        made = torch.empty(len(raw), dtype=torch.uint8, device=where)
        return made.copy_(torch.frombuffer(bytearray(raw), dtype=torch.uint8)) if raw else made

    def _layout(self, number: int, graph: Any, parts: list[Any] | None = None, shared: bool = False) -> Layout:
        if parts is None:
            return layout.of(self.value(graph))
        made: Layout = self._keep(number, Layout({}, shared=shared))  # type: ignore[typeddict-item]
        made.graph, made.parts = self.value(graph), [self.value(part) for part in parts]
        return made

    def _named(self, number: int, module: str, name: str, items: list[Any]) -> Any:
        return _found(module, name)(*map(self.value, items))

    def _made(self, number: int, module: str, name: str, values: dict[str, Any]) -> Any:
        kind = _found(module, name)
        made = self._keep(number, object.__new__(kind))
        for field, one in values.items():
            object.__setattr__(made, field, self.value(one))
        return made


def _identity(value: Any) -> Any:
    """Return what identifies a value: for an array its memory, which views may share, and its layout."""
    if type(value) is np.ndarray and value.size:
        return value.__array_interface__["data"][0], value.dtype.str, value.shape, value.strides
    return id(value)


def _found(module: str, name: str) -> Any:
    if module.partition(".")[0] not in PACKAGES:
        raise ValueError(f"{module} is not a module of fedsim or its algorithms")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, tuple))):
        raise ValueError(f"{module}.{name} is not a dataclass or named tuple")
    return found


def _tensors(graph: Any) -> list[Tensor]:
    return [value for value in graph.values() if isinstance(value, Tensor)]


def _parts(tensor: Tensor) -> list[Tensor]:
    if tensor.layout == torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor]

"""Serialise values that refer to one another, for the checkpoint of a running point, and restore them.

Objects stay shared, memory stays shared at the same offsets, and a row that was never read stays lazy
(`rows.py`): otherwise results would not be equal to the last bit.  Supported are None, numbers, texts, bytes,
arrays, tensors, `torch.dtype`s, dicts, lists, tuples, sets, and instances of fedsim's and the algorithms'
dataclasses and named tuples of such values.  Graphs of the point's own data are stored by their number.  What
is derived from a graph is not stored but derived again.

The bytes are a pickle that names nothing: reading it calls `build` and `fill` alone, which create what is
listed above.  A pickle that names anything is refused.
"""

import importlib
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.learn.engine import layout
from fedsim.learn.engine.layout import GraphLayout
from fedsim.learn.engine.rows import PlacedTree, Stack

PACKAGES = ("fedsim", "algorithms")
DTYPES = {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}


class Unfit(Exception):  # noqa: N818
    """A checkpoint cannot keep a value of this type."""


class DataGraphs:
    """The graphs of a point's data, and the memory of their tensors, by number."""

    def __init__(self, graphs: Iterable[Any]) -> None:
        """Number the graphs in order."""
        self.graphs = list({id(graph): graph for graph in graphs}.values())
        values = (value for graph in self.graphs for value in graph.values())
        self.tensors = list({id(value): value for value in values if isinstance(value, Tensor)}.values())
        parts = [part for tensor in self.tensors for part in _parts(tensor)]
        self.storages = list({part.untyped_storage().data_ptr(): part for part in parts if part.numel()}.values())
        self.number_of = {id(graph): ("graphs", number) for number, graph in enumerate(self.graphs)}
        self.number_of |= {id(tensor): ("tensors", number) for number, tensor in enumerate(self.tensors)}
        self.storage_of = {part.untyped_storage().data_ptr(): number for number, part in enumerate(self.storages)}


def pack(value: Any, given: DataGraphs) -> bytes:
    """Return the bytes of a value and of all that it refers to.  Raises Unfit for an unsupported value."""
    file = io.BytesIO()
    _Pickler(file, given).dump(value)
    return file.getvalue()


def unpack(data: bytes, given: DataGraphs) -> Any:
    """Return the value from its bytes.  Raises UnpicklingError, or another exception, for other bytes."""
    return _Unpickler(io.BytesIO(data), given).load()


@dataclass(frozen=True, eq=False)
class _Memory:
    """The memory of tensors that share it, of which `tensor` is one."""

    tensor: Tensor

    @property
    def pointer(self) -> int:
        """The address."""
        return self.tensor.untyped_storage().data_ptr()


def build(kind: str, *parts: Any) -> Any:
    """Return a value of this kind."""
    return BUILDERS[kind](*parts)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, given: DataGraphs) -> None:
        super().__init__(file, protocol=5)
        self._given = given
        self._shared: dict[Any, Any] = {}  # the first value with each piece of memory

    def persistent_id(self, value: Any) -> Any:
        if value is build or value is fill:
            return value.__name__
        if type(value) is _Memory and (number := self._given.storage_of.get(value.pointer)) is not None:
            return "storages", number
        return self._given.number_of.get(id(value))

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is PlacedTree:
            return build, ("same", dict(value)) if value.origin is None else ("row", *value.origin)
        if kind is Stack:
            return build, ("stack", value.tree, value.clients)
        if isinstance(value, Tensor):
            return build, self._tensor(value)
        if kind is _Memory:
            return build, self._memory(value.tensor)
        if kind is np.ndarray or isinstance(value, np.generic):
            return build, self._array(value)
        if kind is torch.dtype:
            return build, ("dtype", str(value).removeprefix("torch."))
        if kind is GraphLayout:
            if id(value.graph) in self._given.number_of:
                return build, ("layout_of", value.graph)
            contents = {"graph": value.graph, "parts": value.parts, "shared": value.shared}
            return build, ("layout",), contents, None, None, fill
        if kind.__module__.partition(".")[0] in PACKAGES:
            if isinstance(value, tuple):
                return build, ("named", kind.__module__, kind.__qualname__, *value)
            if is_dataclass(value):
                contents = {field.name: getattr(value, field.name) for field in fields(value)}
                return build, ("empty", kind.__module__, kind.__qualname__), contents, None, None, fill
        raise Unfit(f"a value of type {kind.__module__}.{kind.__qualname__}")

    def _array(self, value: Any) -> tuple[Any, ...]:
        if value.dtype.hasobject:
            raise Unfit(f"an array of {value.dtype}")
        if type(value) is np.ndarray and value.size:  # views of the same numbers become one array
            memory = value.__array_interface__["data"][0], value.dtype.str, value.shape, value.strides
            if (first := self._shared.setdefault(memory, value)) is not value:
                return "same", first
        return "array", value.dtype.str, value.shape, value.tobytes(), type(value) is np.ndarray

    def _tensor(self, value: Tensor) -> tuple[Any, ...]:
        if value.layout == torch.sparse_csr:
            return "csr", value.crow_indices(), value.col_indices(), value.values(), tuple(value.shape)
        if value.layout != torch.strided or not value.is_leaf:
            raise Unfit(f"a tensor of layout {value.layout}" if value.is_leaf else "a tensor with a history")
        storage = value.untyped_storage()
        memory = self._shared.setdefault((storage.data_ptr(), storage.nbytes()), _Memory(value))
        where = tuple(value.shape), value.stride(), value.storage_offset()
        return "view", memory, str(value.dtype).removeprefix("torch."), *where, value.requires_grad

    def _memory(self, value: Tensor) -> tuple[Any, ...]:
        raw = torch.empty(0, dtype=torch.uint8, device=value.device).set_(value.untyped_storage())
        return "memory", str(value.device), raw.cpu().numpy().tobytes()


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, given: DataGraphs) -> None:
        super().__init__(file)
        self._callable = {"build": build, "fill": fill}
        self._given = {"graphs": given.graphs, "tensors": given.tensors, "storages": given.storages}

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"the bytes name {module}.{name}; preserved values name nothing")

    def persistent_load(self, number: Any) -> Any:
        if isinstance(number, str):
            return self._callable[number]
        kind, place = number
        return self._given[kind][place]


def fill(value: Any, contents: dict[str, Any]) -> None:
    """Give an empty object its contents, which may refer to it."""
    if type(value) is not GraphLayout and (isinstance(value, type) or not is_dataclass(value)):
        raise pickle.UnpicklingError(f"{type(value).__name__} is not a dataclass")
    for name, part in contents.items():
        object.__setattr__(value, name, part)


def _array(dtype: str, shape: tuple[int, ...], raw: bytes, whole: bool) -> Any:
    array = np.frombuffer(raw, dtype).reshape(shape).copy()
    return array if whole else array[()]


def _memory(device: str, raw: bytes) -> Tensor:
    # allocated by torch: its alignment decides how sums over it are grouped
    memory = torch.empty(len(raw), dtype=torch.uint8, device=device)
    return memory.copy_(torch.frombuffer(bytearray(raw), dtype=torch.uint8)) if raw else memory


def _view(
    memory: Tensor, dtype: str, shape: tuple[int, ...], stride: tuple[int, ...], offset: int, grad: bool
) -> Tensor:
    empty = torch.empty(0, dtype=DTYPES[dtype], device=memory.device)
    return empty.set_(memory.untyped_storage(), offset, shape, stride).requires_grad_(grad)


def _class_of(module: str, name: str) -> Any:
    """Return a dataclass or named tuple of fedsim or the algorithms.  Raises ValueError for anything else."""
    if module.partition(".")[0] not in PACKAGES:
        raise ValueError(f"{module} is not a module of fedsim or its algorithms")
    kind: Any = importlib.import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    if not (isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, tuple))):
        raise ValueError(f"{module}.{name} is not a dataclass or named tuple")
    return kind


BUILDERS: Mapping[str, Callable[..., Any]] = {
    "array": _array,
    "csr": torch.sparse_csr_tensor,
    "dtype": DTYPES.__getitem__,
    "empty": lambda module, name: object.__new__(_class_of(module, name)),
    "layout": lambda: GraphLayout({}),  # type: ignore[typeddict-item]
    "layout_of": layout.of,
    "memory": _memory,
    "named": lambda module, name, *parts: _class_of(module, name)(*parts),
    "row": PlacedTree,
    "same": lambda value: value,
    "stack": Stack,
    "view": _view,
}


def _parts(tensor: Tensor) -> list[Tensor]:
    if tensor.layout == torch.sparse_csr:
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    return [tensor]

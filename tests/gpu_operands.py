"""What an operation asks of the devices of its tensors on a machine with a GPU; see `pretended_gpu`.

Where a tensor pretends to be is noted on its memory, so that all views of it agree.  Memory without a note is the
host's.  Memory that torch allocates inside one of its own operations lies ANYWHERE, until it meets other tensors.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import gpu_kernels
import torch
from torch import Tensor

CPU = torch.device("cpu")
GPU = torch.device("cuda", 0)
ANYWHERE = torch.device("meta")

COPIES = {"copy_", "_to_copy"}  # between any two devices
SHAPES = {"is_same_size"}  # reads no numbers
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
FILLED = {"fill_", "fill", "masked_fill", "masked_fill_", "index_fill", "index_fill_"}  # by one number, wherever it is
SINGLE = {"lift_fresh", "_local_scalar_dense"}  # which torch does on both kinds of devices by itself


class Mixed(RuntimeError):
    """An operation was given tensors of several devices, or is none that a GPU can do."""


@dataclass(frozen=True)
class Kind:
    """What is known of an operation."""

    name: str
    pointwise: bool  # where numbers (tensors without dimensions) of the host may be mixed with a GPU's tensors
    written: frozenset[int | str]  # the arguments that it changes in place


@cache
def kind_of(func: torch._ops.OpOverload) -> Kind:
    name = func.name().partition("::")[2].partition(".")[0]
    written = {
        argument.name if argument.kwarg_only else place
        for place, argument in enumerate(func._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    }
    return Kind(name, torch.Tag.pointwise in func.tags or name.startswith("_foreach_"), frozenset(written))


def tensors_in(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of an operation's arguments or results."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_in(one)


def memories(tensor: Tensor) -> list[Any]:
    """Return what holds a tensor's numbers; a sparse matrix has three arrays."""
    if tensor.layout == torch.sparse_csr:
        parts = [tensor.values(), tensor.crow_indices(), tensor.col_indices()]
    elif tensor.layout == torch.sparse_coo:
        parts = [tensor._values(), tensor._indices()]
    else:
        parts = [tensor]
    return [part.untyped_storage() for part in parts]


def place(tensor: Tensor) -> torch.device:
    """Return where a tensor pretends to be."""
    return getattr(memories(tensor)[0], "place", CPU)


def put(tensor: Tensor, where: torch.device) -> None:
    """Have a tensor pretend to be there."""
    for memory in memories(tensor):
        memory.place = where


def common(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Return the device on which an operation takes place.  Raises Mixed where its tensors are on several."""
    kind = kind_of(func)
    tensors = [one for one in tensors_in([args, kwargs]) if not one.is_meta]
    if kind.name in COPIES | SHAPES:
        return place(tensors[0])
    if kind.name in INDEXED:
        where = _indexed(func, args)
    elif kind.name in FILLED:
        where = _same(func, [one for one in tensors if one is not _filling(args)])
    else:
        where = _same(func, tensors, kind if kind.pointwise else None, args, kwargs)
    for memory in [*args, *kwargs.values()]:
        if isinstance(memory, torch.UntypedStorage) and getattr(memory, "place", CPU) != where:
            raise Mixed(f"{func}: the memory is on {getattr(memory, 'place', CPU)} and the tensor on {where}")
    for one in [*args, *kwargs.values()]:
        if isinstance(one, torch.Generator):
            hold(func, one, where)
    if where == GPU and kind.name not in SINGLE and (reason := gpu_kernels.missing(func, tensors)):
        raise Mixed(reason)
    if where != ANYWHERE:
        for one in tensors:
            if place(one) == ANYWHERE and (one.dim() or not kind.pointwise):
                put(one, where)
    return where


def hold(func: Any, generator: torch.Generator, where: torch.device) -> None:
    """Raise Mixed unless the generator is of the device on which numbers are drawn."""
    if where != ANYWHERE and generator.device != where:
        raise Mixed(f"{func}: expected a '{where.type}' generator, and got one of {generator.device}")


def _same(
    func: Any, tensors: list[Tensor], kind: Kind | None = None, args: tuple[Any, ...] = (), kwargs: Any = None
) -> torch.device:
    """Return the one device of the tensors.  Of an elementwise operation (with `kind`) numbers may be the host's."""
    there = [(one, place(one)) for one in tensors]
    known = {where for _, where in there if where != ANYWHERE}
    if len(known) < 2:
        return known.pop() if known else ANYWHERE
    if kind is None or any(one.dim() and where == CPU for one, where in there):
        raise Mixed(f"{func}: expected all tensors to be on the same device, and got {_told(there)}")
    for one in tensors_in([args[key] if isinstance(key, int) else (kwargs or {}).get(key) for key in kind.written]):
        if place(one) == CPU:
            raise Mixed(f"{func}: the result is on {GPU} and cannot be written into a tensor on {CPU}")
    return GPU


def _indexed(func: Any, args: tuple[Any, ...]) -> torch.device:
    """Return where indexing takes place: the host's indices may be used anywhere, a GPU's on that GPU alone."""
    one, indices, *values = args
    where = _same(func, [one, *(value for value in tensors_in(values) if value.dim())])
    if where == CPU and any(place(index) == GPU for index in tensors_in(indices)):
        raise Mixed(f"{func}: indices should be either on {CPU} or on the same device as the indexed tensor ({CPU})")
    return where


def _filling(args: tuple[Any, ...]) -> Tensor | None:
    return args[-1] if isinstance(args[-1], Tensor) and not args[-1].dim() and len(args) > 1 else None


def _told(there: list[tuple[Tensor, torch.device]]) -> str:
    return ", ".join(f"{tuple(one.shape)} on {'any device' if where == ANYWHERE else where}" for one, where in there)

"""What an operation asks of the devices of its tensors on a machine with a GPU; see `pretended_gpu`.

Where a tensor pretends to be is noted on its memory, so that all views of it agree.  Memory without a note is the
host's.  Memory that torch allocates inside one of its own operations lies ANYWHERE, until it meets other tensors.
"""

from collections.abc import Iterable
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
ALONE = COPIES | SHAPES
INDEXED = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
FILLED = {"fill_", "fill", "masked_fill", "masked_fill_", "index_fill", "index_fill_"}  # by one number, wherever it is
SINGLE = {"lift_fresh", "_local_scalar_dense"}  # which torch does on both kinds of devices by itself


class MixedError(RuntimeError):
    """An operation was given tensors of several devices, or is none that a GPU can do."""


@dataclass(frozen=True)
class Kind:
    """What is known of an operation."""

    name: str
    pointwise: bool  # where numbers (tensors without dimensions) of the host may be mixed with a GPU's tensors
    written: tuple[int | str, ...]  # the arguments that it changes in place
    besides: bool  # whether it takes a generator or a storage


@cache
def kind_of(func: torch._ops.OpOverload) -> Kind:
    name, given = func.name().partition("::")[2].partition(".")[0], func._schema.arguments
    written = [
        one.name if one.kwarg_only else at
        for at, one in enumerate(given)
        if one.alias_info is not None and one.alias_info.is_write
    ]
    besides = any(kind in str(one.type) for one in given for kind in ("Generator", "Storage"))
    pointwise = torch.Tag.pointwise in func.tags or name.startswith("_foreach_")
    return Kind(name, pointwise, tuple(written), besides)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """Return the tensors among an operation's arguments or results, also those in lists."""
    found = []
    for value in values:
        if type(value) is Tensor or isinstance(value, Tensor):
            found.append(value)
        elif type(value) in (list, tuple):
            found += tensors_in(value)
    return found


def memories(tensor: Tensor) -> list[Any]:
    """Return what holds a tensor's numbers; a sparse matrix has three arrays."""
    if tensor.layout == torch.strided:
        return [tensor.untyped_storage()]
    if tensor.layout == torch.sparse_csr:
        parts = [tensor.values(), tensor.crow_indices(), tensor.col_indices()]
    else:
        parts = [tensor._values(), tensor._indices()]
    return [part.untyped_storage() for part in parts]


def place(tensor: Tensor) -> torch.device:
    """Return where a tensor pretends to be."""
    if tensor.layout != torch.strided:
        tensor = tensor.values() if tensor.layout == torch.sparse_csr else tensor._values()
    return getattr(tensor.untyped_storage(), "place", CPU)


def put(tensor: Tensor, where: torch.device) -> None:
    """Have a tensor pretend to be there."""
    for memory in memories(tensor):
        memory.place = where


def common(func: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device:
    """Return the device on which an operation takes place.  Raises MixedError where its tensors are on several."""
    kind, others = kind_of(func), [*kwargs.values()] if kwargs else []
    tensors = [one for one in tensors_in([*args, *others] if others else args) if not one.is_meta]
    if kind.name in ALONE:
        return place(tensors[0])
    places = [place(one) for one in tensors]
    if kind.name in INDEXED:
        where = _indexed(func, args)
    elif not places:
        where = ANYWHERE
    elif len({*places}) == 1:
        where = places[0]
    elif kind.name in FILLED:
        where = _same(func, [one for one in tensors if one is not _filling(args)])
    else:
        where = _same(
            func, tensors, kind.pointwise, [(kwargs if isinstance(at, str) else args)[at] for at in kind.written]
        )
    if kind.besides:
        _hold_besides(func, [*args, *others], where)
    if where is GPU and kind.name not in SINGLE and (reason := gpu_kernels.missing(func, tensors)):
        raise MixedError(reason)
    if where is not ANYWHERE and ANYWHERE in places:
        for one in tensors:
            if place(one) is ANYWHERE and (one.dim() or not kind.pointwise):
                put(one, where)
    return where


def _hold_besides(func: Any, given: list[Any], where: torch.device) -> None:
    for one in given:
        if isinstance(one, torch._C.Generator):
            hold(func, one, where)
        if isinstance(one, torch.UntypedStorage) and getattr(one, "place", CPU) is not where:
            raise MixedError(f"{func}: the memory is on {getattr(one, 'place', CPU)} and the tensor on {where}")


def hold(func: Any, generator: torch.Generator, where: torch.device) -> None:
    """Raise MixedError unless the generator is of the device on which numbers are drawn."""
    if where != ANYWHERE and generator.device != where:
        raise MixedError(f"{func}: expected a '{where.type}' generator, and got one of {generator.device}")


def _same(func: Any, tensors: list[Tensor], pointwise: bool = False, written: Iterable[Any] = ()) -> torch.device:
    """Return the one device of the tensors.  Of an elementwise operation, numbers may be the host's."""
    there = [(one, place(one)) for one in tensors]
    known = {where for _, where in there if where is not ANYWHERE}
    if len(known) < 2:
        return known.pop() if known else ANYWHERE
    if not pointwise or any(one.dim() and where is CPU for one, where in there):
        raise MixedError(f"{func}: expected all tensors to be on the same device, and got {_told(there)}")
    if any(place(one) is CPU for one in tensors_in(written)):
        raise MixedError(f"{func}: the result is on {GPU} and cannot be written into a tensor on {CPU}")
    return GPU


def _indexed(func: Any, args: tuple[Any, ...]) -> torch.device:
    """Return where indexing takes place: the host's indices may be used anywhere, a GPU's on that GPU alone."""
    one, indices, *values = args
    where = _same(func, [one, *(value for value in tensors_in(values) if value.dim())])
    if where is CPU and any(place(index) is GPU for index in tensors_in(indices)):
        raise MixedError(
            f"{func}: indices should be either on {CPU} or on the same device as the indexed tensor ({CPU})"
        )
    return where


def _filling(args: tuple[Any, ...]) -> Tensor | None:
    return args[-1] if isinstance(args[-1], Tensor) and not args[-1].dim() and len(args) > 1 else None


def _told(there: list[tuple[Tensor, torch.device]]) -> str:
    return ", ".join(f"{tuple(one.shape)} on {'any device' if where is ANYWHERE else where}" for one, where in there)

"""A pretended GPU for machines without one: tensors of the host that claim a device, which operations then insist on.

    with pretended_gpu() as gpu:
        x = torch.ones(3, device="cuda")
        x + torch.ones(3)  # raises MixedError

Numbers are those of the host: nothing but the claim differs.  Two modes of torch do it.  One sees what Python asks of
tensors (`.device`, `.to`, `torch.zeros(..., device=...)`, `.numpy()`); the other sees every operation below autograd,
backward passes included, holds the devices of its operands against each other, and notes that of its result.

A subclass of Tensor, torch's own way of claiming a device, would leave out what fedsim depends on: its backward passes
ask the device's streams, and there are no sparse matrices of it.  Fake tensors have no numbers.
Not modelled: speed, memory, streams, kernels whose last bits differ, types of numbers that a kernel does not accept.
"""

import functools
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any
from unittest.mock import patch

import torch
from gpu_operands import ANYWHERE, CPU, GPU, MixedError, common, hold, memories, place, put, tensors_in
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._device import _device_constructors
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "pretended GPU"


class Generator(torch.Generator):
    """A generator that may claim to be the GPU's."""

    def __new__(cls, device: Any = "cpu") -> "Generator":
        made = super().__new__(cls)
        made._place = named(device)
        return made

    @property
    def device(self) -> torch.device:
        return self._place


@dataclass
class Gpu:
    """What has been done on it, and on the host at the same time."""

    operations: int = 0
    on_host: int = 0
    anywhere: bool = False  # whether there may be results that lie ANYWHERE
    copies: Counter[str] = field(default_factory=Counter)  # of tensors to it or from it, by the function that asked
    reads: Counter[str] = field(default_factory=Counter)  # of single numbers, for which the host waits


def named(device: Any) -> torch.device:
    """Return the device that a program names.  Raises RuntimeError where there is none of that number."""
    found = torch.device(device)
    if found.type == "cuda" and found.index not in (None, 0):
        raise RuntimeError(f"invalid device ordinal: {found}")
    return {"cuda": GPU, "cpu": CPU}.get(found.type, found)


def asking() -> str:
    """Return the function of fedsim that is at work, as `module.function`, or an empty string."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] not in ("fedsim", "algorithms"):
        frame = frame.f_back
    return "" if frame is None else f"{frame.f_globals['__name__']}.{frame.f_code.co_name}"


class Operations(TorchDispatchMode):
    """Sees every operation on tensors, those of backward passes and inside other operations included."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()
        self._gpu = gpu

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # there is no compiler here: torch would load it to keep it out

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            where = common(func, args, kwargs)
            if where is GPU:
                self._gpu.operations += 1
                if func is torch.ops.aten._local_scalar_dense.default:
                    self._gpu.reads[asking()] += 1
            else:
                self._gpu.on_host += 1
            result = func(*args, **kwargs)
            for one in (result,) if type(result) is Tensor else tensors_in([result]):
                if not one.is_meta and not hasattr(memories(one)[0], "place"):
                    put(one, where)
                    self._gpu.anywhere |= where is ANYWHERE
        return result


class Questions(TorchFunctionMode):
    """Sees what Python asks of torch."""

    def __init__(self, gpu: Gpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in RULES:
            return self._noted(args, RULES[func](*args, **kwargs))
        if func in _device_constructors():
            return self._noted(args if func in OF_DATA else [], _made(func, args, kwargs))
        if _is_like(func):
            return _made_like(func, args, kwargs)
        if kwargs.get("device") is not None:
            raise NotImplementedError(f"{func} with a device: pretended_gpu.py does not know what it makes")
        result = func(*args, **kwargs)
        if self._gpu.anywhere:
            self._gpu.anywhere = False
            for one in tensors_in([result]):
                if not one.is_meta and place(one) is ANYWHERE:  # then where those are that it was made of
                    put(one, next((place(other) for other in tensors_in([*args, *kwargs.values()])), CPU))
        return result

    def _noted(self, args: Any, made: Any) -> Any:
        """Return what was made; note where it is a copy of what lies on the other side."""
        if args and isinstance(made, Tensor) and not made.is_meta:
            origin = place(args[0]) if isinstance(args[0], Tensor) else CPU
            if place(made) is not origin:
                self._gpu.copies[asking()] += 1
        return made


@functools.cache
def _is_like(func: Any) -> bool:
    name = getattr(func, "__name__", "")
    return name.endswith("_like") or name.startswith("new_")


class _Move(torch.autograd.Function):
    """A copy on another device, whose gradient is copied back."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, where: torch.device) -> Tensor:
        with torch._C.DisableTorchFunction():
            ctx.origin = place(tensor)
            moved = tensor.clone()
            put(moved, where)
        return moved

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return _Move.apply(grad, ctx.origin), None


def _moved(tensor: Tensor, where: Any, dtype: torch.dtype | None = None, copy: bool = False) -> Tensor:
    cast = tensor if dtype is None else tensor.to(dtype)
    there = place(tensor) if where is None else named(where)
    if there.type == "meta":
        return cast.to("meta")
    if there is place(tensor):
        return cast.clone() if copy and cast is tensor else cast
    return _Move.apply(cast, there)


def _made(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Make a tensor where `device` says, else where its data are; without either on the host."""
    device, data = kwargs.pop("device", None), args[0] if args else None
    if device is not None and named(device).type == "meta":
        return func(*args, device=device, **kwargs)
    if func in SPARSE and device is None:
        device = place(args[2])
    elif func in SPARSE:
        args = tuple(_moved(one, device) if isinstance(one, Tensor) else one for one in args)
    elif func in (torch.as_tensor, torch.asarray) and isinstance(data, Tensor):
        return _moved(data, device, kwargs.get("dtype"), kwargs.get("copy") or False)
    elif isinstance(data, Tensor) and device is None:
        device = place(data)
    where = CPU if device is None else named(device)
    if generator := kwargs.get("generator"):
        hold(func, generator, where)
    made = func(*args, **kwargs)
    if where is GPU and func in (torch.as_tensor, torch.asarray):
        made = made.clone()  # not the array's own memory
    put(made, where)
    return made


def _made_like(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    device = kwargs.pop("device", None)
    if device is not None and named(device).type == "meta":
        return func(*args, device=device, **kwargs)
    made = func(*args, **kwargs)
    put(made, place(args[0]) if device is None else named(device))
    return made


def _to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    copy = bool(kwargs.pop("copy", False))
    if args and isinstance(args[0], Tensor):
        return _moved(tensor, place(args[0]), args[0].dtype, copy)
    if isinstance(kwargs.get("other"), Tensor):
        return _moved(tensor, place(kwargs["other"]), kwargs["other"].dtype, copy)
    device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
    return _moved(tensor, device, dtype, copy)


def _numpy(tensor: Tensor, *args: Any, force: bool = False, **kwargs: Any) -> Any:
    if place(tensor) is GPU and not force:
        raise TypeError(f"can't convert {GPU} device type tensor to numpy: use Tensor.cpu() first")
    return tensor.numpy(*args, force=force, **kwargs)


def _array(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    found = _numpy(tensor)
    return found.astype(*args) if args and args[0] is not None else found


def _pinned(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    if place(tensor) is GPU:
        raise RuntimeError(f"cannot pin a tensor on {GPU}: only dense CPU tensors can be pinned")
    return tensor.clone()


def _copied(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    return memo[id(tensor)]


def _refused(what: str) -> Callable[..., Any]:
    plain = getattr(Tensor, what)

    def rule(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        if place(tensor) is GPU:
            raise NotImplementedError(f"{what} of a tensor on the {NAME}, which would forget where it is")
        return plain(tensor, *args, **kwargs)

    return rule


def _where(tensor: Tensor) -> torch.device:
    there = tensor.device if tensor.is_meta else place(tensor)
    if there is ANYWHERE:
        raise MixedError("torch has made this tensor inside of an operation, which did not say where it lies")
    return there


OF_DATA = (torch.tensor, torch.as_tensor, torch.asarray)
SPARSE = (torch.sparse_csr_tensor, torch.sparse_csc_tensor, torch.sparse_compressed_tensor)
RULES: dict[Any, Callable[..., Any]] = {
    Tensor.device.__get__: _where,
    Tensor.is_cuda.__get__: lambda tensor: _where(tensor) is GPU,
    Tensor.is_cpu.__get__: lambda tensor: _where(tensor) is CPU,
    Tensor.get_device: lambda tensor: 0 if _where(tensor) is GPU else -1,
    Tensor.to: _to,
    Tensor.cpu: lambda tensor, **_: _moved(tensor, CPU),
    Tensor.cuda: lambda tensor, device=None, *_, **__: _moved(tensor, "cuda" if device is None else device),
    Tensor.numpy: _numpy,
    Tensor.__array__: _array,
    Tensor.pin_memory: _pinned,
    Tensor.__deepcopy__: _copied,
    Tensor.__dlpack__: _refused("__dlpack__"),
}


@contextmanager
def pretended_gpu() -> Iterator[Gpu]:
    """Have torch of this thread pretend that there is one GPU, `cuda:0`."""
    gpu = Gpu()
    questions = Questions(gpu)
    backward = torch.autograd._engine_run_backward

    @functools.wraps(backward)
    def seen(*args: Any, **kwargs: Any) -> Any:
        # torch leaves the mode for the call of `backward`, and with it for the functions of Python that this calls
        with questions:
            return backward(*args, **kwargs)

    with (
        patch.object(torch.autograd, "_engine_run_backward", seen),
        patch.object(Tensor, "_reduce_ex_internal", _refused("_reduce_ex_internal")),
        patch.object(torch, "Generator", Generator),
        patch.object(torch.cuda, "is_available", lambda: True),
        patch.object(torch.cuda, "device_count", lambda: 1),
        patch.object(torch.cuda, "get_device_name", lambda _=None: NAME),
        Operations(gpu),
        questions,
    ):
        yield gpu


__all__ = ["CPU", "GPU", "Gpu", "MixedError", "pretended_gpu"]

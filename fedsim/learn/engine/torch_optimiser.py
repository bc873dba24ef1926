"""Any optimiser of `torch.optim` for one client at a time, and which of its options a scenario may set.

What torch keeps of a client's parameters from step to step lies in the client's memory between jobs, as the states of
fedsim's own Adam and SGD do (`optimiser.py`).  Tensors are handed to torch as the model has them, without a client
axis, since some optimisers go by their dimensions.  Not modelled: optimisers that evaluate the loss themselves
(LBFGS) or that take sparse gradients (SparseAdam), which are refused; groups of parameters with options of their own.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from fedsim.core.errors import UserError
from fedsim.core.units import did_you_mean
from fedsim.learn.engine import tree
from fedsim.learn.engine.optimiser import OptimiserState

PREFIX = "torch.optim."
SECTIONS = ("lr", "weight_decay")  # keys of their own beside `optimiser`
NO_OPTIONS = {"params", "foreach", "fused", "capturable", "differentiable", "maximize", *SECTIONS}
INSTEAD = f"take another, such as {PREFIX}AdamW"


@dataclass(frozen=True)
class TorchOptimiser:
    """A class of `torch.optim` with its options; a state is {"steps": (1,), "kept": torch's of each tensor}."""

    lr: float
    name: str
    options: Mapping[str, Any]

    def start(self, params: tree.Tree, clients: int) -> OptimiserState:
        """Return the state of one client that has not trained yet."""
        kept: list[dict[str, Any]] = [{} for _ in tree.leaves(params)]
        return {"steps": torch.zeros(clients), "kept": kept}

    @torch.no_grad()
    def apply(self, params: Sequence[Tensor], grads: Sequence[Tensor], state: OptimiserState) -> None:
        """Change params, each (1, …), and the state in place.

        Raises UserError where torch refuses them.
        """
        owned = [param.detach()[0] for param in params]
        try:
            optimiser = getattr(torch.optim, self.name)(owned, lr=self.lr, **self.options)
            for one, grad, kept in zip(owned, grads, state["kept"], strict=True):
                one.grad, optimiser.state[one] = grad[0], kept
            optimiser.step()
        except (TypeError, ValueError, RuntimeError) as error:
            raise UserError(f"{PREFIX}{self.name} cannot be used here: {error}; {INSTEAD}") from error
        state["kept"] = [optimiser.state[one] for one in owned]
        state["steps"] += 1


def torch_optimiser(name: str, lr: float, weight_decay: float, options: Mapping[str, Any]) -> TorchOptimiser:
    """Return the optimiser of a name such as `torch.optim.AdamW`, tried once on a tensor of zeros.

    Raises UserError for a name or an option that there is not, a value of another type, and an optimiser that is not
    modelled; where it concerns an option, as "OPTION: message".
    """
    short = name.removeprefix(PREFIX)
    cls = getattr(torch.optim, short, None)
    if not (inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer):
        raise UserError(f"{name!r} is no class of torch.optim{did_you_mean(short, _names())}")
    if inspect.signature(cls.step).parameters["closure"].default is inspect.Parameter.empty:
        raise UserError(f"{name} evaluates the loss itself, several times a step, which is not billed: {INSTEAD}")
    parameters = inspect.signature(cls).parameters
    usual = {key: parameter.default for key, parameter in parameters.items() if key not in NO_OPTIONS}
    given = {key: _checked(name, key, value, usual) for key, value in options.items()}
    if "weight_decay" in parameters:
        given["weight_decay"] = weight_decay  # not the class's own default, which is 0.01 for AdamW
    elif weight_decay:
        raise UserError(f"{name} has no weight_decay: leave training.weight_decay out")
    found, zeros = TorchOptimiser(lr, short, given), torch.zeros(1, 2, 2)
    found.apply([zeros], [torch.zeros_like(zeros)], found.start([zeros], 1))
    return found


def _names() -> list[str]:
    known = {name: cls for name, cls in vars(torch.optim).items() if inspect.isclass(cls)}
    return sorted(name for name, cls in known.items() if issubclass(cls, torch.optim.Optimizer) and name != "Optimizer")


def _checked(name: str, option: str, value: Any, usual: Mapping[str, Any]) -> Any:
    """Return the value of an option as the type of its default."""
    if option in SECTIONS:
        raise UserError(f"{option}: is a key of training; write it there")
    if option not in usual:
        raise UserError(f"{option}: {name} has no such option{did_you_mean(option, usual, 'Its options')}")
    try:
        return TypeAdapter(_type_of(usual[option])).validate_python(value)
    except ValidationError:
        raise UserError(f"{option}: {value!r} is not like {name}'s default, {usual[option]!r}") from None


def _type_of(default: Any) -> Any:
    if isinstance(default, bool) or not isinstance(default, int | float | tuple):
        return bool if isinstance(default, bool) else Any
    return tuple.__class_getitem__(tuple(map(_type_of, default))) if isinstance(default, tuple) else float

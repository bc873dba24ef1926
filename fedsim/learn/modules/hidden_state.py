"""Hidden state: tensors that a module keeps outside of its parameters and buffers, found by one forward pass.

One module serves all clients, so what it remembers of one client's graph would silently be used for the next: a
`GCNConv(cached=True)` keeps the first client's edges.  Not found: what lies outside of the module, such as globals.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from fedsim.core.errors import UserError

OWN = {"_parameters", "_buffers", "_modules", "training"}


def refuse(module: nn.Module, name: str, run: Callable[[], object], sample: Mapping[str, Any]) -> None:
    """Run the module once, on the sample.

    Raises UserError where it changes its input, keeps a tensor, or where its parameters change their shapes.
    """
    before, shapes = _attributes(module), _shapes(module)
    versions = [(key, value, value._version) for key, value in sample.items() if isinstance(value, Tensor)]
    run()
    if changed := [key for key, tensor, version in versions if tensor._version != version]:
        raise UserError(
            f"{name} changes {changed[0]!r}, the client's own data, in its forward pass: write x = x * 2, not "
            "x *= 2, and leave out inplace=True where a layer gets the input"
        )
    for key, value in _attributes(module).items():
        if value is not before.get(key) and _holds_tensor(value):
            where = ".".join(filter(None, key))
            raise UserError(
                f"{name} keeps tensors in {where!r} from one forward pass to the next, so that one client would get "
                "another's; register it as a buffer, or switch it off (cached=False)"
            )
    if _shapes(module) != shapes:
        raise UserError(
            f"{name} changes the names or shapes of its parameters in its forward pass; fix them in its constructor"
        )


def _attributes(module: nn.Module) -> dict[tuple[str, str], Any]:
    return {
        (path, key): value
        for path, inner in module.named_modules()
        for key, value in vars(inner).items()
        if key not in OWN
    }


def _shapes(module: nn.Module) -> dict[str, Any]:
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return any(map(_holds_tensor, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Tensor) or any(
        isinstance(inner, Tensor) for inner in getattr(value, "__dict__", {}).values()
    )

"""fedsim: a discrete-event network simulator for federated graph learning."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.core import kernels, shipped
from fedsim.core.version import __version__

if TYPE_CHECKING:
    from fedsim.sweep.simulation import Result, simulate

__all__ = ["Result", "__version__", "simulate"]

kernels.settle()  # before anything loads torch
shipped.install(Path(__file__).resolve().parent)


def __getattr__(name: str) -> Any:
    """Import what notebooks use on first access, so that workers and dry runs need not wait for it."""
    if name in ("Result", "simulate"):
        return getattr(import_module("fedsim.sweep.simulation"), name)
    raise AttributeError(f"module 'fedsim' has no attribute {name!r}")

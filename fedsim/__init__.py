"""fedsim: a discrete-event network simulator for federated graph learning."""

import sys
import warnings
from importlib import import_module
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsim.core import kernels
from fedsim.core.version import __version__

if TYPE_CHECKING:
    from fedsim.sweep.simulation import Result, simulate

__all__ = ["Result", "__version__", "simulate"]

kernels.settle()  # before anything loads torch


def _import_siblings(home: Path) -> None:
    """Import `algorithms` and `analysis` from beside this package, whatever else on Python's path has these names.

    Raises ImportError if a package of that name was imported from elsewhere before.
    """
    sys.path.insert(0, str(home))
    try:
        for name in ("algorithms", "analysis"):
            origin = import_module(name).__file__ or "a folder without an __init__.py"
            if Path(origin).resolve().parent != home / name:
                message = f"{origin} was imported as {name!r} before fedsim, which has a package of that name"
                raise ImportError(f"{message}: import fedsim first, or rename yours")
    finally:
        sys.path.remove(str(home))


_import_siblings(Path(__file__).resolve().parents[1])

for _other in distributions(name="fedsim"):  # whose files lie in the same folder
    _message = f"the distribution fedsim {_other.version} is another simulator with a package of the same name"
    warnings.warn(f"{_message}: uninstall it and fedgraphsim, then install fedgraphsim again", stacklevel=2)


def __getattr__(name: str) -> Any:
    """Import what notebooks use on first access, so that workers and dry runs need not wait for it."""
    if name in ("Result", "simulate"):
        return getattr(import_module("fedsim.sweep.simulation"), name)
    raise AttributeError(f"module 'fedsim' has no attribute {name!r}")

"""Check that pickles which other libraries read hold data and nothing else.

PyG reads Planetoid's files with `pickle`, which can call any function of any module.  Here the same file is
read first, and every name that it requests is compared with those that arrays and graphs need.  Not covered:
files that exhaust a reader's time or memory, or make it fail.
"""

import pickle
import warnings
from pathlib import Path
from typing import Any

from fedsim.core.errors import UserError

PLAIN = {
    *(f"{module}.multiarray _reconstruct" for module in ("numpy.core", "numpy._core")),
    *(f"{module} csr_matrix" for module in ("scipy.sparse.csr", "scipy.sparse._csr", "scipy.sparse")),
    *(f"{module} {name}" for module in ("__builtin__", "builtins") for name in ("list", "object")),
    *(f"{module} _reconstructor" for module in ("copy_reg", "copyreg")),
    "numpy ndarray", "numpy dtype", "collections defaultdict", "_codecs encode",
}  # fmt: skip


class RequestError(Exception):
    """A pickle has requested a name that data do not need."""


class DataUnpickler(pickle.Unpickler):
    """Reads arrays, lists and dictionaries, and refuses every other name."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the class or function of that name.  Raises RequestError if data do not need it."""
        if f"{module} {name}" not in PLAIN:
            raise RequestError(f"it requests {f'{module}.{name}'!r}")
        return super().find_class(module, name)


def refuse_code(path: Path) -> None:
    """Raise UserError if reading the pickle could call anything but what makes data."""
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old names of modules
            DataUnpickler(file, encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # of any kind, where bytes are wrong
        why = str(error) if isinstance(error, RequestError) else "it is no pickle that can be read completely"
        message = f"data.dataset: {path} could run code when it is read: {why}"
        raise UserError(f"{message}; copy the file as it was published") from None

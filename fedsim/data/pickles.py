"""Check, without unpickling, that files which other libraries may unpickle hold data and nothing else.

PyG reads Planetoid's files with `pickle`, and NumPy arrays of objects are pickles too: either can call any function of
any module.  Here every name that a pickle requests is compared with those that arrays and graphs need.  Use it only
for files that a reader would unpickle: a text file may look like a pickle.  It does not protect from files that exhaust
a reader's time or memory, or make it fail.
"""

import pickletools
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from fedsim.core.errors import UserError

PLAIN = {
    *(f"{module}.multiarray _reconstruct" for module in ("numpy.core", "numpy._core")),
    *(f"{module} csr_matrix" for module in ("scipy.sparse.csr", "scipy.sparse._csr", "scipy.sparse")),
    *(f"{module} {name}" for module in ("__builtin__", "builtins") for name in ("list", "object")),
    *(f"{module} _reconstructor" for module in ("copy_reg", "copyreg")),
    "numpy ndarray", "numpy dtype", "collections defaultdict", "_codecs encode",
}  # fmt: skip
NAMES = ("GLOBAL", "INST")
HIDDEN = ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID")  # the name is assembled while reading


def refuse_code(path: Path) -> None:
    """Raise UserError if reading the file could call anything but what makes arrays, lists and dictionaries."""
    try:
        _refuse_code(path)
    except (UserError, OSError):
        raise
    except Exception:  # of any kind, from NumPy, zipfile and pickletools, where bytes are wrong
        # Unpickling accepts more than these parsers (0x10 as a number), so the rest may be anything.
        raise _refusal(path, "it is no file that can be inspected completely") from None


def _refuse_code(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(6)
        file.seek(0)
        if start.startswith(b"PK"):
            _refuse_objects(path)
        elif start == b"\x93NUMPY":
            _refuse_object_array(path, path.name, file)
        else:
            for name in _names(file):
                if name not in PLAIN:
                    raise _refusal(path, f"it requests {name.replace(' ', '.')!r}")


def _names(file: IO[bytes]) -> Iterator[str]:
    for code, argument, _ in pickletools.genops(file):
        if code.name in NAMES:
            yield str(argument)
        elif code.name in HIDDEN:
            yield code.name


def _refuse_objects(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            with archive.open(name) as member:
                if member.read(6) == b"\x93NUMPY":
                    member.seek(0)
                    _refuse_object_array(path, name, member)


def _refuse_object_array(path: Path, name: str, file: IO[bytes]) -> None:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    if read(file)[2].hasobject:
        raise _refusal(path, f"{name} is an array of Python objects")


def _refusal(path: Path, why: str) -> UserError:
    return UserError(f"data.dataset: {path} could run code when it is read: {why}; copy the file as it was published")

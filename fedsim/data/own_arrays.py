"""Read a user's graph as arrays: NumPy archives (.npz) and PyTorch files (.pt, .pth), of tensors or PyG's `Data`.

Neither is read in a way that could run code: NumPy's without pickles, PyTorch's with `weights_only`.  An unknown
array is refused, because it may matter (edge weights): `ignore` names those to skip.
"""

import pickle
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedsim.core.errors import UserError
from fedsim.data.raw import MASKS, Raw, numbered

KNOWN = ("x", "edge_index", "edges", "y", "num_nodes", *MASKS, *(f"{name}_mask" for name in MASKS))
BRIEF = 10  # values that a message shows
MANY = 10**10  # vertices; so many labels alone would take 80 GB
WANTED = "x (N, F), edge_index (2, E), y (N,), and train_mask, val_mask, test_mask (N,) where there are any"
Arrays = Mapping[str, Any]


def from_numpy(path: Path, ignore: Sequence[str] = (), labelled: bool = True) -> Raw:
    """Return the graph of an archive made by `numpy.savez`.  Raises UserError if it cannot be read as that."""
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UserError(f"{path}: a single array; save all of them with numpy.savez: {WANTED}")
            arrays = {name: _loaded(path, archive, name) for name in archive.files if name not in ignore}
    except UserError:
        raise
    except Exception as error:  # of any kind, from NumPy and zipfile, where bytes are wrong
        raise UserError(
            f"{path} cannot be read as a NumPy archive ({_first(error)}); write it with numpy.savez"
        ) from None
    return raw(path, arrays, ignore, labelled)


def from_torch(path: Path, ignore: Sequence[str] = (), labelled: bool = True) -> Raw:
    """Return the graph of a file made by `torch.save`.  Raises UserError if it cannot be read as that."""
    remedy = "save a dict of tensors: torch.save({'x': x, 'edge_index': edge_index, 'y': y}, file)"
    try:
        found = _unpickled(path)
    except pickle.UnpicklingError as error:
        asked = _asked(error)
        why = f"it requests {asked!r}, which could run code" if asked else "it is not a file of PyTorch tensors"
        raise UserError(f"{path} cannot be read: {why}; {remedy}") from None
    except Exception as error:  # of any kind, from torch, zipfile and pickle, where bytes are wrong
        raise UserError(f"{path} cannot be read as a file of PyTorch ({_first(error)}); {remedy}") from None
    if not isinstance(found, dict):
        raise UserError(f"{path} holds a {type(found).__name__} and not a graph; {remedy}")
    return raw(path, {str(name): as_array(path, str(name), value) for name, value in found.items()}, ignore, labelled)


def _unpickled(path: Path) -> Any:
    with warnings.catch_warnings():  # about unusual pickles, and deprecations in PyG's imports
        warnings.simplefilter("ignore")
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            if not _asked(error).startswith("torch_geometric."):
                raise
        from torch_geometric.data import Data
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            found = torch.load(path, map_location="cpu", weights_only=True)
    return {name: one for name, one in found.to_dict().items() if one is not None} if isinstance(found, Data) else found


def _asked(error: pickle.UnpicklingError) -> str:
    """Return the unsafe name that a pickle has requested, "" if there is none."""
    return str(error).partition("Unsupported global: GLOBAL ")[2].split(" ")[0]


def as_array(where: Any, name: str, value: Any) -> npt.NDArray[Any]:
    """Return a tensor, an array or a list as an array.  Raises UserError, naming it, if it is none."""
    try:
        array = np.asarray(_dense(value))
    except Exception as error:  # of any kind, from torch, for a tensor that has no such form
        raise UserError(f"{where}: {name!r} cannot be made an array ({_first(error)})") from None
    if array.dtype.kind not in "biufU":
        held = f"holds {array.dtype} numbers" if array.dtype.kind == "c" else f"is a {type(value).__name__}"
        raise UserError(f"{where}: {name!r} {held}; make it an array of real numbers or texts")
    return array


def _dense(value: Any) -> Any:
    """Return a tensor as a dense one that NumPy can read, and anything else as it is."""
    if not isinstance(value, torch.Tensor):
        return value.to_dense() if hasattr(value, "to_dense") else value
    if value.is_meta:
        raise ValueError("a tensor on the device meta holds no values")
    if value.is_nested:
        raise ValueError("a nested tensor has rows of different lengths")
    return value.detach().cpu().to_dense().resolve_conj().resolve_neg()


def raw(where: Any, arrays: Arrays, ignore: Sequence[str] = (), labelled: bool = True) -> Raw:
    """Return the graph of these arrays, checked.  Raises UserError, which names `where`, the array and a fix."""
    arrays = {name: value for name, value in arrays.items() if name not in ignore}
    if odd := [name for name in arrays if name not in KNOWN]:
        message = "graphs have no edge weights or attributes, nor other arrays; "
        raise UserError(f"{where}: {odd[0]!r} is unknown ({message}write ignore: [{', '.join(odd)}] to leave it out)")
    vertices = _vertices(where, arrays)
    if labelled and "y" not in arrays:
        raise UserError(f"{where} lacks the array 'y', the labels (N,); add it, or write labelled: false")
    labels = _labels(where, arrays["y"], vertices) if labelled else np.full(vertices, -1)
    return Raw(
        vertices, _edges(where, arrays, vertices), numbered(labels),
        _features(where, arrays["x"], vertices) if "x" in arrays else None, _masks(where, arrays, vertices),
    )  # fmt: skip


def _vertices(where: Any, arrays: Arrays) -> int:
    rows = next((len(arrays[name]) for name in ("x", "y") if name in arrays and np.ndim(arrays[name])), None)
    if "num_nodes" not in arrays:
        if rows is None:
            raise UserError(f"{where} lacks the array 'x', the features (N, F); the arrays are {WANTED}")
        return rows
    count = arrays["num_nodes"]
    if count.ndim or count.dtype.kind not in "iu" or not 0 <= count < MANY:
        message = f"must be one whole number, the number of vertices, and is {_brief(count)}"
        raise UserError(f"{where}: 'num_nodes' {message}; correct it, or leave it out if there is an 'x' or a 'y'")
    if rows not in (None, int(count)):
        raise UserError(f"{where}: 'num_nodes' is {count}, but there are {rows} rows of features or labels")
    return int(count)


def _edges(where: Any, arrays: Arrays, vertices: int) -> npt.NDArray[np.int64]:
    name = "edge_index" if "edge_index" in arrays else "edges"
    if name not in arrays:
        raise UserError(f"{where} lacks the array 'edge_index' (2, E), or 'edges' (E, 2); add the edges as row numbers")
    if {"edge_index", "edges"} <= set(arrays):
        raise UserError(f"{where} has both 'edge_index' and 'edges'; keep one")
    array, form = arrays[name], "(2, E)" if name == "edge_index" else "(E, 2)"
    if array.ndim != 2 or array.shape[0 if name == "edge_index" else 1] != 2:
        remedy = "edge_index is (2, E), a column an edge; edges is (E, 2), a row an edge"
        raise UserError(f"{where}: {name!r} has the shape {array.shape} and must be {form}: {remedy}; transpose it")
    if array.dtype.kind not in "iu":
        raise UserError(f"{where}: {name!r} holds {_kind(array)}; edges are row numbers, so make it whole numbers")
    edges = np.ascontiguousarray(array if name == "edge_index" else array.T).astype(np.int64)
    wrong = (edges < 0) | (edges >= vertices)
    if wrong.any():
        at = int(np.flatnonzero(wrong.any(axis=0))[0])
        end = int(edges[:, at][wrong[:, at]][0])
        raise UserError(
            f"{where}: {name!r}, edge {at} ends at {end}, and the {vertices} vertices are 0 … {vertices - 1}; "
            "remove the edge or add the vertex"
        )
    return edges


def _features(where: Any, array: npt.NDArray[Any], vertices: int) -> npt.NDArray[np.float32]:
    if array.ndim != 2:
        raise UserError(f"{where}: 'x' has the shape {array.shape} and must be (N, F), a row a vertex")
    if not array.shape[1] and vertices:
        raise UserError(f"{where}: 'x' has no column; leave it out and write missing_features: degree or constant")
    if array.dtype.kind == "U":
        raise UserError(f"{where}: 'x' holds texts; features are numbers")
    with np.errstate(over="ignore"):
        x = array.astype(np.float32)
    if not np.isfinite(x).all():
        row, column = (int(place[0]) for place in np.nonzero(~np.isfinite(x)))
        raise UserError(f"{where}: 'x' is {array[row, column]} at row {row}, column {column}; features must be finite")
    return x


def _labels(where: Any, array: npt.NDArray[Any], vertices: int) -> npt.NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (vertices,):
        message = f"'y' has the shape {array.shape} and must be ({vertices},), a label for each row of 'x'"
        raise UserError(f"{where}: {message}")
    if array.dtype.kind == "f":
        remedy = "labels are whole numbers or texts; make it whole numbers, -1 for a vertex without a label"
        raise UserError(f"{where}: 'y' holds {_kind(array)}; {remedy}")
    labels = array if array.dtype.kind == "U" else array.astype(np.int64)
    if array.dtype.kind != "U" and (labels < -1).any():
        at = int(np.flatnonzero(labels < -1)[0])
        raise UserError(f"{where}: 'y' is {labels[at]} at row {at}; labels count from 0, and -1 means unlabelled")
    return labels


def _masks(where: Any, arrays: Arrays, vertices: int) -> dict[str, npt.NDArray[np.bool_]]:
    names = {split: name for split in MASKS for name in (split, f"{split}_mask") if name in arrays}
    masks = {split: _mask(where, name, arrays[name], vertices) for split, name in names.items()}
    twice: npt.NDArray[np.int64] = sum((mask.astype(np.int64) for mask in masks.values()), np.zeros(vertices, np.int64))
    if (twice > 1).any():
        raise UserError(f"{where}: vertex {int(np.flatnonzero(twice > 1)[0])} is in two masks; keep it in one")
    return masks


def _mask(where: Any, name: str, array: npt.NDArray[Any], vertices: int) -> npt.NDArray[np.bool_]:
    if array.ndim == 2 and array.shape[1]:  # several splits side by side: the first one, as for published graphs
        array = array[:, 0]
    if array.shape != (vertices,) or not (array.dtype.kind == "b" or np.isin(array, (0, 1)).all()):
        message = f"has the shape {array.shape} and holds {_kind(array)}; it must be ({vertices},) of true and false"
        raise UserError(f"{where}: {name!r} {message}")
    return array.astype(bool)


def _loaded(path: Path, archive: Mapping[str, Any], name: str) -> npt.NDArray[Any]:
    try:
        return as_array(path, name, archive[name])
    except ValueError as error:
        message = "an array of Python objects" if "pickle" in str(error) else _first(error)
        raise UserError(f"{path}: {name!r} cannot be read: {message}; save it as NumPy numbers or texts") from None


def _kind(array: npt.NDArray[Any]) -> str:
    kinds: dict[str, Callable[[], str]] = {
        "f": lambda: "numbers with a fraction" if np.isfinite(array).all() else "NaN or infinite numbers",
        "U": lambda: "texts", "b": lambda: "true and false",
    }  # fmt: skip
    return kinds.get(array.dtype.kind, lambda: f"{array.dtype} numbers")()


def _brief(array: npt.NDArray[Any]) -> str:
    """Return a short text of an array's values."""
    text = repr(array.tolist()) if array.size < BRIEF else f"an array of the shape {array.shape}"
    return text if len(text) < 10 * BRIEF else f"{text[: 10 * BRIEF]}…"


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

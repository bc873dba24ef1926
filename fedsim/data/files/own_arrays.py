"""Read a user's graph as arrays: NumPy archives (.npz), and PyTorch files of tensors or PyG's `Data`.

Neither is read in a way that could run code: NumPy's without pickles, PyTorch's with `weights_only`.  An
unknown array is refused, because it may matter (times of edges): `ignore` names those to skip.
"""

import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedsim.core.arrays import Array, Bools, Ints
from fedsim.core.errors import UserError
from fedsim.data.files.raw import Raw, Targets, as_features, numbered, targets_of
from fedsim.data.graph import EDGE_KEYS, MASKS

MASK_NAMES = (*MASKS, *(f"{name}_mask" for name in MASKS))
KNOWN = ("x", "edge_index", "edges", "y", "num_nodes", *EDGE_KEYS, *MASK_NAMES)
BRIEF = 10  # values that a message shows
MANY = 10**10  # nodes; so many labels alone would take 80 GB
WANTED = "x (N, F), edge_index (2, E), y (N,), and train_mask, val_mask, test_mask (N,) where there are any"
Arrays = Mapping[str, Any]


def arrays_of(path: Path, ignore: Sequence[str] = (), wanted: str = WANTED) -> Arrays:
    """Return the arrays of an archive of NumPy's (.npz), or of a file of PyTorch's, but for those to ignore.

    Raises UserError, which names the file and a fix, if it cannot be read as that.
    """
    return (_from_numpy if path.suffix.lower() == ".npz" else _from_torch)(path, ignore, wanted)


def _from_numpy(path: Path, ignore: Sequence[str], wanted: str) -> Arrays:
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise UserError(f"{path}: a single array; save all of them with numpy.savez: {wanted}")
            return {name: _loaded(path, archive, name) for name in archive.files if name not in ignore}
    except UserError:
        raise
    except Exception as error:  # of any kind, from NumPy and zipfile, where bytes are wrong
        message = f"cannot be read as a NumPy archive ({_first_line(error)}); write it with numpy.savez"
        raise UserError(f"{path} {message}") from None


def _from_torch(path: Path, ignore: Sequence[str], wanted: str) -> Arrays:
    remedy = f"save a dict of tensors by torch.save({{'x': x, 'y': y, ...}}, file): {wanted}"
    try:
        content = _unpickled(path)
    except pickle.UnpicklingError as error:
        name = _requested(error)
        why = f"it requests {name!r}, which could run code" if name else "it is not a file of PyTorch tensors"
        raise UserError(f"{path} cannot be read: {why}; {remedy}") from None
    except Exception as error:  # of any kind, from torch, zipfile and pickle, where bytes are wrong
        raise UserError(f"{path} cannot be read as a file of PyTorch ({_first_line(error)}); {remedy}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} holds a {type(content).__name__} and no arrays by name; {remedy}")
    return {str(name): as_array(path, str(name), value) for name, value in content.items() if name not in ignore}


def _unpickled(path: Path) -> Any:
    with warnings.catch_warnings():  # about unusual pickles, and deprecations in PyG's imports
        warnings.simplefilter("ignore")
        try:
            return torch.load(path, map_location="cpu", weights_only=True)
        except pickle.UnpicklingError as error:
            if not _requested(error).startswith("torch_geometric."):
                raise
        from torch_geometric.data import Data
        from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
        from torch_geometric.data.storage import GlobalStorage

        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            content = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(content, Data):
        return content
    return {name: value for name, value in content.to_dict().items() if value is not None}


def _requested(error: pickle.UnpicklingError) -> str:
    """Return the unsafe name that a pickle has requested, "" if there is none."""
    return str(error).partition("Unsupported global: GLOBAL ")[2].split(" ")[0]


def as_array(where: Any, name: str, value: Any) -> Array:
    """Return a tensor, an array or a list as an array.  Raises UserError, naming it, if it is none."""
    try:
        array = np.asarray(_dense(value))
    except Exception as error:  # of any kind, from torch, for a tensor that has no such form
        raise UserError(f"{where}: {name!r} cannot be made an array ({_first_line(error)})") from None
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


def raw(
    where: Any, arrays: Arrays, ignore: Sequence[str] = (), labelled: bool = True, targets: Targets = "classes"
) -> Raw:
    """Return the graph of these arrays, checked.  Raises UserError, which names `where`, the array and a fix."""
    arrays = {name: value for name, value in arrays.items() if name not in ignore}
    refuse_unknown(where, arrays, KNOWN)
    nodes = _nodes(where, arrays)
    if labelled and "y" not in arrays:
        raise UserError(f"{where} lacks the array 'y', the labels (N,); add it, or write labelled: false")
    labels, real = np.full(nodes, -1), None
    if labelled and targets == "real":
        labels, real = targets_of(where, arrays["y"], nodes, targets)
    elif labelled:
        labels = numbered(_labels(where, arrays["y"], nodes))
    x = _features(where, arrays["x"], nodes) if "x" in arrays else None
    edges, masks = _edges(where, arrays, nodes), masks_of(where, arrays, nodes)
    of_edges = {key: _of_edges(where, key, arrays[key], edges.shape[1]) for key in EDGE_KEYS if key in arrays}
    return Raw(nodes, edges, labels, x, masks, of_edges, real)


def refuse_unknown(where: Any, arrays: Arrays, known: Sequence[str]) -> None:
    """Raise UserError, with the remedy, for an array that is none of those known."""
    if odd := [name for name in arrays if name not in known]:
        meant = f"features are x, labels y, edges edge_index; the arrays are {', '.join(known)}"
        message = f"{meant}; write ignore: [{', '.join(odd)}] to leave it out"
        raise UserError(f"{where}: {odd[0]!r} is unknown ({message})")


def _of_edges(where: Any, name: str, array: Array, edges: int) -> npt.NDArray[np.float32]:
    """Return attributes (E, D) or weights (E,) of edges."""
    if name == "edge_attr" and array.ndim == 1:
        array = array[:, None]
    form = f"({edges}, D), a row an edge" if name == "edge_attr" else f"({edges},), a number an edge"
    if array.ndim != (2 if name == "edge_attr" else 1) or len(array) != edges:
        raise UserError(f"{where}: {name!r} has the shape {array.shape} and must be {form}")
    if array.dtype.kind == "U":
        raise UserError(f"{where}: {name!r} holds texts; make it numbers")
    values, wrong = as_features(array)
    if wrong:
        raise UserError(f"{where}: {name!r} is {array[wrong]} at edge {wrong[0]}; it must be finite")
    return values


def _nodes(where: Any, arrays: Arrays) -> int:
    rows = next((len(arrays[name]) for name in ("x", "y") if name in arrays and np.ndim(arrays[name])), None)
    if "num_nodes" not in arrays:
        if rows is None:
            raise UserError(f"{where} lacks the array 'x', the features (N, F); the arrays are {WANTED}")
        return rows
    count = arrays["num_nodes"]
    if count.ndim or count.dtype.kind not in "iu" or not 0 <= count < MANY:
        message = f"must be one whole number, the number of nodes, and is {_brief(count)}"
        raise UserError(f"{where}: 'num_nodes' {message}; correct it, or leave it out if there is an 'x' or a 'y'")
    if rows not in (None, int(count)):
        raise UserError(f"{where}: 'num_nodes' is {count}, but there are {rows} rows of features or labels")
    return int(count)


def _edges(where: Any, arrays: Arrays, nodes: int) -> Ints:
    name = "edge_index" if "edge_index" in arrays else "edges"
    if name not in arrays:
        raise UserError(f"{where} lacks the array 'edge_index' (2, E), or 'edges' (E, 2); add the edges as row numbers")
    if {"edge_index", "edges"} <= set(arrays):
        raise UserError(f"{where} has both 'edge_index' and 'edges'; keep one")
    array = arrays[name]
    edges = array if name == "edge_index" else array.T
    if array.ndim != 2 or len(edges) != 2:
        form = "(2, E)" if name == "edge_index" else "(E, 2)"
        remedy = "edge_index is (2, E), a column an edge; edges is (E, 2), a row an edge"
        raise UserError(f"{where}: {name!r} has the shape {array.shape} and must be {form}: {remedy}; transpose it")
    if array.dtype.kind not in "iu":
        raise UserError(f"{where}: {name!r} holds {held_by(array)}; edges are row numbers, so make it whole numbers")
    edges = np.ascontiguousarray(edges).astype(np.int64)
    if len(wrong := np.argwhere((edges.T < 0) | (nodes <= edges.T))):
        at, end = wrong[0]
        message = f"edge {at} ends at {edges[end, at]}, and the {nodes} nodes are 0 … {nodes - 1}"
        raise UserError(f"{where}: {name!r}, {message}; remove the edge or add the node")
    return edges


def _features(where: Any, array: Array, nodes: int) -> npt.NDArray[np.float32]:
    if array.ndim != 2:
        raise UserError(f"{where}: 'x' has the shape {array.shape} and must be (N, F), a row a node")
    if not array.shape[1] and nodes:
        raise UserError(f"{where}: 'x' has no column; leave it out and write missing_features: degree or constant")
    if array.dtype.kind == "U":
        raise UserError(f"{where}: 'x' holds texts; features are numbers")
    x, wrong = as_features(array)
    if wrong:
        row, column = wrong
        raise UserError(f"{where}: 'x' is {array[wrong]} at row {row}, column {column}; features must be finite")
    return x


def _labels(where: Any, array: Array, nodes: int) -> Array:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (nodes,):
        message = f"'y' has the shape {array.shape} and must be ({nodes},), a label for each row of 'x'"
        raise UserError(f"{where}: {message}")
    if array.dtype.kind == "f" and (array != np.floor(array)).any():
        remedy = "labels are whole numbers or texts; make it whole numbers, -1 for a node without a label"
        raise UserError(f"{where}: 'y' holds {held_by(array)}; {remedy}")
    labels = array if array.dtype.kind == "U" else array.astype(np.int64)
    if array.dtype.kind != "U" and (labels < -1).any():
        at = int(np.flatnonzero(labels < -1)[0])
        raise UserError(f"{where}: 'y' is {labels[at]} at row {at}; labels count from 0, and -1 means unlabelled")
    return labels


def masks_of(where: Any, arrays: Arrays, nodes: int) -> dict[str, Bools]:
    """Return the masks (N,) by split.  Raises UserError where one has another form, or two overlap."""
    names = {split: name for split in MASKS for name in (split, f"{split}_mask") if name in arrays}
    masks = {split: _mask(where, name, arrays[name], nodes) for split, name in names.items()}
    twice = np.sum([*masks.values(), np.zeros(nodes, dtype=bool)], axis=0) > 1
    if twice.any():
        raise UserError(f"{where}: node {int(twice.argmax())} is in two masks; keep it in one")
    return masks


def _mask(where: Any, name: str, array: Array, nodes: int) -> Bools:
    if array.ndim == 2 and array.shape[1]:  # several splits side by side: the first one, as for published graphs
        array = array[:, 0]
    if array.shape != (nodes,) or not (array.dtype.kind == "b" or np.isin(array, (0, 1)).all()):
        message = f"has the shape {array.shape} and holds {held_by(array)}; it must be ({nodes},) of true and false"
        raise UserError(f"{where}: {name!r} {message}")
    return array.astype(bool)


def _loaded(path: Path, archive: Mapping[str, Any], name: str) -> Array:
    try:
        return as_array(path, name, archive[name])
    except ValueError as error:
        message = "an array of Python objects" if "pickle" in str(error) else _first_line(error)
        raise UserError(f"{path}: {name!r} cannot be read: {message}; save it as NumPy numbers or texts") from None


def held_by(array: Array) -> str:
    """Return what an array holds, in words."""
    if array.dtype.kind == "f":
        return "numbers with a fraction" if np.isfinite(array).all() else "NaN or infinite numbers"
    return {"U": "texts", "b": "true and false"}.get(array.dtype.kind, f"{array.dtype} numbers")


def _brief(array: Array) -> str:
    """Return a short text of an array's values."""
    text = repr(array.tolist()) if array.size < BRIEF else f"an array of the shape {array.shape}"
    return text if len(text) < 10 * BRIEF else f"{text[: 10 * BRIEF]}…"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

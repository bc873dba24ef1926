"""Published graphs: find or download their raw files, read them (mostly with PyG), and cache the result.

The data folder is only read: it may be shared, or on a read-only disk.  The result is cached as one NumPy archive in
the user's cache (`~/.cache/fedsim`), written under a temporary name and then renamed, so that processes which load the
same graph at once do not disturb each other.  An archive is named after the raw files' sizes and times of change, so
changed data is read again.  Checksums are not verified.
"""

import contextlib
import gzip
import hashlib
import http.client
import importlib.metadata
import io
import os
import pickle
import shutil
import tempfile
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedsim.core.errors import UserError
from fedsim.data.dataset import undirected
from fedsim.data.graph import Graph, csr, graph_of, sparse_if_worth, with_keys

PATIENCE = 20.0  # seconds without a byte before a download is abandoned
MASKS = ("train", "val", "test")
IN_TIME = (
    "since",
    "until",
    "span",
    "born",
    "frames",
    "framed",
    "message",
)  # keys of a changing graph (fedsim.data.temporal)
UNREADABLE = (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError)


def published(root: Path, raw: str, urls: Mapping[str, str], read: Callable[[Any, str], Any]) -> Graph:
    """Return the graph whose raw files lie in the folder `raw` under `root`, or else at `urls` (by file name).

    `read` makes PyG's dataset, given `torch_geometric.datasets` and a root folder of PyG's own layout; PyG is imported
    only when it has to read.  Where there are several public splits the masks are the first one's.
    Raises UserError if files are missing and cannot be fetched, or cannot be read.
    """
    return prepared(root, raw, urls, lambda work: _graph(_read(read, str(work))))


def prepared(
    root: Path, raw: str, urls: Mapping[str, str], read: Callable[[Path], Graph], columns: Sequence[str] = ()
) -> Graph:
    """Return what `read` makes of the raw files, which lie in the folder `raw` under `root` or at `urls` (by name).

    `read` is given another root, under which all of them lie in the folder `raw`.
    An address may be that of a ZIP archive, followed by `#` and the file's path inside it, or that of a gzipped file;
    "" means that there is none.  `columns` are those that are read beside the usual ones.
    Raises UserError if files are missing and cannot be fetched, or cannot be read.
    """
    folder = root.resolve() / raw
    present = {name: folder / name for name in urls if (folder / name).is_file()}
    archive = cache() / f"{_digest(folder, present, columns)}.npz"
    if not archive.is_file():
        with tempfile.TemporaryDirectory(dir=archive.parent) as work:
            _gather(Path(work) / raw, folder, present, urls)
            partial = Path(work) / "graph.npz"
            try:
                graph = read(Path(work))
            except UNREADABLE as error:
                raise UserError(
                    f"data.dataset: {', '.join(urls)} of {folder}, or fetched where it lacks them, cannot be read "
                    f"({error}); copy the files there as they were published"
                ) from error
            _save(partial, graph)
            _keep(partial, archive)
    return _load(archive)


def fetch(url: str, path: Path) -> None:
    """Copy what is at the address into a file.  Raises OSError or HTTPException."""
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer, path.open("wb") as file:
        shutil.copyfileobj(answer, file)


def cache() -> Path:
    """Return the folder of the user's cache.  Raises UserError if it cannot be written."""
    folder = Path.home() / ".cache" / "fedsim"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError("not writable")
    except OSError as error:
        raise UserError(
            f"data.dataset: prepared graphs are kept in {folder}, which cannot be written ({error}); "
            "set HOME to a folder that can"
        ) from None
    return folder


def _digest(folder: Path, present: Mapping[str, Path], columns: Sequence[str]) -> str:
    stats = [(name, path.stat().st_size, path.stat().st_mtime_ns) for name, path in sorted(present.items())]
    text = repr((str(folder), stats, importlib.metadata.version("torch-geometric"), *columns))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _gather(into: Path, folder: Path, present: Mapping[str, Path], urls: Mapping[str, str]) -> None:
    into.mkdir(parents=True)
    for name, path in present.items():
        _lay(path, into / name)
    missing = [name for name in urls if name not in present]
    if any(not urls[name] for name in missing):
        raise UserError(
            f"data.dataset: {folder} lacks {', '.join(missing)}, and no download address is known for it; "
            "copy the missing files there, or set FEDSIM_DATA to a folder that holds them"
        )
    for name in missing:
        try:
            _obtain(urls[name], into, name)
        except (OSError, EOFError, zlib.error, http.client.HTTPException, zipfile.BadZipFile, KeyError) as error:
            raise UserError(
                f"data.dataset: {folder} lacks {', '.join(missing)}, and {urls[name]} could not be fetched ({error}); "
                "copy the missing files there, or set FEDSIM_DATA to a folder that holds them"
            ) from None


def _lay(path: Path, name: Path) -> None:
    try:
        name.symlink_to(path)
    except OSError:  # on Windows few users may create links
        shutil.copyfile(path, name)


def _keep(partial: Path, archive: Path) -> None:
    try:
        os.replace(partial, archive)
    except PermissionError:  # Windows cannot replace an open file: another process has written the same and reads it
        if not archive.is_file():
            raise


def _obtain(url: str, into: Path, name: str) -> None:
    address, _, member = url.partition("#")
    if not member and address.endswith(".gz") and not name.endswith(".gz"):
        fetch(url, into / f"{name}.gz")
        with gzip.open(into / f"{name}.gz") as inner, (into / name).open("wb") as file:
            shutil.copyfileobj(inner, file)
        return
    if not member:
        fetch(url, into / name)
        return
    archive = into / Path(address).name
    if not archive.exists():  # several files may lie in one archive
        fetch(address, archive)
    with zipfile.ZipFile(archive) as packed, packed.open(member) as inner, (into / name).open("wb") as file:
        shutil.copyfileobj(inner, file)


def _read(read: Callable[[Any, str], Any], folder: str) -> Any:
    # PyG reports processing on stderr, and warns about deprecations in its dependencies.
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_geometric import datasets

        return read(datasets, folder)[0]


def _graph(data: Any) -> Graph:
    x, y = data.x, data.y.long()
    masks = [_first(data[f"{name}_mask"]) if f"{name}_mask" in data else None for name in MASKS]
    return graph_of(sparse_if_worth(x), undirected(data.edge_index, len(y)), y, *masks)


def _first(mask: Tensor) -> Tensor:
    return (mask if mask.dim() == 1 else mask[:, 0]).bool()


def _save(path: Path, graph: Graph) -> None:
    x = graph["x"]
    names = ["edges", "y", *MASKS, *(name for name in IN_TIME if name in graph)]
    parts = {name: graph[name].numpy() for name in names}  # type: ignore[literal-required]
    if x.layout == torch.sparse_csr:
        parts |= {"crow": x.crow_indices().numpy(), "column": x.col_indices().numpy(), "value": x.values().numpy()}
        parts["shape"] = np.array(x.shape)
    else:
        parts["x"] = x.numpy()
    np.savez(path, **parts)


def _load(path: Path) -> Graph:
    with np.load(path) as file:
        part = {name: torch.from_numpy(file[name]) for name in file.files}
    dense = "x" in part
    x = part["x"] if dense else csr(part["crow"], part["column"], part["value"], part["shape"].tolist())
    graph = graph_of(x, part["edges"], part["y"], *(part[name] for name in MASKS))
    return with_keys(graph, {name: part[name] for name in IN_TIME if name in part})

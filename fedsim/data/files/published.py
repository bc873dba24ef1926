"""Published graphs: find or download their raw files, read them (mostly with PyG), and cache the result.

The data folder is only read: it may be shared, or on a read-only disk.  The result is cached as one file of
tensors in the user's cache (`~/.cache/fedsim`), written under a temporary name and then renamed, so that
processes which load the same graph at once do not disturb each other.  It is named after the raw files' sizes
and times of change, so changed data is read again.  Checksums are not verified.
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

import torch

from fedsim.core.errors import UserError
from fedsim.data.dataset import undirected
from fedsim.data.graph import MASKS, Graph, graph_of, sparse_if_worth

PATIENCE = 20.0  # seconds without a byte before a download is abandoned
UNREADABLE = (OSError, EOFError, ValueError, LookupError, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError)


def published(root: Path, raw: str, urls: Mapping[str, str], read: Callable[[Any, str], Any]) -> Graph:
    """Return the graph whose raw files lie in the folder `raw` under `root`, or at `urls` (by name).

    `read` makes PyG's dataset, given `torch_geometric.datasets` and a root folder of PyG's own layout; PyG is
    imported only when it has to read.  Where there are several public splits the masks are the first one's.
    Raises UserError if files are missing and cannot be fetched, or cannot be read.
    """
    up = len(Path(raw).parts) - 1

    def read_with_pyg(folder: Path) -> Graph:
        # PyG reports processing on stderr, and warns about deprecations in its dependencies.
        with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from torch_geometric import datasets

            data = read(datasets, str(folder.parents[up]))[0]
        y = data.y.long()
        given = [data.get(f"{name}_mask") for name in MASKS]
        masks = [None if mask is None else mask.reshape(len(y), -1)[:, 0].bool() for mask in given]
        return graph_of(sparse_if_worth(data.x), undirected(data.edge_index, len(y)), y, *masks)

    return prepared(root / raw, urls, read_with_pyg, raw=raw)


def prepared(
    folder: Path, urls: Mapping[str, str], read: Callable[[Path], Graph], columns: Sequence[str] = (), raw: str = "raw"
) -> Graph:
    """Return what `read` makes of the raw files, which lie in the folder or at `urls` (by name).

    `read` is given another folder that holds all of them, whose path ends in `raw`.  An address may be that
    of a ZIP archive, followed by `#` and the file's path inside it, or that of a gzipped file; "" means that
    there is none.  `columns` are those that are read beside the usual ones.  Raises UserError if files are
    missing and cannot be fetched, or cannot be read.
    """
    folder = folder.resolve()
    present = {name: folder / name for name in urls if (folder / name).is_file()}
    archive = cache() / f"{_digest(folder, present, columns)}.pt"
    if not archive.is_file():
        with tempfile.TemporaryDirectory(dir=archive.parent) as work:
            _gather(Path(work) / raw, folder, present, urls)
            partial = Path(work) / "graph.pt"
            try:
                graph = read(Path(work) / raw)
            except UNREADABLE as error:
                raise UserError(
                    f"data.dataset: {', '.join(urls)} of {folder}, or fetched where it lacks them, cannot be read "
                    f"({error}); copy the files there as they were published"
                ) from error
            torch.save(graph, partial)
            _keep(partial, archive)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        stored: Graph = torch.load(archive, weights_only=True)
    return stored


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
        try:
            (into / name).symlink_to(path)
        except OSError:  # on Windows few users may create links
            shutil.copyfile(path, into / name)
    missing = [name for name in urls if name not in present]
    lacks = f"data.dataset: {folder} lacks {', '.join(missing)}"
    remedy = "copy the missing files there, or set FEDSIM_DATA to a folder that holds them"
    if any(not urls[name] for name in missing):
        raise UserError(f"{lacks}, and no download address is known for it; {remedy}")
    for name in missing:
        try:
            _obtain(urls[name], into, name)
        except (OSError, EOFError, zlib.error, http.client.HTTPException, zipfile.BadZipFile, KeyError) as error:
            raise UserError(f"{lacks}, and {urls[name]} could not be fetched ({error}); {remedy}") from None


def _keep(partial: Path, archive: Path) -> None:
    try:
        partial.replace(archive)
    except PermissionError:  # Windows cannot replace an open file: another process has written the same and reads it
        if not archive.is_file():
            raise


def _obtain(url: str, into: Path, name: str) -> None:
    address, _, member = url.partition("#")
    packed = into / Path(address).name
    if not member and (name.endswith(".gz") or not address.endswith(".gz")):
        fetch(url, into / name)
        return
    if not packed.exists():  # several files may lie in one archive
        fetch(address, packed)
    if member:
        with zipfile.ZipFile(packed) as archive:
            (into / name).write_bytes(archive.read(member))
    else:
        (into / name).write_bytes(gzip.decompress(packed.read_bytes()))

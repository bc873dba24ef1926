"""Turn Python objects into scenario values: NumPy values, paths, graphs, and parts as objects or classes.

A part becomes the name of its module and its options that differ from the defaults.  A class that cannot be imported by
name (from a notebook, a script, or a top-level module) is saved with its source into the results' folder `inputs`,
under a name with a digest of that source, so that a changed class is another part whose points run again.  Graphs are
saved there as well.  So a point's scenario is complete, and any process can run it.

A class of `torch.nn.Module`, or a function that returns a module, is a model, and named by its module and itself.
"""

import dataclasses
import hashlib
import importlib
import inspect
import io
import os
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.results.folders import refuse_links
from fedsim.scenario.part import Part
from fedsim.scenario.parts import defaults, find, lookup, source
from fedsim.sweep import cells

FOLDER = "inputs"
MODULE = ("torch.nn.modules.module", "Module")
LONGEST = 200  # characters of a value in messages
Files = dict[str, bytes]


def plain(value: Any, files: Files, where: str = "") -> Any:
    """Return a value as written in a scenario file; files for the inputs' folder are added to `files`.

    Raises UserError, naming `where` it was given, for an object that a scenario cannot hold.
    """
    if isinstance(value, Mapping):
        return {key: plain(inner, files, where) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [plain(inner, files, where) for inner in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if (kind := kind_of(value)) is not None:
        return _part(kind, value, files, where)
    if hasattr(value, "tolist") and not isinstance(value, type):  # of NumPy, pandas and PyTorch
        return plain(value.tolist(), files, where)
    if not isinstance(value, str | int | float | date | None):
        raise UserError(f"{where} holds {shown(value)}, which no scenario can; give numbers, texts or lists")
    return value


def kind_of(value: Any) -> str | None:
    """Return the kind of part of an object or class, None if it is not a part; a function makes a model."""
    if inspect.isfunction(value):
        return "model"
    bases = (value if inspect.isclass(value) else type(value)).__mro__
    found = {(base.__module__, base.__name__) for base in bases}
    kind = next((kind for kind, described in find.KINDS.items() if described.contract in found), None)
    return "model" if kind is None and MODULE in found else kind


def shown(value: Any) -> str:
    """Return a value in one line, for messages and comments."""
    text = value.__name__ if inspect.isclass(value) else re.sub(r"<function (\S+) at \w+>", r"\1", repr(value))
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def graph_part(graph: Any, files: Files) -> Any:
    """Return the data set of a graph: a file's path, a part, PyG's `Data`, or a mapping of arrays.

    A path in `files` is relative to the inputs' folder.  Raises UserError if it is none of these.
    """
    if isinstance(graph, str | os.PathLike):
        return {"name": "file", "file": os.fspath(graph)}
    if kind_of(graph) == "dataset":
        return plain(graph, files, "graph")
    arrays = graph.to_dict() if hasattr(graph, "to_dict") and hasattr(graph, "edge_index") else graph
    if not isinstance(arrays, Mapping):
        message = "give PyG's Data, or a mapping of arrays: {'x': x, 'edge_index': edge_index, 'y': y}"
        raise UserError(f"graph: a value of type {type(graph).__name__} is not a graph; {message}, or name a file")
    from fedsim.data.files.own_arrays import as_array

    known = {str(name): as_array("graph", str(name), value) for name, value in arrays.items() if value is not None}
    content = _archive(known)
    name = f"graph-{_digest(content)}.npz"
    files[name] = content
    return {"name": "file", "file": name}


@contextmanager
def written(folder: Path, files: Files, importable: bool = True) -> Iterator[None]:
    """Write files atomically into a folder of results, and make what is there importable within the block.

    If a UserError ends the block before any result was kept, the files and their folders are removed.
    Raises UserError if they cannot be written.
    """
    refuse_links(folder)
    inputs = folder.resolve() / FOLDER
    new_folders = [parent for parent in (inputs, *inputs.parents) if files and not parent.exists()]
    new = [path for path in {inputs / name.partition("/")[0] for name in files} if not path.exists()]
    try:
        for name, content in files.items():
            _write(inputs / name, content)
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}); give another folder with out=") from None
    try:
        with lookup.within_reach(*([inputs] if importable else [])):
            importlib.invalidate_caches()
            yield
    except UserError:
        if new and not (folder / "scenario.yaml").is_file():
            for path in new:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            for path in new_folders:
                with suppress(OSError):  # not empty
                    path.rmdir()
        raise


def _part(kind: str, value: Any, files: Files, where: str) -> Any:
    made = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    if made is value and _makes_module(made):
        return _known_name(kind, made, f"{made.__module__}.{made.__name__}") or f"{_saved(made, files)}.{made.__name__}"
    if _makes_module(made):
        named = f"{{'name': {made.__name__}, 'hidden': 64}}"
        raise UserError(f"{where}: give the class {made.__name__} and not a module of it, its options as in {named}")
    options = {} if made is value else _options(value, files, where)
    name = _known_name(kind, made, made.__module__.rpartition(".")[2], made.__module__) or _saved(made, files)
    return {"name": name, **options} if options else name


def _makes_module(made: Any) -> bool:
    return inspect.isfunction(made) or MODULE in {(base.__module__, base.__name__) for base in made.__mro__}


def _known_name(kind: str, made: Any, *names: str) -> str | None:
    """Return the first name by which any process can import the class or function, None if there is none."""
    for name in names:
        with suppress(ScenarioError):
            if find.module_of(kind, name) == made.__module__:
                found = find.find(kind, Part(name=name), kind)
                if getattr(found, "make", found) is made:
                    return name
    return None


def _saved(made: Any, files: Files) -> str:
    """Save the source of a class or function, and return the name of its module."""
    what = "class" if inspect.isclass(made) else "function"
    if not made.__name__.isidentifier():
        raise UserError("a function without a name cannot be saved for other processes; define it with def")
    if made.__name__.startswith("_"):
        raise UserError(f"the {what} {made.__name__} begins with '_', so it would not be found; rename it")
    content = cells.source_of(made).encode()
    steps = (f"inline_{_digest(content)}", made.__name__.lower())
    files[f"{'/'.join(steps)}.py"] = content
    return ".".join(steps)


def _options(value: Any, files: Files, where: str) -> dict[str, Any]:
    """Return the options of a part that differ from the defaults."""
    fields = source.option_fields(type(value))
    if not fields:
        declared = {one.name for one in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
        if vars(value).keys() - declared:
            raise UserError(f"{where}: {type(value).__name__} is not a dataclass, so its options are unknown")
        return {}
    found = {}
    for one in fields:
        given = getattr(value, one.name)
        if not _is_default(one, given):
            option = f"{where}: the option {one.name!r} of {type(value).__name__}"
            found[one.name] = defaults.written(type(value), one.name, plain(given, files, option))
    return found


def _is_default(one: "dataclasses.Field[Any]", given: Any) -> bool:
    default = defaults.default(one)
    try:
        return default is given or (type(default) is type(given) and bool(default == given))
    except (ValueError, TypeError, RuntimeError):  # arrays
        return False


def _archive(arrays: Mapping[str, Any]) -> bytes:
    """Return a NumPy archive whose bytes depend on the arrays alone; NumPy's own contains the time."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(arrays):
            one = io.BytesIO()
            np.lib.format.write_array(one, np.asarray(arrays[name], order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), one.getvalue(), zipfile.ZIP_DEFLATED)
    return whole.getvalue()


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=5).hexdigest()


def _write(path: Path, content: bytes) -> None:
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        hidden.write_bytes(content)
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)

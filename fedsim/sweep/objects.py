"""Turn Python objects into scenario values: NumPy values, paths, graphs, and parts as objects or classes.

A part becomes the name of its module and its options that differ from the defaults.  A class that cannot be imported by
name (from a notebook, a script, or a top-level module) is saved with its source into the results' folder `inputs`,
under a name with a digest of that source, so that a changed class is another part whose points run again.  Graphs are
saved there as well.  So a point's scenario is complete, and any process can run it.
"""

import dataclasses
import hashlib
import importlib
import inspect
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
from pydantic import PydanticSchemaGenerationError, TypeAdapter

from fedsim.core import shipped
from fedsim.core.errors import ScenarioError, UserError
from fedsim.point.folders import refuse_links
from fedsim.scenario import find, source
from fedsim.sweep import cells

FOLDER = "inputs"
LONGEST = 200  # characters of a value in messages
Files = dict[str, bytes]


class _Name(NamedTuple):
    name: str
    options: Mapping[str, Any]


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
    return value


def kind_of(value: Any) -> str | None:
    """Return the kind of part of an object or class, None if it is not a part."""
    bases = (value if inspect.isclass(value) else type(value)).__mro__
    found = {(base.__module__, base.__name__) for base in bases}
    return next((kind for kind, described in find.KINDS.items() if described.contract in found), None)


def shown(value: Any) -> str:
    """Return a value in one line, for messages and comments."""
    text = value.__name__ if inspect.isclass(value) else " ".join(repr(value).split())
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
    from fedsim.data.own_arrays import as_array

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
    made = [parent for parent in (inputs, *inputs.parents) if files and not parent.exists()]
    try:
        new = [path for name, content in files.items() if not _holds(path := inputs / name, content)]
        for path in new:
            _write(path, files[str(path.relative_to(inputs).as_posix())])
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}); give another folder with out=") from None
    try:
        with shipped.within_reach(*([inputs] if importable else [])):
            importlib.invalidate_caches()
            yield
    except UserError:
        if new and not (folder / "scenario.yaml").is_file():
            _remove(new, inputs, made)
        raise


def _part(kind: str, value: Any, files: Files, where: str) -> Any:
    cls = value if inspect.isclass(value) else type(value)
    options = {} if inspect.isclass(value) else _options(value, files, where)
    name = _known_name(kind, cls) or _saved(cls, files)
    return {"name": name, **options} if options else name


def _known_name(kind: str, cls: type) -> str | None:
    """Return the name by which any process can import the class, None if there is none."""
    for name in (cls.__module__.rpartition(".")[2], cls.__module__):
        with suppress(ScenarioError):
            if find.module_of(kind, name) == cls.__module__ and find.find(kind, _Name(name, {}), kind) is cls:
                return name
    return None


def _saved(cls: type, files: Files) -> str:
    if cls.__name__.startswith("_"):
        raise UserError(f"the class {cls.__name__} begins with '_', so it would not be found; rename it")
    content = cells.source_of(cls).encode()
    steps = (f"inline_{_digest(content)}", cls.__name__.lower())
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
            found[one.name] = _as_written(type(value), one.name, plain(given, files, where))
            if not _is_plain(found[one.name]):
                message = f"the option {one.name!r} of {type(value).__name__} holds a {type(given).__name__}"
                raise UserError(f"{where}: {message}, which no scenario can hold; give numbers, texts, lists or paths")
    return found


def _is_default(one: "dataclasses.Field[Any]", given: Any) -> bool:
    default = one.default_factory() if one.default_factory is not dataclasses.MISSING else one.default
    try:
        return default is given or (type(default) is type(given) and bool(default == given))
    except (ValueError, TypeError, RuntimeError):  # arrays
        return False


def _as_written(cls: type, name: str, value: Any) -> Any:
    """Return an option as written in a scenario: quantities with their units."""
    if isinstance(value, str | bool | None):
        return value
    try:
        return TypeAdapter(get_type_hints(cls, include_extras=True)[name]).dump_python(
            value, mode="json", warnings=False
        )
    except (NameError, TypeError, ValueError, PydanticSchemaGenerationError):
        return value  # an error is reported when the part is built


def _is_plain(value: Any) -> bool:
    if isinstance(value, list):
        return all(_is_plain(inner) for inner in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    return isinstance(value, str | bool | int | float | None)


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


def _holds(path: Path, content: bytes) -> bool:
    return path.is_file() and path.read_bytes() == content


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        hidden.write_bytes(content)
        os.replace(hidden, path)
    finally:
        hidden.unlink(missing_ok=True)


def _remove(new: list[Path], inputs: Path, made: list[Path]) -> None:
    for path in new:
        path.unlink(missing_ok=True)
        while path.parent != inputs and inputs in path.parent.parents:
            path = path.parent
            for cache in path.glob("__pycache__/*.pyc"):
                cache.unlink()
            with suppress(OSError):
                (path / "__pycache__").rmdir()
            with suppress(OSError):  # not empty
                path.rmdir()
    for folder in made:
        with suppress(OSError):
            folder.rmdir()

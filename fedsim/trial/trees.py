"""Walk through nested values: digests of their entries, to see whether and where they change, and their leaves.

Digests leave out what fedsim derives from a graph and keeps with it (`layout`), and the optimiser's state in
a memory, which the trainer looks after.
"""

import dataclasses
import hashlib
import random
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

DEPTH = 40  # levels of nesting that are looked into
NAMED = (type, FunctionType, MethodType, ModuleType)  # whose texts have addresses in them
LEAVES = (
    torch.Tensor, np.ndarray, torch.Generator, np.random.Generator, random.Random, set, frozenset, str, bytes, int,
    float, complex, type(None), *NAMED,
)  # fmt: skip

Digests = Mapping[str, bytes]


def digests(value: Any) -> Digests:
    """Return the digest of each entry of a value by its path, such as "['model']['weight']"."""
    return dict(_walk(value, "", 0, set()))


def changed(before: Digests, after: Digests) -> list[str]:
    """Return the paths whose entries differ or are gone.

    A dict or a list differs itself where it has new entries.  An object, and a dict or list that it holds
    under a name with an underscore, does not: they may cache what is computed.
    """
    return [path for path, digest in before.items() if after.get(path) != digest]


def leaves(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what a tree of dicts, lists and tuples holds, by its path."""
    if isinstance(tree, dict | list | tuple):
        for step, value in _entries(tree, set()):
            yield from leaves(value, path + step)
    else:
        yield path, tree


def _walk(node: Any, path: str, depth: int, seen: set[int]) -> Iterator[tuple[str, bytes]]:
    cache = isinstance(node, dict | list) and path.rpartition(".")[2].startswith("_")
    content = type(node).__name__.encode() if cache else _bytes(node)
    yield path, hashlib.blake2b(content, digest_size=12).digest()
    if depth < DEPTH:
        for step, value in _entries(node, seen):
            yield from _walk(value, path + step, depth + 1, seen)


def _entries(node: Any, seen: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        yield from ((f"[{key!r}]", value) for key, value in _watched(node).items())
    elif isinstance(node, list | tuple):
        yield from ((f"[{number}]", value) for number, value in enumerate(node))
    elif not isinstance(node, LEAVES) and id(node) not in seen:  # an object, which others may refer to
        seen.add(id(node))
        attributes = dict(getattr(node, "__dict__", {}))
        if dataclasses.is_dataclass(node) and not attributes:
            attributes = {field.name: getattr(node, field.name) for field in dataclasses.fields(node)}
        yield from ((f".{name}", value) for name, value in attributes.items())


def _watched(node: Mapping[Any, Any]) -> dict[Any, Any]:
    return {key: value for key, value in node.items() if key != "layout" and not str(key).startswith("optimiser.")}


def _bytes(node: Any) -> bytes:
    if isinstance(node, dict):
        return f"{type(node).__name__} of {[*map(repr, _watched(node))]}".encode()
    if isinstance(node, list | tuple):
        return f"{type(node).__name__} of {len(node)}".encode()
    if isinstance(node, torch.Tensor):
        dense = node if node.layout == torch.strided else node.to_dense()
        return f"{node.layout}{node.dtype}{tuple(node.shape)}".encode() + _raw(dense)
    if isinstance(node, np.ndarray):
        return f"{node.dtype}{node.shape}".encode() + node.tobytes()
    if isinstance(node, torch.Generator):
        return _raw(node.get_state())
    if isinstance(node, np.random.Generator):
        return repr(node.bit_generator.state).encode()
    if isinstance(node, random.Random):
        return repr(node.getstate()).encode()
    if isinstance(node, set | frozenset):
        return repr(sorted(map(repr, node))).encode()
    if isinstance(node, NAMED):
        return getattr(node, "__qualname__", node.__name__).encode()
    if isinstance(node, LEAVES):
        return f"{type(node).__name__} {node!r}".encode()
    return type(node).__qualname__.encode()


def _raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()

"""Digests of everything that a value holds, entry by entry, to see later whether and where it has changed.

What fedsim derives from a graph and keeps with it (`layout`) is left out, and so is the optimiser's state in a memory,
which the trainer looks after.
"""

import hashlib
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

DEPTH = 40  # entries are looked into so deep

Prints = Mapping[str, bytes]


def of(value: Any) -> Prints:
    """Return the digest of each entry of a value by its path, such as "['model']['weight']"."""
    return dict(_walk(value, "", 0))


def changed(before: Prints, after: Prints) -> list[str]:
    """Return the paths whose entries differ, are new or are gone."""
    return [path for path in {**before, **after} if before.get(path) != after.get(path)]


def _walk(node: Any, path: str, depth: int) -> Iterator[tuple[str, bytes]]:
    if isinstance(node, dict) and depth < DEPTH:
        held = {key: value for key, value in node.items() if key != "layout" and not str(key).startswith("optimiser.")}
        yield path, _digest(f"{type(node).__name__} of {[*map(repr, held)]}".encode())
        for key, value in held.items():
            yield from _walk(value, f"{path}[{key!r}]", depth + 1)
    elif isinstance(node, list | tuple) and depth < DEPTH:
        yield path, _digest(f"{type(node).__name__} of {len(node)}".encode())
        for number, value in enumerate(node):
            yield from _walk(value, f"{path}[{number}]", depth + 1)
    else:
        yield path, _digest(_bytes(node, depth))


def _bytes(node: Any, depth: int) -> bytes:
    if isinstance(node, torch.Tensor):
        parts = [node]
        if node.layout == torch.sparse_csr:
            parts = [node.values(), node.col_indices(), node.crow_indices()]
        elif node.layout != torch.strided:
            parts = [node.to_dense()]
        return b"".join(f"{part.dtype}{tuple(part.shape)}".encode() + _raw(part) for part in parts)
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
    if isinstance(node, str | bytes | int | float | complex | None):
        return f"{type(node).__name__} {node!r}".encode()
    held = getattr(node, "__dict__", None)
    inner = b"".join(digest for _, digest in _walk(dict(held), "", depth + 1)) if held and depth < DEPTH else b""
    return type(node).__qualname__.encode() + inner


def _raw(tensor: torch.Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=12).digest()

"""The promise that what the server sends, and what it gets, can be written as bytes and is finite."""

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch

from fedsim.core import wire
from fedsim.trial.finding import Finding, broken
from fedsim.trial.trial import Trial

FITS = "send tensors, NumPy arrays, numbers, texts, bytes, None, and dicts (keys of type str), lists and tuples of them"


def check(trial: Trial) -> list[Finding]:
    """Encode every download and upload."""
    found: dict[str, Finding] = {}
    for work in trial.played.works:
        for name, method, tree in (("download", "download", work.job.download), ("upload", "work", work.upload)):
            if method not in found and (problem := unfit(tree)) is not None:
                path, why = problem
                message = f"the {name} of client {work.job.client}{path} cannot be sent: {why}"
                found[method] = broken(message, trial.method(method), FITS)
    return list(found.values())


def check_finite(trial: Trial) -> list[Finding]:
    """Look for the first value of an upload, a download or a state that is not finite."""
    played = trial.played
    if (path := infinite(played.first)) is not None:
        return [_not_finite(f"the first state{path}", trial.method("start"))]
    for fold in played.folds:
        for reply in fold.replies:
            whose = f"of client {reply.client} in step {fold.step!r} of round {fold.number + 1}"
            for name, method, tree in (("download", "download", reply.download), ("upload", "work", reply.upload)):
                if (path := infinite(tree)) is not None:
                    return [_not_finite(f"the {name}{path} {whose}", trial.method(method))]
        if (path := infinite(fold.state)) is not None:
            message = f"the state{path} after step {fold.step!r} of round {fold.number + 1}"
            return [_not_finite(message, trial.method("update"))]
    return []


def _not_finite(what: str, where: str) -> Finding:
    return broken(
        f"{what} holds a value that is not finite", where, "look for a division by zero, a log or a root of 0"
    )


def unfit(tree: Any, path: str = "") -> tuple[str, str] | None:
    """Return the path of the innermost entry that cannot be encoded, and why, or None where all can."""
    try:
        wire.encode(tree)
    except (ValueError, TypeError) as error:
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
            entries = tree.items()
        elif isinstance(tree, list | tuple):
            entries = enumerate(tree)
        inner = (unfit(value, f"{path}[{key!r}]") for key, value in entries)
        return next((one for one in inner if one is not None), (path, str(error)))
    return None


def infinite(tree: Any) -> str | None:
    """Return the path of an entry that is not finite, or None where there is none."""
    return next(_infinite(tree, ""), None)


def _infinite(node: Any, path: str) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            yield from _infinite(value, f"{path}[{key!r}]")
    elif isinstance(node, list | tuple):
        for number, value in enumerate(node):
            yield from _infinite(value, f"{path}[{number}]")
    elif isinstance(node, torch.Tensor):
        values = node.values() if node.layout == torch.sparse_csr else node
        if values.is_floating_point() and not bool(torch.isfinite(values).all()):
            yield path
    elif (isinstance(node, np.ndarray) and node.dtype.kind == "f" and not np.isfinite(node).all()) or (
        isinstance(node, float) and not math.isfinite(node)
    ):
        yield path

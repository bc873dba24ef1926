"""Compare an upload with what `upload_like` declared: which entries have another size, and where to look.

Two trees are compared as the wire sees them: by names, kinds, dtypes and shapes, never by values.
"""

from collections.abc import Iterator
from typing import Any

from fedsim.core import wire
from fedsim.core.wire import Tree
from fedsim.learn.algorithm import Algorithm, Job
from fedsim.scenario.parts import source

SHOWN = 3  # differences that a message lists


def mismatch(algorithm: Algorithm, job: Job, declared: Tree, sent: Tree) -> str:
    """Return the message for an upload that has another size than declared; it names both functions' lines."""
    return (
        f"upload_like promised {wire.size(declared)} bytes for step {job.step!r}, the upload of client {job.client} "
        f"has {wire.size(sent)}: {difference(declared, sent)}. Compare upload_like "
        f"({source.line_of(algorithm.upload_like)}) with what work returns ({source.line_of(algorithm.work)})"
    )


def difference(declared: Tree, sent: Tree) -> str:
    """Return in words which entries of the two trees differ in size, "" where none does."""
    found = [*_differences(declared, sent, "")]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def _differences(declared: Tree, sent: Tree, path: str) -> Iterator[str]:
    if isinstance(declared, dict) and isinstance(sent, dict):
        for key in [*declared, *(key for key in sent if key not in declared)]:
            place = f"{path}[{key!r}]"
            if key not in sent:
                yield f"{place} is declared ({shown(declared[key])}) and not sent"
            elif key not in declared:
                yield f"{place} is sent ({shown(sent[key])}) and not declared"
            else:
                yield from _differences(declared[key], sent[key], place)
    elif isinstance(declared, list | tuple) and isinstance(sent, list | tuple) and len(declared) == len(sent):
        for number, both in enumerate(zip(declared, sent, strict=True)):
            yield from _differences(*both, f"{path}[{number}]")
        if wire.size(type(declared)()) != wire.size(type(sent)()):
            yield f"{path or 'it'} is declared as {_article(declared)} and sent as {_article(sent)}"
    elif wire.size(declared) != wire.size(sent):
        yield f"{path or 'it'} is declared as {shown(declared)} and sent as {shown(sent)}"


def shown(value: Any) -> str:
    """Return in words what decides an entry's size on the wire."""
    count = wire.size(value) - wire.PREFIX
    nbytes = f"{count} byte{'s' * (count != 1)}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}, {nbytes}"
    if isinstance(value, dict | list | tuple):
        return f"{_article(value)} of {len(value)}, {nbytes}"
    return f"{'None' if value is None else _article(value)}, {nbytes}"


def _article(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"

"""Read a user's graph from two CSV tables: edges (source,target) and vertices (id, label, split, features).

Ids may be any texts; vertices are numbered in the order of their rows.  All columns of vertices except the id, the
label and the split are features, unless `features` names some or `ignore` leaves some out.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedsim.core.errors import UserError
from fedsim.core.table import Column, fault, read_lines
from fedsim.core.units import nearest
from fedsim.data.raw import MASKS, Raw, from_texts, masks_from_words, numbered

Lines = npt.NDArray[np.int64]


def from_tables(
    edges: Path, vertices: Path, id: str = "id", label: str | None = "label", features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> Raw:  # fmt: skip
    """Return the graph of the two tables; `label` None: vertices have none.

    Raises UserError, which names file, line, column and remedy.
    """
    columns = [Column(id, text=True)]
    columns += [Column(label, text=True, required=False)] if label else []
    columns += [Column("split", choices=MASKS, required=False)] if "split" not in ignore else []
    named = {column.name for column in columns}

    def other(name: str) -> Column:
        read = name not in ignore and (features is None or name in features)
        return Column(name) if read else Column(name, text=True, required=False)

    found, lines = read_lines(vertices, columns, other)
    if label and label not in found:
        remedy = "name the column of labels with `label:`, or write labelled: false"
        raise fault(vertices, 1, f"the column {label!r} is missing; {remedy}")
    own = [*features] if features is not None else [name for name in found if name not in named and name not in ignore]
    if lost := [name for name in own if name not in found]:
        raise fault(vertices, 1, f"there is no column {lost[0]!r}, which `features:` names")
    numbers = _numbers(vertices, id, found[id].tolist(), lines)
    return Raw(
        len(lines), _edges(edges, numbers, vertices, id, ignore),
        _labels(vertices, label, found[label].tolist(), lines) if label else np.full(len(lines), -1),
        _features(vertices, {name: found[name] for name in own}, lines),
        masks_from_words(found["split"]) if "split" in found and "split" not in ignore else {},
    )  # fmt: skip


def ids(vertices: Path, id: str = "id") -> list[str]:
    """Return the ids of a table of vertices, in the order of its rows."""
    found = read_lines(vertices, [Column(id, text=True)], lambda name: Column(name, text=True, required=False))[0]
    return [str(one) for one in found[id].tolist()]


def _numbers(path: Path, column: str, names: Sequence[str], lines: Lines) -> dict[str, int]:
    numbers = {name: number for number, name in enumerate(names)}
    if len(numbers) < len(names):
        first: dict[str, int] = {}
        for name, line in zip(names, lines.tolist(), strict=True):
            if name in first:
                raise fault(path, line, f"column {column!r}: {name!r} is in line {first[name]} too; keep one")
            first[name] = line
    return numbers


def _edges(
    path: Path, numbers: dict[str, int], vertices: Path, id: str, ignore: Sequence[str]
) -> npt.NDArray[np.int64]:
    columns = [Column(name, text=True) for name in ("source", "target")]
    columns += [Column(name, text=True, required=False) for name in ignore if name not in ("source", "target")]
    try:
        found, lines = read_lines(path, columns)
    except UserError as error:
        if "there is no column" in str(error):
            remedy = "edges have two ends and no weights; to leave a column out, list it under `ignore:`"
            raise UserError(f"{error} ({remedy})") from None
        raise
    ends = []
    for name in ("source", "target"):
        try:
            ends.append([numbers[end] for end in found[name].tolist()])
        except KeyError:
            at = next(at for at, end in enumerate(found[name].tolist()) if end not in numbers)
            end = str(found[name][at])
            near = nearest(end, [*numbers]) if len(numbers) < 10_000 else None
            mean = f"; did you mean {near!r}?" if near else "; add the vertex or remove the edge"
            message = f"column {name!r}: there is no vertex {end!r} in the column {id!r} of {vertices}{mean}"
            raise fault(path, int(lines[at]), message) from None
    return np.array(ends, dtype=np.int64)


def _labels(path: Path, column: str, cells: Sequence[str], lines: Lines) -> npt.NDArray[np.int64]:
    try:
        return numbered(from_texts(cells))
    except ValueError as error:
        at, message = error.args
        raise fault(path, int(lines[at]), f"column {column!r}: {message}") from None


def _features(path: Path, columns: dict[str, npt.NDArray[np.float64]], lines: Lines) -> npt.NDArray[np.float32] | None:
    if not columns:
        return None
    with np.errstate(over="ignore"):
        x = np.stack([*columns.values()], axis=1).astype(np.float32)
    if not np.isfinite(x).all():
        row, at = (int(place[0]) for place in np.nonzero(~np.isfinite(x)))
        name = [*columns][at]
        raise fault(
            path, int(lines[row]), f"column {name!r}: {columns[name][row]} is too large for a feature (float32)"
        )
    return x

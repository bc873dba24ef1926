"""Read a user's graph from two CSV tables: edges (source,target) and nodes (id, label, split, features).

Ids may be any texts; nodes are numbered in the order of their rows.  All columns of nodes except the id, the
label and the split are features, unless `features` names some or `ignore` leaves some out.

Other tables list nodes, such as those of a split (`masked`): a CSV file with a column `node`, ids where the
data set has ids (CSV, GraphML), else row numbers from 0 (`rows`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from fedsim.core.arrays import Floats, Ints
from fedsim.core.errors import UserError
from fedsim.core.table import Column, fault, read_lines
from fedsim.core.units import nearest
from fedsim.data.files.raw import Raw, as_features, from_texts, masks_from_words, numbered
from fedsim.data.graph import MASKS, Graph, with_keys


def from_tables(
    edges: Path, nodes: Path, id: str = "id", label: str | None = "label", features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
) -> Raw:  # fmt: skip
    """Return the graph of the two tables; `label` None: nodes have none.

    Raises UserError, which names file, line, column and remedy.
    """
    columns = [Column(id, text=True)]
    columns += [Column(label, text=True, required=False)] if label else []
    columns += [Column("split", choices=MASKS, required=False)] if "split" not in ignore else []
    named = {column.name for column in columns}

    def other(name: str) -> Column:
        read = name not in ignore and (features is None or name in features)
        return Column(name) if read else Column(name, text=True, required=False)

    cells, lines = read_lines(nodes, columns, other)
    if label and label not in cells:
        remedy = "name the column of labels with `label:`, or write labelled: false"
        raise fault(nodes, 1, f"the column {label!r} is missing; {remedy}")
    if features is None:
        features = [name for name in cells if name not in named and name not in ignore]
    if lost := [name for name in features if name not in cells]:
        raise fault(nodes, 1, f"there is no column {lost[0]!r}, which `features:` names")
    numbers = _numbers(nodes, id, cells[id].tolist(), lines)
    labels = labels_of(nodes, label, cells[label].tolist(), lines) if label else np.full(len(lines), -1)
    x = _features(nodes, {name: cells[name] for name in features}, lines)
    masks = masks_from_words(cells["split"]) if "split" in cells and "split" not in ignore else {}
    return Raw(len(lines), _edges(edges, numbers, nodes, id, ignore), labels, x, masks)


def ids(nodes: Path, id: str = "id") -> list[str]:
    """Return the ids of a table of nodes, in the order of its rows."""
    cells, _ = read_lines(nodes, [Column(id, text=True)], lambda name: Column(name, text=True, required=False))
    return list(map(str, cells[id].tolist()))


def _numbers(path: Path, column: str, names: Sequence[str], lines: Ints) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in numbers:
            first = lines[numbers[name]]
            raise fault(path, int(lines[number]), f"column {column!r}: {name!r} is in line {first} too; keep one")
        numbers[name] = number
    return numbers


def _edges(path: Path, numbers: dict[str, int], nodes: Path, id: str, ignore: Sequence[str]) -> Ints:
    columns = [Column(name, text=True) for name in ("source", "target")]
    columns += [Column(name, text=True, required=False) for name in ignore if name not in ("source", "target")]
    try:
        cells, lines = read_lines(path, columns)
    except UserError as error:
        if "there is no column" in str(error):
            remedy = "edges of tables have two ends and no weights; to leave a column out, list it under `ignore:`"
            raise UserError(f"{error} ({remedy})") from None
        raise
    ends = np.empty((2, len(lines)), dtype=np.int64)
    for side, name in enumerate(("source", "target")):
        for at, end in enumerate(cells[name].tolist()):
            if end not in numbers:
                near = nearest(end, [*numbers]) if len(numbers) < 10_000 else None
                mean = f"; did you mean {near!r}?" if near else "; add the node or remove the edge"
                message = f"column {name!r}: there is no node {end!r} in the column {id!r} of {nodes}{mean}"
                raise fault(path, int(lines[at]), message)
            ends[side, at] = numbers[end]
    return ends


def labels_of(path: Path, column: str, cells: Sequence[str], lines: Ints) -> Ints:
    """Return the class numbers of a column.  Raises UserError, with the line, for what is no label."""
    try:
        return numbered(from_texts(cells))
    except ValueError as error:
        at, message = error.args
        raise fault(path, int(lines[at]), f"column {column!r}: {message}") from None


def _features(path: Path, columns: dict[str, Floats], lines: Ints) -> npt.NDArray[np.float32] | None:
    if not columns:
        return None
    x, wrong = as_features(np.stack([*columns.values()], axis=1))
    if wrong:
        name = [*columns][wrong[1]]
        message = f"column {name!r}: {columns[name][wrong[0]]} is too large for a feature (float32)"
        raise fault(path, int(lines[wrong[0]]), message)
    return x


def rows(path: Path, cells: Sequence[str], lines: Ints, nodes: int, names: Sequence[str] | None) -> Ints:
    """Return the rows (n,) of these ids, `names` being the ids of all nodes; None: they are row numbers.

    Raises UserError, with the file and the line, for a node that does not exist.
    """
    numbers = {str(name): number for number, name in enumerate(range(nodes) if names is None else names)}
    for cell, line in zip(cells, lines.tolist(), strict=True):
        if cell not in numbers:
            kind = f"its nodes are the row numbers 0 … {nodes - 1}" if names is None else "it has no such id"
            message = f"column 'node': there is no node {cell!r} in the data set ({kind}); correct or remove the row"
            raise fault(path, line, message)
    return np.array([numbers[cell] for cell in cells], dtype=np.int64)


def masked(graph: Graph, tables: Mapping[str, Path], names: Sequence[str] | None) -> Graph:
    """Return a whole graph whose masks (N,) of these names are what the tables list; others are empty.

    Raises UserError, with the file and the line, for a node that does not exist or is listed twice.
    """
    n = len(graph["y"])
    masks = {name: torch.zeros(n, dtype=torch.bool) for name in MASKS}
    seen: dict[int, str] = {}
    for name, path in tables.items():
        columns, lines = read_lines(path, [Column("node", text=True)])
        cells = columns["node"].tolist()
        for cell, row, line in zip(cells, rows(path, cells, lines, n, names).tolist(), lines.tolist(), strict=True):
            if row in seen:
                raise fault(path, line, f"the node {str(cell)!r} is in {seen[row]} too; keep one")
            seen[row] = f"{path}, line {line},"
            masks[name][row] = True
    return with_keys(graph, masks)

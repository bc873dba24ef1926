"""Vertices that a table lists: their rows in the graph, and masks of splits that are given as tables of ids.

A table is a CSV file with a column `vertex`: ids where the data set has ids (CSV, GraphML), else row numbers from 0.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from fedsim.core.table import Column, fault, read_lines
from fedsim.data.graph import Graph, with_keys

Ints = npt.NDArray[np.int64]


def rows(path: Path, cells: Sequence[str], lines: Ints, vertices: int, names: Sequence[str] | None) -> Ints:
    """Return the rows (n,) of these ids, `names` being the ids of all vertices; None: they are row numbers.

    Raises UserError, with the file and the line, for a vertex that does not exist.
    """
    numbers = {str(number): number for number in range(vertices)} if names is None else {
        name: number for number, name in enumerate(names)
    }  # fmt: skip
    try:
        return np.array([numbers[cell] for cell in cells], dtype=np.int64)
    except KeyError:
        at = next(at for at, cell in enumerate(cells) if cell not in numbers)
        kind = f"its vertices are the row numbers 0 … {vertices - 1}" if names is None else "it has no such id"
        message = (
            f"column 'vertex': there is no vertex {cells[at]!r} in the data set ({kind}); correct or remove the row"
        )
        raise fault(path, int(lines[at]), message) from None


def masked(graph: Graph, tables: Mapping[str, Path], names: Sequence[str] | None) -> Graph:
    """Return a whole graph whose masks (N,) of these names are what the tables list; its other masks are empty.

    Raises UserError, with the file and the line, for a vertex that does not exist or is listed twice.
    """
    n = len(graph["y"])
    masks = {name: torch.zeros(n, dtype=torch.bool) for name in ("train", "val", "test")}
    seen: dict[int, str] = {}
    for name, path in tables.items():
        found, lines = read_lines(path, [Column("vertex", text=True)])
        cells = found["vertex"].tolist()
        for cell, row, line in zip(cells, rows(path, cells, lines, n, names).tolist(), lines.tolist(), strict=True):
            if row in seen:
                raise fault(path, line, f"the vertex {str(cell)!r} is in {seen[row]} too; keep one")
            seen[row] = f"{path}, line {line},"
            masks[name][row] = True
    return with_keys(graph, masks)

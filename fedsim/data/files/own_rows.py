"""Read a user's rows of data, which have no edges: arrays, and tables of typed columns.

Targets are classes, whole numbers or texts, or real numbers, one or several a row.  Where it is not said
which, numbers with a fraction are real targets and everything else is classes.  A column of a table is one of
numbers if any of its cells is a number, and one of categories otherwise, or where it is listed as such: these
become one column each, 1 where the row has that category, in their order (`numbered`).  Not modelled: dates,
missing values, and scaling; rows are used as they are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedsim.core.arrays import Array, Ints, Strings
from fedsim.core.errors import UserError
from fedsim.core.table import Column, fault, is_number, read_lines
from fedsim.core.units import did_you_mean
from fedsim.data.files.own_arrays import MASK_NAMES, Arrays, masks_of, refuse_unknown
from fedsim.data.files.own_tables import labels_of
from fedsim.data.files.raw import Raw, Targets, as_features, masks_from_words, numbered, targets_of
from fedsim.data.graph import MASKS

WANTED = "x (N, ...), a row an example, y (N,) or (N, T), and train, val, test (N,) where there are any"
NO_EDGES = np.zeros((2, 0), dtype=np.int64)


def of_arrays(where: Any, arrays: Arrays, targets: Targets | None = None) -> Raw:
    """Return the rows of these arrays.  Raises UserError, which names `where`, the array and a fix."""
    refuse_unknown(where, arrays, ("x", "y", *MASK_NAMES))
    for name in ("x", "y"):
        if name not in arrays or not np.ndim(arrays[name]):
            raise UserError(f"{where} lacks the array {name!r}; the arrays are {WANTED}")
    x = _features(where, arrays["x"])
    if not len(x):
        raise UserError(f"{where}: 'x' has no row; there must be one at least")
    labels, real = targets_of(where, arrays["y"], len(x), targets)
    return Raw(len(x), NO_EDGES, labels, x, masks_of(where, arrays, len(x)), real=real)


def _features(where: Any, array: Array) -> npt.NDArray[np.float32]:
    if array.dtype.kind == "U":
        raise UserError(f"{where}: 'x' holds texts; features are numbers")
    array = array[:, None] if array.ndim == 1 else array
    if not all(array.shape[1:]):
        raise UserError(f"{where}: 'x' has the shape {array.shape}, so that a row holds no number")
    x, wrong = as_features(array)
    if wrong:
        at = ", ".join(map(str, wrong[1:]))
        raise UserError(f"{where}: 'x' is {array[wrong]} at row {wrong[0]}, place {at}; features must be finite")
    return x


def of_table(
    path: Path, target: Sequence[str], categories: Sequence[str], ignore: Sequence[str], targets: Targets | None
) -> Raw:
    """Return the rows of a CSV table; `target` are the columns of the targets.

    Raises UserError, which names file, line, column and a fix.
    """
    cells, lines = read_lines(path, [], lambda name: Column(name, text=True, required=False))
    for option, name in [("target", name) for name in target] + [("categories", name) for name in categories]:
        if name not in cells:
            near = did_you_mean(name, cells)
            raise fault(path, 1, f"there is no column {name!r}; name the column by `{option}:`{near}")
    real = targets == "real" or len(target) > 1 or (targets is None and _has_fractions(cells[target[0]]))
    others = [name for name in cells if name not in (*target, *ignore, "split")]
    if not others:
        raise fault(path, 1, "there is no column of features beside those of targets; add one")
    texts = {name for name in others if name in categories or not any(map(is_number, cells[name].tolist()))}
    columns = [Column(name, text=name in texts) for name in others]
    columns += [Column(name, text=not real) for name in target]
    masked = "split" in cells and "split" not in ignore
    columns += [Column("split", choices=MASKS, required=False)] if masked else []
    try:
        typed, _ = read_lines(path, columns, lambda name: Column(name, text=True, required=False))
    except UserError as error:
        remedy = "; a column of categories is listed under `categories:`" if "not a number" in str(error) else ""
        raise UserError(f"{error}{remedy}") from None
    x = _columns(path, {name: typed[name] for name in others}, texts, lines)
    masks = masks_from_words(typed["split"]) if masked else {}
    if not real:
        labels = labels_of(path, target[0], typed[target[0]].tolist(), lines)
        return Raw(len(lines), NO_EDGES, labels, x, masks)
    wanted = _columns(path, {name: typed[name] for name in target}, set(), lines)
    return Raw(len(lines), NO_EDGES, np.zeros(len(lines), dtype=np.int64), x, masks, real=wanted)


def _has_fractions(cells: Strings) -> bool:
    return all(map(is_number, cells.tolist())) and any(not float(cell).is_integer() for cell in cells.tolist())


def _columns(path: Path, columns: dict[str, Array], texts: set[str], lines: Ints) -> npt.NDArray[np.float32]:
    """Return columns side by side (N, F), of texts one for each category."""
    parts = []
    for name, cells in columns.items():
        if name in texts:
            number = numbered(cells)
            parts.append(np.eye(number.max() + 1, dtype=np.float32)[number])
            continue
        x, wrong = as_features(cells[:, None])
        if wrong:
            raise fault(path, int(lines[wrong[0]]), f"column {name!r}: {cells[wrong[0]]} is too large (float32)")
        parts.append(x)
    return np.concatenate(parts, axis=1)

"""The tables of the reference page: a row a cell, and a row a scoring.

They are kept in `docs/reference/`, so that a machine goes on where another has stopped, and the page can be made anew
from them alone.  A cell is `done` (or `stalled`: nothing more could happen before its budgets were used up), or
`failed`, without a course.
"""

import hashlib
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import frontier
from analysis.stored import tables
from fedsim.core.whole_files import replace
from fedsim.point import stamp
from fedsim.point.stamp import Stamp
from fedsim.reference.cell import Cell

CELLS, COURSES = "cells.csv", "courses.parquet"
COLUMNS = [
    "cell", "deployment", "data", "task", "method", "protocol", "links", "seed", "status", "point", "stamp",
    "seconds", "bytes", "updates", "score", "real_seconds",
]  # fmt: skip
COURSE = ["cell", "seconds", "bytes", "score"]


@dataclass(frozen=True)
class Results:
    """`cells` has the columns COLUMNS: `seconds` simulated and `bytes` moved by the end, the last `score` (fraction),
    `real_seconds` on one core; `stamp` is a digest of the sources that it was made from.

    `courses` has COURSE: a row a scoring, with the seconds and bytes until then, in order of time.  The model that
    nobody has trained is left out: a run whose budget allowed no update has no rows, and no score (NaN).
    """

    cells: pd.DataFrame
    courses: pd.DataFrame

    def with_rows(self, cells: Sequence[Mapping[str, Any]], courses: Iterable[pd.DataFrame]) -> "Results":
        """Return the results with these cells in place of those of the same names."""
        new, kept = frame([*cells]), self.without(cell["cell"] for cell in cells)
        return Results(_joined([kept.cells, new]), _joined([kept.courses, *courses]))

    def without(self, names: Iterable[str]) -> "Results":
        """Return the results without the cells of these names."""
        gone = {*names}
        return Results(*(table[~table["cell"].isin(gone)] for table in (self.cells, self.courses)))


def read(folder: Path) -> Results:
    """Return the results in a folder, empty where it has none."""
    if not (folder / CELLS).is_file():
        return Results(pd.DataFrame(columns=COLUMNS), pd.DataFrame(columns=COURSE))
    return Results(pd.read_csv(folder / CELLS, dtype={"stamp": str, "point": str}), pd.read_parquet(folder / COURSES))


def write(results: Results, folder: Path, order: Iterable[str] = ()) -> None:
    """Write the results whole, cells in this order and all others after them."""
    ranks = {name: rank for rank, name in enumerate(order)}
    last = len(ranks)
    cells, courses = (
        table.assign(rank=[ranks.get(name, last) for name in table["cell"]])
        .sort_values("rank", kind="stable")
        .drop(columns="rank")
        for table in (results.cells, results.courses)
    )
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".{COURSES}.partial"
    courses.reset_index(drop=True).to_parquet(hidden, compression="zstd")
    hidden.replace(folder / COURSES)
    text = io.StringIO()
    cells.to_csv(text, index=False, lineterminator="\n")
    replace(folder / CELLS, text.getvalue())


def row(cell: Cell, point: str, folder: Path, ended: Mapping[str, Any]) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a cell's row and course from its point's folder; `ended` is the point's own row."""
    found = tables(folder)
    scores, transfers = found["scores"], found["transfers"]
    course = frontier.curve(scores, transfers, "global")
    course = course[course["version"] > 0].rename(columns={"time": "seconds", "moved": "bytes"})
    course = course.assign(cell=str(cell))[COURSE]
    made = {
        **cell.row, "cell": str(cell), "point": point, "stamp": digest(stamp.read(folder / "stamp.json")),
        "status": ended.get("status") or "done", "seconds": ended["sim_seconds"],
        "bytes": int(transfers["wire_bytes"].sum()), "updates": _number(ended["updates"]),
        "score": float(course["score"].iloc[-1]) if len(course) else math.nan, "real_seconds": ended["real_seconds"],
    }  # fmt: skip
    return made, course.astype({"bytes": "float64"})


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)  # a run without an update has no number of them


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a frame with the columns COLUMNS."""
    return pd.DataFrame([*rows], columns=COLUMNS)


def failed(cell: Cell, point: str) -> dict[str, Any]:
    """Return the row of a cell whose point has failed."""
    return {**cell.row, "cell": str(cell), "point": point, "status": "failed"}


def digest(made: Stamp | None) -> str:
    """Return a digest of what the sources of a stamp mean; comments and versions of libraries do not count."""
    meanings = {name: marks[-1] for name, marks in sorted(made.modules.items())} if made else {}
    return hashlib.sha256(json.dumps(meanings).encode()).hexdigest()[:12]


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    return pd.concat(full, ignore_index=True) if full else frames[0]

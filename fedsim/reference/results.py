"""The tables of the reference page: a row a cell, and a row a scoring.

They are kept in `docs/reference/`, so that a machine goes on where another has stopped, and the page can be made anew
from them alone.  A cell is `done` (or `stalled`: nothing more could happen before its budgets were used up), or
`failed`, without a course.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.measures import frontier
from analysis.read.stored import tables
from fedsim.core.amounts import duration
from fedsim.core.whole_files import replace
from fedsim.point.results import stamp
from fedsim.point.results.stamp import Stamp
from fedsim.reference.cell import Cell, SettingKey
from fedsim.reference.plan import Plan

CELLS, COURSES = "cells.csv", "courses.parquet"
COLUMNS = [
    "cell", "deployment", "data", "task", "method", "protocol", "links", "seed", "status", "run", "stamp",
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
    return Results(pd.read_csv(folder / CELLS, dtype={"stamp": str, "run": str}), pd.read_parquet(folder / COURSES))


def write(results: Results, folder: Path, order: Iterable[str] = ()) -> None:
    """Write the results whole, cells in this order and all others after them."""
    ranks = {name: rank for rank, name in enumerate(order)}

    def rank(names: pd.Series) -> pd.Series:
        return names.map(ranks).fillna(len(ranks))

    cells, courses = (table.sort_values("cell", key=rank, kind="stable") for table in (results.cells, results.courses))
    folder.mkdir(parents=True, exist_ok=True)
    replace(folder / COURSES, courses.reset_index(drop=True).to_parquet(compression="zstd"))
    replace(folder / CELLS, cells.to_csv(index=False, lineterminator="\n"))


def row(cell: Cell, point: str, folder: Path, ended: Mapping[str, Any]) -> tuple[dict[str, Any], pd.DataFrame]:
    """Return a cell's row and course from its point's folder; `ended` is the point's own row."""
    stored = tables(folder)
    scores, transfers = stored["scores"], stored["transfers"]
    course = frontier.curve(scores, transfers, "global")
    course = course[course["version"] > 0].rename(columns={"time": "seconds", "moved": "bytes"})
    course = course.assign(cell=str(cell))[COURSE]
    updates: float | None = ended["updates"]  # of a run without any there is no number
    summary = {
        **cell.row, "cell": str(cell), "run": point, "stamp": digest(stamp.read(folder / "stamp.json")),
        "status": ended.get("status") or "done", "seconds": ended["sim_seconds"],
        "bytes": int(transfers["wire_bytes"].sum()), "updates": math.nan if updates is None else float(updates),
        "score": float(course["score"].iloc[-1]) if len(course) else math.nan, "real_seconds": ended["real_seconds"],
    }  # fmt: skip
    return summary, course.astype({"bytes": "float64"})


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows as a frame with the columns COLUMNS."""
    return pd.DataFrame([*rows], columns=COLUMNS)


def failed(cell: Cell, point: str) -> dict[str, Any]:
    """Return the row of a cell whose point has failed."""
    return {**cell.row, "cell": str(cell), "run": point, "status": "failed"}


def digest(sources: Stamp | None) -> str:
    """Return a digest of what the sources of a stamp mean; comments and versions of libraries do not count."""
    hashes = dict(sorted(sources.modules.items())) if sources else {}
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:12]


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    full = [frame for frame in frames if len(frame)]
    return pd.concat(full, ignore_index=True) if full else frames[0]


@dataclass(frozen=True)
class Spent:
    """A setting's cells: how many are done, failed and left, and their seconds on one core."""

    name: str
    done: int
    failed: int
    left: int
    seconds: float


def by_setting(plan: Plan, known: Results) -> list[Spent]:
    """Return what each setting has taken, in the plan's order."""
    groups: dict[SettingKey, list[Cell]] = {}
    for cell in plan.cells():
        groups.setdefault(cell.setting, []).append(cell)
    return [_spent(str(key), cells, known.cells) for key, cells in groups.items()]


def _spent(name: str, cells: Sequence[Cell], known: pd.DataFrame) -> Spent:
    rows = known[known["cell"].isin([str(cell) for cell in cells])]
    done = rows[rows["status"] != "failed"]
    return Spent(name, len(done), len(rows) - len(done), len(cells) - len(done), float(done["real_seconds"].sum()))


def summary(plan: Plan, known: Results) -> str:
    """Return a paragraph: how many cells there are, how long they took, how many failed."""
    parts = by_setting(plan, known)
    done, left, failed = (sum(getattr(part, name) for part in parts) for name in ("done", "left", "failed"))
    text = f"{done:,} cells took {sum(part.seconds for part in parts) / 3600:.1f} core-hours."
    text += f" {left:,} cells of the plan are still to be run." if left else ""
    return text + (f" {failed} failed." if failed else "")


def lines(parts: Sequence[Spent]) -> Iterator[list[str]]:
    """Yield the rows of a table: setting, done, failed, left, core time spent."""
    for part in parts:
        yield [part.name, str(part.done), str(part.failed), str(part.left), duration(part.seconds)]

"""The tables of the reference page: a row a cell, and a row a scoring.

They are kept in `docs/reference/`, so that a machine goes on where another has stopped, and the page can be made anew
from them alone.  A cell is `done` (or `stalled`: nothing more could happen before its budgets were used up), or
`failed`, without a course.  What cells have taken tells how long the rest of a plan will take.
"""

import hashlib
import io
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
ALIKE = (["method", "task", "data", "links"], ["method", "task", "links"], ["method", "links"], ["links"])
CORES = 2  # of the machine for which times are estimated


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
    hidden = folder / f".{COURSES}.partial"
    courses.reset_index(drop=True).to_parquet(hidden, compression="zstd")
    hidden.replace(folder / COURSES)
    text = io.StringIO()
    cells.to_csv(text, index=False, lineterminator="\n")
    replace(folder / CELLS, text.getvalue())


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
    """A setting's cells: how many are done, failed and left, and their seconds on one core.

    `ahead` is an estimate for those left; NaN without any similar cell.
    """

    name: str
    done: int
    failed: int
    left: int
    seconds: float
    ahead: float


def by_setting(plan: Plan, known: Results) -> list[Spent]:
    """Return what each setting has taken, in the plan's order, and what its rest will."""
    groups: dict[SettingKey, list[Cell]] = {}
    for cell in plan.cells():
        groups.setdefault(cell.setting, []).append(cell)
    return [_spent(str(key), cells, known.cells) for key, cells in groups.items()]


def _spent(name: str, cells: Sequence[Cell], known: pd.DataFrame) -> Spent:
    rows = known[known["cell"].isin([str(cell) for cell in cells])]
    done, all_done = (table[table["status"] != "failed"] for table in (rows, known))
    left = [cell for cell in cells if str(cell) not in {*done["cell"]}]
    ahead = sum(estimate(cell, all_done) for cell in left)
    return Spent(name, len(done), len(rows) - len(done), len(left), float(done["real_seconds"].sum()), ahead)


def estimate(cell: Cell, done: pd.DataFrame) -> float:
    """Return the seconds of a cell on one core: the mean of the cells most like it, NaN without any.

    Cells of the same method, task, data and links come first, then those of other data, and so on.
    """
    for keys in ALIKE:
        alike = done.loc[(done[keys] == [cell.row[key] for key in keys]).all(axis=1), "real_seconds"]
        if len(alike):
            return float(alike.mean())
    return float(done["real_seconds"].mean())


def summary(plan: Plan, known: Results) -> str:
    """Return a paragraph: how many cells there are, how long they took, how many failed."""
    parts = by_setting(plan, known)
    done, left, failed = (sum(getattr(part, name) for part in parts) for name in ("done", "left", "failed"))
    seconds = sum(part.seconds for part in parts)
    text = f"{done:,} cells took {seconds / 3600:.1f} core-hours, {seconds / CORES / 3600:.1f} hours on two cores."
    if left:
        ahead = sum(part.ahead for part in parts if part.left)
        text += f" {left:,} cells of the plan are still to be run, about {ahead / CORES / 3600:.1f} hours on two cores."
    return text + (f" {failed} failed." if failed else "")


def lines(parts: Sequence[Spent]) -> Iterator[list[str]]:
    """Yield the rows of a table: setting, done, failed, left, core time spent and ahead."""
    for part in parts:
        ahead = duration(part.ahead) if part.left and part.ahead == part.ahead else "unknown" if part.left else ""
        yield [part.name, str(part.done), str(part.failed), str(part.left), duration(part.seconds), ahead]

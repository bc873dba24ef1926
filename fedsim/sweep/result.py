"""The result of a sweep, for Python and notebooks: its points and tables as data frames, a chart and a summary.

It reads the sweep's folder; only the rows of `summary.csv` are kept in memory.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.axes import is_replicate, short
from analysis.load import COSTS, NUMBERS
from analysis.quantity import BYTES, MISSING, SECONDS, show
from analysis.stored import TABLES
from fedsim.core.errors import UserError

SAVED = re.compile(r"\binline_[0-9a-f]{10}\.")  # see fedsim.sweep.objects
MOST = 20  # conditions in the table of a notebook
FIGURES = {"score": None, "sim_seconds": SECONDS, "bytes_up": BYTES, "bytes_down": BYTES}
TITLES = {"score": "score", "sim_seconds": "simulated", "bytes_up": "up", "bytes_down": "down"}


@dataclass(frozen=True, repr=False)
class Result:
    """A sweep's folder, and its points: one row each with id, status, axes, seed and the columns of summary.csv."""

    folder: Path
    points: pd.DataFrame
    axes: tuple[str, ...]

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of all points that have results, with their axes, seed and id as the first columns.

        Its columns and their units are those of fedsim/core/record.py.  Raises KeyError for an unknown name.
        """
        if name not in TABLES:
            raise KeyError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        heads = ["point", *dict.fromkeys([*self.axes, "seed"])]
        ended = self.points.loc[self.points["status"] != "failed", heads]
        parts = [
            pd.read_parquet(self.folder / str(row["point"]) / f"{name}.parquet").assign(**{h: row[h] for h in heads})
            for _, row in ended.iterrows()
        ]
        whole = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=heads)
        return whole[[*heads, *(column for column in whole.columns if column not in heads)]]

    @property
    def scores(self) -> pd.DataFrame:
        """All scores, by simulated time, update, client, period, model, split and metric."""
        return self.table("scores")

    @property
    def updates(self) -> pd.DataFrame:
        """The server's updates: how many were asked, aggregated, lost and late."""
        return self.table("updates")

    @property
    def transfers(self) -> pd.DataFrame:
        """Every message: when, from whom to whom, its bytes and its fate."""
        return self.table("transfers")

    @property
    def spans(self) -> pd.DataFrame:
        """What each client did from when to when."""
        return self.table("spans")

    @property
    def conditions(self) -> list[str]:
        """The axes other than seeds."""
        return [axis for axis in self.axes if not is_replicate(axis)]

    def labels(self, axis: str) -> dict[Any, str]:
        """Return how to show each value of an axis: saved classes by the name of the class alone, if that is unique."""
        values = [*dict.fromkeys(self.points[axis])]
        bare = [SAVED.sub("", str(value)) for value in values]
        return dict(zip(values, bare if len({*bare}) == len(values) else map(str, values), strict=True))

    def plot(self, over: str = "time", *, metric: str | None = None, split: str = "test") -> Any:
        """Return an Altair chart of the score over simulated "time", or over the "bytes" moved so far.

        A line is a point; its colour is the algorithm, or else what is varied, and other axes make panels.  Notebooks
        show it; `.save("scores.html")` writes it.  `metric` defaults to the first one measured.
        Raises UserError if there are no such scores.
        """
        from fedsim.sweep.plot import chart

        return chart(self, over, metric, split)

    def report(self, out: Path | str | None = None) -> Path:
        """Write report.html, figures and tables, into the sweep's `report` folder or into `out`; return the page.

        Raises UserError if no point has results or the folder cannot be written.
        """
        return write_report(self.folder, self.folder / "report" if out is None else Path(out))

    def summary(self) -> pd.DataFrame:
        """Return one row per condition: the number of seeds that have ended, and means of their scores and costs."""
        ended = self.points[self.points["status"] != "failed"]
        means = [name for name in FIGURES if name in ended.columns and ended[name].notna().any()]
        numbers = ended.assign(**{name: pd.to_numeric(ended[name]) for name in means})
        if not self.conditions:
            return pd.DataFrame([{"seeds": len(ended), **numbers[means].mean()}] if len(ended) else [])
        groups = numbers.groupby(self.conditions, sort=False, dropna=False)
        return groups[means].mean().assign(seeds=groups.size()).reset_index()[[*self.conditions, "seeds", *means]]

    def __repr__(self) -> str:
        count, failed = len(self.points), int((self.points["status"] == "failed").sum())
        lines = [f"Result: {count} point{'s' * (count != 1)}{f', {failed} failed' if failed else ''}, in {self.folder}"]
        whole = self.summary()
        if "score" in whole.columns and whole["score"].notna().any():
            best = whole.iloc[int(np.nanargmax(whole["score"].to_numpy(float)))]
            where = ", ".join(f"{short(axis)} {self.labels(axis)[best[axis]]}" for axis in self.conditions)
            seeds = f" (mean of {int(best['seeds'])} seeds)" if best["seeds"] > 1 else ""
            lines.append(
                f"  {'highest ' if len(whole) > 1 else ''}score {best['score']:.3f}{seeds}{where and f': {where}'}"
            )
        return "\n".join([*lines, "  points, scores, updates, transfers, spans; plot(), report()"])

    def _repr_html_(self) -> str:
        whole = self.summary()
        heads = [
            *(short(axis) for axis in self.conditions),
            "seeds",
            *(TITLES[name] for name in whole if name in TITLES),
        ]
        rows = [
            [*(self.labels(axis)[row[axis]] for axis in self.conditions), str(int(row["seeds"])), *_figures(row)]
            for _, row in whole.head(MOST).iterrows()
        ]
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        more = f"<p>and {len(whole) - MOST} more in <code>points</code></p>" if len(whole) > MOST else ""
        first, *_ = repr(self).splitlines()
        return f"<p>{escape(first)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def result_of(folder: Path, rows: Sequence[Mapping[str, Any]], axes: Sequence[str]) -> Result:
    """Return the result of these rows of a summary; numbers that no point has are NaN, as those that some lack."""
    points = pd.DataFrame(rows)
    empty = [name for name in (*NUMBERS, *COSTS) if name in points and points[name].isna().all()]
    return Result(folder, points.astype(dict.fromkeys(empty, "float64")), tuple(axes))


def write_report(run: Path, out: Path) -> Path:
    """Write the report of a run's folder into `out` and return the page.

    Raises UserError if no point has results or the folder cannot be written.
    """
    from analysis import report, stored, terminal

    try:
        with terminal.working() as say:
            return report.write([run], out, say)
    except (stored.NotARunError, OSError) as error:
        raise UserError(f"finished points are kept, but the report could not be written: {error}") from None


def _figures(row: "pd.Series[Any]") -> list[str]:
    figures = []
    for name, units in FIGURES.items():
        if name in row.index:
            value = float(row[name])
            plain = MISSING if math.isnan(value) else f"{value:.3f}"
            figures.append(plain if units is None else show(value, units))
    return figures

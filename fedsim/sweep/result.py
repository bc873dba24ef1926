"""What `simulate` returns, for Python and notebooks: runs and tables as data frames, a chart and a summary.

It reads the folder of results; only the rows of `summary.csv` are kept in memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.axes import is_replicate, ordered, short
from analysis.measures.frontier import curve
from analysis.quantity import BYTES, MISSING, SECONDS, show
from analysis.read.load import COSTS, NUMBERS
from analysis.read.methods import without_digests
from analysis.read.stored import POINTS, TABLES
from fedsim.core.errors import UserError

MOST = 20  # conditions in the table of a notebook
FIGURES = {"score": None, "sim_seconds": SECONDS, "bytes_up": BYTES, "bytes_down": BYTES}
TITLES = {"score": "score", "sim_seconds": "simulated", "bytes_up": "up", "bytes_down": "down"}


@dataclass(frozen=True, repr=False)
class Result:
    """A folder of results, and its runs: one row each, with the columns of summary.csv.

    `near` are the folders of the user's own modules, beside those that Python knows.
    """

    folder: Path
    runs: pd.DataFrame
    axes: tuple[str, ...]
    near: tuple[Path, ...] = ()

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of all runs that have results, with their folder, axes and seed as the first columns.

        Its columns and their units are those of fedsim/core/record.py.  Raises KeyError for an unknown name.
        """
        if name not in TABLES:
            raise KeyError(f"there is no table {name!r}; there are {', '.join(TABLES)}")
        heads = ["run", *dict.fromkeys([*self.axes, "seed"])]
        ended = self.runs.loc[self.runs["status"] != "failed", heads]
        parts = [
            pd.read_parquet(self.folder / POINTS / row["run"] / f"{name}.parquet").assign(**{h: row[h] for h in heads})
            for _, row in ended.iterrows()
        ]
        table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=heads)
        return table[[*heads, *(column for column in table.columns if column not in heads)]]

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
        values = [*dict.fromkeys(self.runs[axis])]
        return dict(zip(values, without_digests(pd.Series([*map(str, values)], dtype="str")), strict=True))

    def plot(self, over: str = "time", *, metric: str | None = None, split: str = "test") -> Any:
        """Return an Altair chart of the score over simulated "time", or over the "bytes" moved so far.

        A line is a run; its colour is the algorithm, or else what is varied, and other axes make panels.  Notebooks
        show it; `.save("scores.html")` writes it.  `metric` defaults to the first one measured.
        Raises UserError if there are no such scores.
        """
        from fedsim.sweep.plot import chart

        scores = self.scores
        if not len(scores):
            raise UserError(f"plot: nothing was scored in {self.folder}; nothing was learned, or no run has ended")
        metric = metric or str(scores["metric"].iloc[0])
        for column, name in (("metric", metric), ("split", split)):
            if name not in {*scores[column]}:
                known = ", ".join(ordered(scores[column].astype(str)))
                raise UserError(f"plot: there are no scores of the {column} {name!r}; there are {known}")
        several = ", mean over the periods met so far" if scores["period"].nunique() > 1 else ""
        return chart(self._curves(scores, metric, split), over, f"{metric}{several}")

    def _curves(self, scores: pd.DataFrame, metric: str, split: str) -> pd.DataFrame:
        """Return the curve of each run, with its seed, the label that colours it, and that of its panel."""
        transfers, axes = self.transfers, self.conditions
        model = "global" if "global" in {*scores["model"]} else str(scores["model"].iloc[0])
        colour = [axis for axis in axes if axis == "algorithm"] or axes
        labels = {axis: self.labels(axis) for axis in axes}
        curves = []
        for _, row in self.runs[self.runs["status"] != "failed"].iterrows():
            scored, sent = (table[table["run"] == row["run"]] for table in (scores, transfers))
            texts = {
                axis: ("" if axis == "algorithm" else f"{short(axis)} ") + labels[axis][row[axis]] for axis in axes
            }
            curves.append(
                curve(scored, sent, model, metric, split).assign(
                    run=row["run"],
                    seed=int(row["seed"]),
                    line=", ".join(texts[axis] for axis in colour) or "score",
                    panel=", ".join(texts[axis] for axis in axes if axis not in colour),
                )
            )
        return pd.concat(curves, ignore_index=True)

    def report(self, out: Path | str | None = None) -> Path:
        """Write report.html, figures and tables into the results' folder `report`, or into `out`; return the page.

        Raises UserError if no run has results or the folder cannot be written.
        """
        return write_report(self.folder, self.folder / "report" if out is None else Path(out))

    def module(self, run: str | None = None, client: int | None = None) -> Any:
        """Return the torch module of a run in evaluation mode, with the weights at the run's end.

        They are there with `measure: {keep: weights}`.  `run` is its name in the column `run`, which the only run needs
        not; `client` chooses one where each client has a model of its own.  Raises UserError for what is missing.
        """
        from fedsim.sweep import kept

        names = [*self.runs["run"]]
        if run is None and len(names) > 1:
            raise UserError(f"module: there are {len(names)} runs; name one of the column 'run', such as {names[0]!r}")
        if run is not None and run not in names:
            raise UserError(f"module: there is no run {run!r}; the column 'run' has their names")
        return kept.module(self.folder, names[0] if run is None else run, client, self.near)

    def summary(self) -> pd.DataFrame:
        """Return one row per condition: the number of seeds that have ended, and means of their scores and costs."""
        ended = self.runs[self.runs["status"] != "failed"]
        means = [name for name in FIGURES if name in ended.columns and ended[name].notna().any()]
        numbers = ended.assign(**{name: pd.to_numeric(ended[name]) for name in means})
        if not self.conditions:
            return pd.DataFrame([{"seeds": len(ended), **numbers[means].mean()}] if len(ended) else [])
        groups = numbers.groupby(self.conditions, sort=False, dropna=False)
        return groups[means].mean().assign(seeds=groups.size()).reset_index()[[*self.conditions, "seeds", *means]]

    def __repr__(self) -> str:
        count, failed = len(self.runs), int((self.runs["status"] == "failed").sum())
        lines = [f"Result: {count} run{'s' * (count != 1)}{f', {failed} failed' if failed else ''}, in {self.folder}"]
        summary = self.summary()
        if "score" in summary.columns and summary["score"].notna().any():
            best = summary.iloc[int(np.nanargmax(summary["score"].to_numpy(float)))]
            where = ", ".join(f"{short(axis)} {self.labels(axis)[best[axis]]}" for axis in self.conditions)
            seeds = f" (mean of {int(best['seeds'])} seeds)" if best["seeds"] > 1 else ""
            lines.append(
                f"  {'highest ' if len(summary) > 1 else ''}score {best['score']:.3f}{seeds}{where and f': {where}'}"
            )
        return "\n".join([*lines, "  runs, scores, updates, transfers, spans; plot(), report()"])

    def _repr_html_(self) -> str:
        summary = self.summary()
        rows = summary.head(MOST)
        columns = [rows[axis].map(self.labels(axis)).rename(short(axis)) for axis in self.conditions]
        columns += [rows["seeds"].astype(int)] if len(rows) else []
        columns += [_figures(rows[name]) for name in FIGURES if name in rows]
        with pd.option_context("display.max_colwidth", None):
            table = pd.concat(columns, axis=1).to_html(index=False, border=0) if columns else ""
        more = f"<p>and {len(summary) - MOST} more in <code>runs</code></p>" if len(summary) > MOST else ""
        first, *_ = repr(self).splitlines()
        return f"<p>{escape(first)}</p>{table}{more}"


def result_of(
    folder: Path, rows: Sequence[Mapping[str, Any]], axes: Sequence[str], near: Sequence[Path] = ()
) -> Result:
    """Return the result of these rows of a summary; numbers that no run has are NaN, as those that some lack."""
    runs = pd.DataFrame(rows)
    empty = [name for name in (*NUMBERS, *COSTS) if name in runs and runs[name].isna().all()]
    return Result(folder, runs.astype(dict.fromkeys(empty, "float64")), tuple(axes), tuple(near))


def write_report(results: Path, out: Path) -> Path:
    """Write the report of a folder of results into `out` and return the page.

    Raises UserError if no run has results or the folder cannot be written.
    """
    from analysis import terminal
    from analysis.read import stored
    from analysis.report.write import write

    try:
        with terminal.working() as say:
            return write([results], out, say)
    except (stored.NotARunError, OSError) as error:
        raise UserError(f"finished runs are kept, but the report could not be written: {error}") from None


def _figures(values: "pd.Series[Any]") -> "pd.Series[Any]":
    """Return a column of the summary as texts, under its title."""
    name = str(values.name)
    units = FIGURES[name]
    form = "{:.3f}".format if units is None else partial(show, units=units)
    return values.map(form, na_action="ignore").fillna(MISSING).rename(TITLES[name])

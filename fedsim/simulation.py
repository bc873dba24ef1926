"""A sweep from Python: `simulate` does what the command line does and returns the tables as data frames.

    from fedsim import simulate

    result = simulate("scenarios/sparse_clients.yaml", clients__count=20, grid__seed=[0, 1])
    result.points.groupby("algorithm")["score"].mean()

It keeps the same folder as the command line, so that either goes on with what the other has finished.  It returns
when all points have ended; a sweep in the background is for the caller's own threads.
"""

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from fedsim import check, scenario_file, stamp, yaml_text
from fedsim.display import Display
from fedsim.engines.local import Local
from fedsim.errors import ScenarioError, UserError
from fedsim.run import run
from fedsim.scenario import Scenario
from fedsim.scenario_file import Document
from fedsim.sweep import TABLES, Row, Sweep


@dataclass(frozen=True)
class Result:
    """A sweep's folder, and its points: a row each with id, status, axes, seed and the columns of summary.csv."""

    folder: Path
    points: pd.DataFrame
    axes: tuple[str, ...]

    def table(self, name: str) -> pd.DataFrame:
        """Return a table of all points that have results, their axes, seed and id in front of its own columns.

        Its columns and their units are those of fedsim/record.py.  Raises KeyError for a name that is no table's.
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
        """The server's updates: who was asked, folded, lost and late."""
        return self.table("updates")

    @property
    def transfers(self) -> pd.DataFrame:
        """Every message: when, from whom to whom, its bytes and its fate."""
        return self.table("transfers")

    @property
    def spans(self) -> pd.DataFrame:
        """What each client did from when to when."""
        return self.table("spans")

    def report(self, out: Path | str | None = None) -> Path:
        """Write report.html, figures and tables, into the sweep's `report` folder or into `out`; return the page.

        Raises UserError where no point has results or the folder cannot be written.
        """
        return write_report(self.folder, self.folder / "report" if out is None else Path(out))

    def _repr_html_(self) -> str:
        known = self.points.dropna(axis=1, how="all")
        return str(known.to_html(index=False, max_rows=20))


def simulate(
    scenario: Path | str | Mapping[str, Any] | Scenario,
    *,
    out: Path | str | None = None,
    data: Path | str | None = None,
    jobs: int = 1,
    fresh: bool = False,
    progress: bool = True,
    **overrides: Any,
) -> Result:
    """Run every point of a scenario that has not finished yet, and return what came of all.

    `scenario`: a YAML file's path, the same as a mapping, or a `Scenario`.  `overrides` set its keys, "__" standing
    for the dot: `clients__count=20`, `grid__seed=[0, 1]`.  `out`: the folder of the results (runs/NAME).  `data`: that
    of data sets ($FEDSIM_DATA, or ~/.cache/fedsim).  `jobs`: processes; 1 is this one, and a script that wants more
    must begin under `if __name__ == "__main__":`.  `fresh` removes earlier results of this scenario first.

    Raises UserError for a mistake in what was given, before anything is written, and where a file that decides results
    was edited after this Python has imported it.  Points that fail are warned of;
    their status is "failed", and a log of each is in the folder.
    """
    if jobs < 1:
        raise UserError(f"jobs={jobs}: give 1 process or more")
    document = _document(scenario)
    for name, value in overrides.items():
        scenario_file.lay(document, name.replace("__", "."), _plain(value), f"{name}={value!r}")
    whole = scenario_file.validated(document)
    points = check.planned(whole, document)
    if edited := stamp.edited(points):
        raise UserError(_edited(edited))
    check.hold(points, document, whole=True)
    folder = Path(out) if out is not None else Path("runs") / whole.name
    sweep = Sweep(points, as_given(document), folder, data_folder(None if data is None else Path(data)))
    console = Console(quiet=not progress, markup=False, highlight=False)
    try:
        with Local(min(jobs, max(1, len(sweep.unfinished(fresh))))) as engine, Display(console) as display:
            rows = sweep.run(run, engine, display, fresh)
    except ScenarioError as error:
        raise document.error(error.problems) from None
    _warn(rows, folder)
    return Result(folder, pd.DataFrame(rows), tuple(points[0].axes))


def as_given(document: Document) -> str:
    """Return the text of a scenario file, with the flags that have changed it as comments."""
    text = document.text if document.text.endswith("\n") else f"{document.text}\n"
    return text + "".join(f"# with {flag}\n" for flag in document.flags.values())


def write_report(run: Path, out: Path) -> Path:
    """Write the report of a run's folder into `out` and return the page.

    Raises UserError where no point has results or the folder cannot be written.
    """
    from analysis import report, stored

    try:
        return report.write([run], out)
    except (stored.NotARunError, OSError) as error:
        raise UserError(f"what is done is kept, but there is no report: {error}") from None


def data_folder(given: Path | None) -> Path:
    """Return the folder of data sets: the given one, or $FEDSIM_DATA, or a cache of the user's."""
    return given or Path(os.environ.get("FEDSIM_DATA") or Path.home() / ".cache" / "fedsim")


def _edited(files: list[str]) -> str:
    told = f"{', '.join(files)} {'has' if len(files) == 1 else 'have'} changed since this Python imported"
    what = "it, and would run as it was" if len(files) == 1 else "them, and would run as they were"
    return f"{told} {what}: start Python anew (in a notebook, restart its kernel)"


def _document(scenario: Path | str | Mapping[str, Any] | Scenario) -> Document:
    if isinstance(scenario, str | Path):
        return scenario_file.read(Path(scenario))
    plain = scenario.plain() if isinstance(scenario, Scenario) else _plain(scenario)
    return Document(Path("scenario"), yaml_text.text_of(plain), plain)


def _plain(value: Any) -> Any:
    # What the caller holds must not change under `lay`, and pydantic knows no numpy.
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return str(value) if isinstance(value, Path) else value.item() if hasattr(value, "item") else value


def _warn(rows: list[Row], folder: Path) -> None:
    failed = [str(row["point"]) for row in rows if row["status"] == "failed"]
    if failed:
        logs = ", ".join(str(folder / f"{point}.log") for point in failed[:3])
        warnings.warn(f"{len(failed)} of {len(rows)} points failed, see {logs}", RuntimeWarning, stacklevel=3)

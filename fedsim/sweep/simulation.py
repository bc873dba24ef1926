"""A sweep from Python: `simulate` does what the command line does and returns the tables as data frames.

    from fedsim import simulate

    result = simulate("scenarios/sparse_clients.yaml", clients__count=20, grid__seed=[0, 1])
    result.points.groupby("algorithm")["score"].mean()

It uses the same folder as the command line, so either continues what the other has finished.  It returns when all
points have ended; to run a sweep in the background, call it in a thread.
"""

import os
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from fedsim.core import shipped
from fedsim.core.errors import ScenarioError, UserError
from fedsim.point import check, data_check, stamp
from fedsim.point.attempt import Row
from fedsim.point.run import run
from fedsim.scenario import find, yaml_file, yaml_text
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.yaml_file import Document
from fedsim.sweep import notebook, objects
from fedsim.sweep.display import Display
from fedsim.sweep.engines.local import Local
from fedsim.sweep.result import Result, result_of, write_report
from fedsim.sweep.runner import Sweep

__all__ = ["Result", "as_given", "data_folder", "simulate", "write_report"]


def simulate(
    scenario: Path | str | Mapping[str, Any] | Scenario,
    *,
    graph: Any = None,
    out: Path | str | None = None,
    data: Path | str | None = None,
    jobs: int = 1,
    fresh: bool = False,
    following: bool = True,
    plugins: bool = True,
    progress: bool = True,
    **overrides: Any,
) -> Result:
    """Run every unfinished point of a scenario, and return the results of all points.

    `scenario`: a YAML file's path, the same as a mapping, or a `Scenario`.  `overrides` set its keys, "__" standing for
    the dot: `clients__count=20`, `grid__seed=range(3)`.  Their values may be NumPy's, paths, and parts as objects or
    classes: `algorithm=FedAvg()`, `grid__algorithm=["fedavg", Mine(mu=0.1)]`; see `fedsim.sweep.objects`.  `graph`
    replaces the data set: PyG's `Data`, a mapping of arrays, or a file.  `out`: the folder of the results (runs/NAME).
    `data`: that of data sets ($FEDSIM_DATA, or ~/.cache/fedsim).  `jobs`: processes; 1 is this one, and a script that
    uses more must start under `if __name__ == "__main__":`.  `fresh` removes earlier results of this scenario first.
    `following`: whether points that differ in their network alone may follow what one of them has learned.
    `plugins`: whether the scenario may name parts that are not fedsim's own, whose code then runs.

    Raises UserError for a mistake in what was given, before anything is written, and if a file that affects results was
    edited after this Python imported it.  Failed points cause a warning; their status is "failed", and their logs are
    in the folder.
    """
    if jobs < 1:
        raise UserError(f"jobs={jobs}: give 1 process or more")
    files: objects.Files = {}
    document = _document(scenario, files)
    folder = _folder(out, overrides.get("name", document.data.get("name")))
    if graph is not None:
        part = objects.graph_part(graph, files)
        if isinstance(part, dict) and part.get("file") in files:
            part["file"] = str(folder.resolve() / objects.FOLDER / part["file"])
        yaml_file.lay(document, "data.dataset", part, f"graph={type(graph).__name__}")
    for name, value in overrides.items():
        message = f"{name}={objects.shown(value)}"
        key = name.replace("__", ".")
        if key in find.KINDS and find.KINDS[key].key != key:
            raise UserError(f"{message}: write {find.KINDS[key].key.replace('.', '__')}=")
        yaml_file.lay(document, key, objects.plain(value, files, message), message)
    whole = yaml_file.validated(document)
    beside = [Path(scenario).parent] if plugins and isinstance(scenario, str | Path) else []
    with objects.written(folder, files, plugins), shipped.within_reach(*beside):
        points = check.planned(whole, document, only_own=not plugins)
        if edited := stamp.edited(points):
            raise UserError(_edited(edited))
        check.hold(points, document, whole=True)
        rows = _run(points, document, folder, data, jobs, fresh, following, plugins, progress)
    _warn(rows, folder)
    return result_of(folder, rows, [*points[0].axes])


def _run(
    points: list[Point],
    document: Document,
    folder: Path,
    data: Path | str | None,
    jobs: int,
    fresh: bool,
    following: bool,
    plugins: bool,
    progress: bool,
) -> list[Row]:
    data = data_folder(None if data is None else Path(data))
    sweep = Sweep(points, as_given(document), folder, data, following, plugins)
    shown = notebook.Line() if progress and notebook.inside() else None
    watcher = shown or Display(Console(quiet=not progress, markup=False, highlight=False))
    try:
        left = sweep.unfinished(fresh)
        notes = _hold_data(left, document, sweep, jobs)
        with Local(min(jobs, max(1, len(left)))) as engine, watcher as display:
            for note in notes:
                display.note(note)
            return sweep.run(run, engine, display, fresh)
    except ScenarioError as error:
        raise document.error(error.problems) from None


def as_given(document: Document) -> str:
    """Return the text of a scenario file, with the flags that changed it as comments."""
    text = document.text if document.text.endswith("\n") else f"{document.text}\n"
    return text + "".join(f"# with {flag}\n" for flag in document.flags.values())


def data_folder(given: Path | None) -> Path:
    """Return the folder of data sets: the given one, or $FEDSIM_DATA, or the user's cache."""
    return given or Path(os.environ.get("FEDSIM_DATA") or Path.home() / ".cache" / "fedsim")


def _edited(files: list[str]) -> str:
    changed = f"{', '.join(files)} {'has' if len(files) == 1 else 'have'} changed since this Python process imported"
    what = "it, and would run as it was" if len(files) == 1 else "them, and would run as they were"
    return f"{changed} {what}: restart Python (in a notebook, restart its kernel)"


def _document(scenario: Path | str | Mapping[str, Any] | Scenario, files: objects.Files) -> Document:
    if isinstance(scenario, str | Path):
        return yaml_file.read(Path(scenario))
    plain = scenario.plain() if isinstance(scenario, Scenario) else objects.plain(scenario, files, "scenario")
    return Document(Path("scenario"), yaml_text.text_of(plain), plain)


def _folder(out: Path | str | None, name: Any) -> Path:
    return Path(out) if out is not None else Path("runs") / str(name)


def _hold_data(points: list[Point], document: Document, sweep: Sweep, jobs: int) -> list[str]:
    """Make the data once before anything runs, and return what to note.

    Errors in a graph that was passed in refer to the argument.
    """
    try:
        return data_check.hold(points, document, sweep.data, keep=min(jobs, len(points)) == 1)
    except UserError as error:
        inputs = re.escape(str(sweep.out.resolve() / objects.FOLDER))
        raise UserError(re.sub(rf"{inputs}[\\/]graph-\w+\.npz", "graph", str(error))) from None


def _warn(rows: list[Row], folder: Path) -> None:
    failed = [str(row["point"]) for row in rows if row["status"] == "failed"]
    if failed:
        logs = ", ".join(str(folder / f"{point}.log") for point in failed[:3])
        warnings.warn(f"{len(failed)} of {len(rows)} points failed, see {logs}", RuntimeWarning, stacklevel=3)

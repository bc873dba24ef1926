"""Studies from Python: `simulate` does what the command line does, and returns the tables as data frames.

    from fedsim import simulate

    result = simulate("scenarios/sparse_clients.yaml", clients__count=20, grid__seed=[0, 1])
    result.runs.groupby("algorithm")["score"].mean()

It uses the same folder as the command line, so either continues what the other has finished.  It returns when all
runs have ended; to simulate in the background, call it in a thread.
"""

import os
import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis.read.stored import POINTS
from fedsim.core.errors import UserError
from fedsim.point.checks import check
from fedsim.point.results import stamp
from fedsim.point.results.folders import ERROR
from fedsim.point.run import run
from fedsim.scenario.parts import find, lookup
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.text import yaml_file, yaml_text
from fedsim.scenario.text.yaml_file import Document
from fedsim.sweep import notebook, objects
from fedsim.sweep.display import Display
from fedsim.sweep.engines.choose import Engine
from fedsim.sweep.engines.local import Local
from fedsim.sweep.result import Result, result_of, write_report
from fedsim.sweep.runner import Sweep, Watcher

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
    """Simulate every unfinished run of a scenario, and return the results of all its runs.

    `scenario`: a YAML file's path, the same as a mapping, or a `Scenario`.  `overrides` set its keys, "__" standing for
    the dot: `clients__count=20`, `grid__seed=range(3)`.  Their values may be NumPy's, paths, and parts as objects or
    classes: `algorithm=FedAvg()`, `grid__algorithm=["fedavg", Mine(mu=0.1)]`; see `fedsim.sweep.objects`.  A model may
    be a class of `torch.nn.Module`, or a function that returns one: `model=Net`, `model={"name": Net, "width": 8}`;
    `Result.module` returns it trained, with `measure__keep="weights"`.  `graph` replaces the data set: PyG's `Data`, a
    mapping of arrays, or a file.  `out`: the folder of the results (runs/NAME).  `data`: that of data sets
    ($FEDSIM_DATA, or ~/.cache/fedsim).  `jobs`: processes; 1 is this one, and a script that uses more must start under
    `if __name__ == "__main__":`.  `fresh` removes earlier results of this scenario first.
    `following`: whether runs that differ in their network alone may reuse what one of them has learned.
    `plugins`: whether the scenario may name parts that are not fedsim's own, whose code then runs.

    Raises UserError for a mistake in what was given, before anything is written, and if a file that affects results was
    edited after this Python imported it.  Failed runs cause a warning; their status is "failed", and their logs are
    in the folder.
    """
    if jobs < 1:
        raise UserError(f"jobs={jobs}: give 1 process or more")
    files: objects.Files = {}
    document = _document(scenario, files)
    folder = Path(out or Path("runs") / str(overrides.get("name", document.data.get("name"))))
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
    valid = yaml_file.validated(document)
    near = [Path(scenario).parent] if plugins and isinstance(scenario, str | Path) else []
    with objects.written(folder, files, plugins), lookup.within_reach(*near):
        points = check.planned(valid, document, only_own=not plugins)
        if edited := stamp.edited(points):
            raise UserError(_edited(edited))
        check.hold(points, document, whole=True)
        place = data_folder(None if data is None else Path(data))
        sweep = Sweep(points, as_given(document), folder, place, following, plugins)
        display: AbstractContextManager[Watcher] = nullcontext(Watcher())
        if progress:
            plain = Console(markup=False, highlight=False)
            display = notebook.Line() if notebook.inside() else Display(plain)
        with document.located():
            left = sweep.unfinished(fresh)
            engine = Local(min(jobs, max(1, len(left))))
            with engine:
                notes = _data_notes(engine, left, document, sweep)
                with display as watcher:
                    rows = sweep.run(run, engine, watcher, fresh, notes)
    if failed := [str(row["run"]) for row in rows if row["status"] == "failed"]:
        logs = ", ".join(str(folder / POINTS / name / ERROR) for name in failed[:3])
        warnings.warn(f"{len(failed)} of {len(rows)} runs failed, see {logs}", RuntimeWarning, stacklevel=2)
    return result_of(folder, rows, [*points[0].axes], [*near, folder.resolve() / objects.FOLDER] if plugins else [])


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


def check_data(engine: Engine, points: Sequence[Point], document: Document, data: Path) -> list[str]:
    """Raise UserError if the points' data cannot be used, and return what to note; on a cluster, workers find out.

    Workers on this machine start meanwhile.
    """
    if not isinstance(engine, Local):
        return []
    engine.start()
    return check.check_data(points, document, data, keep=engine.jobs == 1)


def _data_notes(engine: Local, points: list[Point], document: Document, sweep: Sweep) -> list[str]:
    """Return what to note of the data; errors in a graph that was passed in refer to the argument."""
    try:
        return check_data(engine, points, document, sweep.data)
    except UserError as error:
        inputs = re.escape(str(sweep.out.resolve() / objects.FOLDER))
        raise UserError(re.sub(rf"{inputs}[\\/]graph-\w+\.npz", "graph", str(error))) from None

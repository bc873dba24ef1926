"""Load run folders: the points of all runs in one frame, and the place of each point's tables (see `stored`).

A point is named "<run>/<its folder in points/>", so that several runs can be combined. Points whose status is `failed`
have no tables; they stay in `Runs.points`, so that a report can name them. A `stalled` point, in which nothing more
could happen before its protocol was through, has its tables and counts with them.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from analysis.axes import is_replicate
from analysis.read.links import earlier_layout
from analysis.read.methods import labels, without_digests
from analysis.read.stored import AGAIN, POINTS, NotARunError, check, line

COUNTS = ["updates", "wanted", "asked", "folded", "lost", "late", "refused"]
SERVED = ["worst_decile", "score_jain", "took_part", "upload_jain", "classes_covered"]
RECOVERY = ["arrivals", "recovery_seconds", "recovery_at_first", "never_recovered"]
COSTS = [  # of runs that were priced
    f"{quantity}{suffix}"
    for quantity in ("joules", "grams", "usd")
    for suffix in ("", "_low", "_high", "_clients", "_network", "_server", "_to_target")
]
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the latter takes ten seconds for 1,000 scenarios
RESULTS = [  # columns of a summary, in its order
    "method", "metric", "score", "periods", "am", "la", "fm", "prequential", "sim_seconds", "bytes_up", "bytes_down",
    "bytes_peer", "bytes_wasted", "updates", "updates_per_period", "staleness", "wanted", "asked", "folded", "lost",
    "late", "refused", *SERVED, "chance", "client_seconds", "server_seconds", "epsilon", "bytes_masking", "target",
    "target_on", "seconds_to_target", "bytes_to_target", "periods_at_target", "target_at_first", *RECOVERY,
    "real_seconds", "followed",
]  # fmt: skip
TEXTS = ["method", "metric", "target_on", "followed"]
NUMBERS = [column for column in RESULTS if column not in TEXTS]
FIXED = ["run", "status", "seed", *TEXTS, *NUMBERS]  # columns of a summary other than its axes

Scalar = bool | int | float | str


@dataclass(frozen=True)
class Runs:
    """Everything that was read.

    `points` has the columns of summary.csv plus results (the folder's name), algorithm, scored_model and scored_split
    (the headline's); axes are texts, seed a text, the rest numbers with NaN where empty. `algorithm` is what reports
    call it (see methods), `algorithm_as_given` what the scenario does. `axes` are the columns that vary by design: the
    grid's, `results` if there are several folders, but neither algorithm nor replicates (`seed`, and every axis whose
    last step ends so).
    """

    points: pd.DataFrame
    axes: tuple[str, ...]
    folders: dict[str, Path]  # finished point -> where its tables are
    scenarios: dict[str, str]  # run -> its scenario.yaml as given
    resolved: dict[str, dict[str, Any]]  # point -> its resolved scenario
    versions: dict[str, dict[str, str]]  # point -> the programs it was made with, and their versions
    provenance: dict[str, dict[str, str]]  # point -> where, when and with what it was run, as far as it is recorded


def load(folders: Sequence[Path]) -> Runs:
    """Read the runs in these folders.

    Raises NotARunError, with one message, for a folder that is missing or is not a run, an unreadable summary or
    table, and when no point has finished.
    """
    if not folders:
        raise NotARunError("no folder of results given; name at least one, such as runs/sparse_clients")
    names = _names(folders)
    summaries = {name: summary_of(folder) for name, folder in zip(names, folders, strict=True)}
    grid = dict.fromkeys(axis for summary in summaries.values() for axis in axes_of(summary))
    where: dict[str, Path] = {}
    for (name, summary), folder in zip(summaries.items(), folders, strict=True):
        if not (done := _done(summary)):
            raise NotARunError(f"{folder}: none of its {len(summary)} runs has results; run the scenario to its end")
        where |= {f"{name}/{run}": folder / POINTS / run for run in done}
    read = {point: read_scenario(place) for point, place in where.items()}
    resolved = {point: scenario for point, (scenario, _) in read.items()}
    for place in where.values():
        check(place)
    frames = [_described(summary, name, list(grid), resolved) for name, summary in summaries.items()]
    points = pd.concat(frames, ignore_index=True)
    called = labels(points, [resolved.get(point, {}) for point in points["run"]], [*grid])
    points = _in_lines(points.assign(algorithm_as_given=points["algorithm"], algorithm=called), [*grid, "algorithm"])
    axes = tuple(axis for axis in grid if axis != "algorithm" and not is_replicate(axis))
    return Runs(
        points=points,
        axes=("results", *axes) if len(folders) > 1 else axes,
        folders=where,
        scenarios={n: (f / "scenario.yaml").read_text("utf-8") for n, f in zip(names, folders, strict=True)},
        resolved=resolved,
        versions={point: versions for point, (_, versions) in read.items()},
        provenance={point: _provenance(place) for point, place in where.items()},
    )


def finished(run: Path) -> list[Path]:
    """Return the folders of a run's finished points, in the summary's order.  Raises NotARunError as `load` does."""
    return [run / POINTS / point for point in _done(summary_of(run))]


def axes_of(summary: pd.DataFrame) -> list[str]:
    """Return the columns of a summary that are axes: those before the seed, except the point's name and status."""
    columns = list(summary.columns)
    return [column for column in columns[: columns.index("seed")] if column not in FIXED]


def lookup(scenario: dict[str, Any], axis: str) -> str:
    """Return the value at a dotted key of a resolved scenario as text, a part's options included; else ""."""
    found: Any = scenario
    for key in axis.split("."):
        if isinstance(found, dict):
            found = found.get(key, (found.get("options") or {}).get(key))
        elif isinstance(found, list) and key.isdigit() and int(key) < len(found):
            found = found[int(key)]
        else:
            return ""
    found = found.get("name", "") if isinstance(found, dict) else found
    return "" if found is None else str(found)


def _names(folders: Sequence[Path]) -> list[str]:
    names = [folder.resolve().name for folder in folders]
    unique = names if len(set(names)) == len(names) else [str(folder) for folder in folders]
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise NotARunError("the same folder of results is given twice; name each once")
    return unique


def summary_of(folder: Path) -> pd.DataFrame:
    """Return a run's summary, its numbers as numbers, all else as texts.  Raises NotARunError as `load` does."""
    if not folder.is_dir():
        raise NotARunError(f"{folder}: there is no such folder; expected results such as runs/<scenario>")
    if older := earlier_layout(folder):
        raise NotARunError(older)
    path = folder / "summary.csv"
    if not path.is_file() or not (folder / "scenario.yaml").is_file():
        inside = (folder / "scores.parquet").is_file()
        hint = f"it is a run of {folder.parent.parent}" if inside else "expected runs/<scenario>"
        lacking = "summary.csv" if not path.is_file() else "scenario.yaml"
        raise NotARunError(f"{folder}: not a folder of results, it has no {lacking}; {hint}")
    try:
        rows = pd.read_csv(path, dtype="str", keep_default_na=False)
        if wrong := [column for column in FIXED if column not in rows]:
            raise NotARunError(f"{path}: has no column {', '.join(wrong)}; run the scenario again to renew it")
        numbers = [*NUMBERS, *(column for column in COSTS if column in rows)]
        return rows.assign(**{column: pd.to_numeric(rows[column]).astype("float64") for column in numbers})
    except (OSError, ValueError) as error:
        raise NotARunError(f"{path}: cannot be read ({line(error)}); delete it and run the scenario again") from error


def _done(summary: pd.DataFrame) -> list[str]:
    return [str(point) for point in summary.loc[summary["status"] != "failed", "run"]]


def read_scenario(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the resolved scenario of the point in this folder, and the versions of the programs it was made with.

    Versions head the file as comments, one `# name: version` a line. Raises NotARunError if it cannot be read.
    """
    path = folder / "scenario.yaml"
    try:
        text = path.read_text("utf-8")
        scenario = _plain(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = f"summary.csv lists this run as finished, but its scenario is unreadable: {line(error)}"
        raise NotARunError(f"{path}: {why}; {AGAIN}") from error
    if not isinstance(scenario, dict):
        raise NotARunError(f"{path}: not a scenario; {AGAIN}")
    heads = [head[1:].partition(":") for head in takewhile(lambda head: head.startswith("#"), text.splitlines())]
    return scenario, {name.strip(): version.strip() for name, colon, version in heads if colon}


def _plain(text: str) -> Any:
    """Return what a YAML text holds, plain values only."""
    loader = Loader(text)
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def _described(rows: pd.DataFrame, results: str, grid: list[str], scenarios: dict[str, dict[str, Any]]) -> pd.DataFrame:
    """Return the summary with results, algorithm, what was scored first, and the axes that only other runs vary."""
    runs = [f"{results}/{run}" for run in rows["run"]]
    resolved = [scenarios.get(run, {}) for run in runs]
    added: dict[str, Any] = {axis: [lookup(s, axis) for s in resolved] for axis in grid if axis not in rows.columns}
    if "algorithm" not in rows.columns:
        added["algorithm"] = [lookup(s, "algorithm") or "none" for s in resolved]
    return rows.assign(
        **added,
        results=results,
        run=runs,
        scored_model=[lookup(scenario, "measure.models.0") or "global" for scenario in resolved],
        scored_split=[lookup(scenario, "measure.splits.0") or "test" for scenario in resolved],
    )


def _in_lines(points: pd.DataFrame, axes: list[str]) -> pd.DataFrame:
    """Return the points without line breaks in names and values, which Vega's expressions cannot hold."""
    labels = [*dict.fromkeys([*axes, "results"])]
    plain = points[labels].replace("[\u2028\u2029]", " ", regex=True)
    return points.assign(**{name: without_digests(plain[name]) for name in labels})


def _provenance(folder: Path) -> dict[str, str]:
    """Return the provenance recorded in the point's row; empty if there is none."""
    try:
        row = json.loads((folder / "row.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {key: str(value) for key, value in flat(row.get("provenance") if isinstance(row, dict) else None)}


def flat(value: Any, key: str = "") -> Iterator[tuple[str, Scalar]]:
    """Yield the values of nested mappings and lists by dotted keys, without empty ones."""
    if isinstance(value, dict | list):
        for inner, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from flat(one, f"{key}.{inner}" if key else str(inner))
    elif value is not None:
        yield key, value if isinstance(value, bool | int | float | str) else str(value)

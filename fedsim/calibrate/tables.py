"""Read what was measured: the tables of a run or of one point of it, or a CSV of transfers.

A point's folder holds `scenario.yaml` and the tables of `core/record.py`; any program that writes these can
be calibrated from.  Messages between the server and its clients are taken, of any kind.  A message arrived
whole if its fate is delivered, late or discarded: late ones come from slow links, and without them slow
clients would seem fast. A job is finished if its client then sends something before its next job.  The tables
do not say how many operations a job takes; `speeds.py` works that out, unless the spans have a column
`operations`.

A CSV has the columns `client` from 0, `direction` (`up`, `down`, or `work` for a job between a download and
an upload), `bytes` without headers (0 for work), `start_s` and `end_s` in seconds of one clock from 0 on, and
`operations` of the work, where known.  A message starts when its connection is opened, or the request is
sent, and ends when the receiver has the last byte.

Not read: peers, edge aggregators, the server's own time; of a CSV messages that did not arrive, and absences.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.calibrate.measured import Measurements, Moved, Spans, Worked
from fedsim.core import table
from fedsim.core.arrays import Bools, Floats, Ints
from fedsim.core.errors import ScenarioError, UserError
from fedsim.core.record import SERVER
from fedsim.core.table import Column
from fedsim.core.units import LATEST, MOST, MOST_BYTES
from fedsim.point.build import fleet
from fedsim.point.results import folders
from fedsim.scenario.parts import plugins
from fedsim.scenario.schema import Scenario
from fedsim.scenario.text import yaml_file

CSV = [
    Column("client", whole=True, low=0, high=MOST),
    Column("direction", choices=("up", "down", "work")),
    Column("bytes", whole=True, low=0, high=MOST_BYTES),
    Column("start_s", low=0.0, high=LATEST),
    Column("end_s", low=0.0, high=LATEST),
    Column("operations", required=False, low=0.0),
]
WHOLE = ("delivered", "late", "discarded")
NEEDED = {
    "transfers": ("sent", "arrived", "src", "dst", "nbytes", "wire_bytes", "fate"),
    "spans": ("client", "start", "end", "what"),
    "updates": ("time",),
}


def read(run: Path, scenario: Path | None, only_own: bool) -> Measurements:
    """Return what was measured, from the folder of a run, or from a CSV with the scenario that it is of, if any.

    `only_own` refuses scenarios with parts that are not fedsim's.  Raises UserError for what cannot be read.
    """
    if run.suffix == ".csv" and not run.is_dir():
        return read_csv(run, _only_point(scenario, only_own) if scenario else None)
    if scenario:
        raise UserError(f"--scenario {scenario}: {run} is no CSV, and a run has a scenario; leave it out")
    return read_run(run, only_own)


def read_run(run: Path, only_own: bool = False) -> Measurements:
    """Return what was measured in a run.  Raises UserError for a folder that is none, or has several points."""
    folder = point_of(run)
    scenario = _loaded(folder / "scenario.yaml", only_own)
    _refuse_others(scenario, folder)
    transfers, spans, updates = (_columns(folder, name) for name in NEEDED)
    clients = fleet.size(scenario)
    moved, others = _moved(transfers, clients)
    if not moved.whole.any():
        raise UserError(f"{folder}: no message between the server and a client arrived; there is nothing to fit")
    moments = np.unique(updates["time"].astype(np.float64))
    last = [float(times.max()) for times in (moved.arrived, spans["end"], moments) if len(times)]
    notes = [f"{others} messages between others than the server and a client are left out"] if others else []
    started, offline = (_spans(spans, what, clients) for what in ("start", "offline"))
    offline, worked = offline.take(offline.seconds > 0), _spans(spans, "train", clients)
    worked = worked.take(_finished(worked, moved) & (worked.seconds > 0))
    return Measurements(clients, moved, worked, offline, moments, max(last), scenario, tuple(notes), started)


def read_csv(path: Path, scenario: Scenario | None) -> Measurements:
    """Return what a table says.  Raises UserError, naming file and line, for what makes no sense.

    With a scenario there are as many clients as it says, else as many as the table names.
    """
    columns, lines = table.read_lines(path, CSV)
    clients = fleet.size(scenario) if scenario else int(columns["client"].max()) + 1
    for row in np.flatnonzero(columns["end_s"] <= columns["start_s"])[:1]:
        ends = f"column 'end_s': {columns['end_s'][row]:g} is not after the start, {columns['start_s'][row]:g}"
        raise table.fault(path, int(lines[row]), f"{ends}; both are seconds of one clock")
    for row in np.flatnonzero(columns["client"] >= clients)[:1]:
        what = f"there is no client {columns['client'][row]}; the scenario has {clients} clients, numbered from 0"
        raise table.fault(path, int(lines[row]), f"column 'client': {what}")
    order = np.lexsort((columns["end_s"], columns["start_s"]))
    client, direction, nbytes, start, end = (columns[column.name][order] for column in CSV[:5])
    work, every = direction == "work", np.ones(len(order), dtype=bool)
    if work.all():
        raise UserError(f"{path}: has no transfer, only work; add rows with the direction 'up' or 'down'")
    moved = Moved(client, direction == "up", nbytes, start, end, every, np.zeros_like(nbytes)).take(~work)
    worked = Worked(client, start, end, columns.get("operations", np.full(len(order), np.nan))[order]).take(work)
    return Measurements(clients, moved, worked, Spans.none(), np.array([]), float(columns["end_s"].max()), scenario)


def _only_point(path: Path, only_own: bool) -> Scenario:
    points = [*_loaded(path, only_own).points()]
    if len(points) > 1:
        raise UserError(f"--scenario {path}: has {len(points)} runs; give one without grid and vary")
    _refuse_others(points[0].scenario, path)
    return points[0].scenario


def point_of(run: Path) -> Path:
    """Return the folder of the only run in a folder of results.  Raises UserError unless there is exactly one."""
    if not run.is_dir():
        raise UserError(
            f"{run}: there is no such folder; name one of results, such as runs/hospitals, or a CSV of transfers"
        )
    if (run / "transfers.parquet").is_file():
        return run
    points = [folder for folder in folders.folders(run) if (folder / "transfers.parquet").is_file()]
    if not points:
        raise UserError(f"{run}: not a folder of results, nothing in points/ has a transfers.parquet; name one")
    if len(points) > 1:
        some = ", ".join(str(folder) for folder in points[:3])
        raise UserError(f"{run}: has {len(points)} runs; name the folder of one of them, such as {some}")
    return points[0]


def _loaded(path: Path, only_own: bool) -> Scenario:
    scenario, _ = yaml_file.load(path)
    if only_own and (foreign := plugins.problems(scenario)):
        raise ScenarioError(foreign)
    return scenario


def _refuse_others(scenario: Scenario, place: Path) -> None:
    """Raise UserError for a network that is no star."""
    if (topology := scenario.network.topology.name) != "star":
        raise UserError(f"{place}: the network is a {topology}; only the links of a star can be fitted")


def _columns(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.parquet"
    try:
        stored = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path}: is missing; a run has the tables {', '.join(NEEDED)}") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    if lacking := [column for column in NEEDED[name] if column not in stored.column_names]:
        raise UserError(f"{path}: has no column {lacking[0]!r}; it needs {', '.join(NEEDED[name])}")
    return {column: stored[column].to_numpy() for column in stored.column_names}


def _moved(columns: dict[str, Any], clients: int) -> tuple[Moved, int]:
    """Return the messages between the server and its clients, as they were sent, and how many others there were."""
    src, dst = columns["src"], columns["dst"]
    ours = ((src == SERVER) & (dst >= 0) & (dst < clients)) | ((dst == SERVER) & (src >= 0) & (src < clients))
    sound = np.isfinite(columns["sent"]) & np.isfinite(columns["arrived"]) & (columns["arrived"] >= columns["sent"])
    rows = np.flatnonzero(ours & sound)
    rows = rows[np.lexsort((columns["arrived"][rows], columns["sent"][rows]))]
    upload = dst[rows] == SERVER
    client, whole = np.where(upload, src[rows], dst[rows]), np.isin(columns["fate"][rows].astype(str), WHOLE)
    nbytes, wire = (columns[name][rows].astype(np.int64) for name in ("nbytes", "wire_bytes"))
    sent, arrived = (columns[name][rows].astype(np.float64) for name in ("sent", "arrived"))
    return Moved(client.astype(np.int64), upload, nbytes, sent, arrived, whole, wire), len(src) - len(rows)


def _spans(columns: dict[str, Any], what: str, clients: int) -> Worked:
    rows = (columns["what"] == what) & (columns["client"] >= 0) & (columns["client"] < clients)
    spans = Worked(
        columns["client"].astype(np.int64), columns["start"].astype(np.float64), columns["end"].astype(np.float64),
        columns.get("operations", np.full(len(rows), np.nan)).astype(np.float64),
    )  # fmt: skip
    return spans.take(rows)


def _finished(worked: Worked, moved: Moved) -> Bools:
    """Return the jobs after which the client sends something, before it begins another."""
    finished = np.zeros(len(worked), dtype=bool)
    for client in np.unique(worked.client).tolist():
        rows = np.flatnonzero(worked.client == client)
        rows = rows[np.argsort(worked.start[rows], kind="stable")]
        sent: Floats = np.sort(moved.sent[(moved.client == client) & moved.upload])
        nexts: Floats = np.append(worked.start[rows][1:], np.inf)
        after: Ints = np.searchsorted(sent, worked.end[rows] * (1 - 1e-12))
        finished[rows] = np.append(sent, np.inf)[after] < nexts
    return finished

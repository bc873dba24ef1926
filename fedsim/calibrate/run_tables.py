"""Run tables: what was measured, from the folder of a run or of one point of it.

A point's folder holds `scenario.yaml` and the tables of `core/record.py`; any program that writes these can be
calibrated from.  Messages between the server and its clients are taken, of any kind.  A message arrived whole if its
fate is delivered, late or discarded: late ones come from slow links, and without them slow clients would seem fast.

A job is finished if its client then sends something before its next job.  The tables do not say how many operations a
job takes; `speeds.py` works that out, unless the spans have a column `operations`.

Not read: peers, edge aggregators, the server's own time.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fedsim.calibrate.measured import Away, Floats, Ints, Mask, Measured, Moved, Started, Worked
from fedsim.core.errors import UserError
from fedsim.core.record import SERVER
from fedsim.point import fleet, folders
from fedsim.scenario import yaml_file
from fedsim.scenario.schema import Scenario

WHOLE = ("delivered", "late", "discarded")
NEEDED = {
    "transfers": ("sent", "arrived", "src", "dst", "nbytes", "wire_bytes", "fate"),
    "spans": ("client", "start", "end", "what"),
    "updates": ("time",),
}
Columns = dict[str, Any]


def read(run: Path) -> Measured:
    """Return what was measured in a run.  Raises UserError for a folder that is none, or has several points."""
    folder = point_of(run)
    scenario, _ = yaml_file.load(folder / "scenario.yaml")
    refuse_others(scenario, folder)
    columns = {name: _columns(folder, name) for name in NEEDED}
    clients = fleet.size(scenario)
    moved, strangers = _moved(columns["transfers"], clients)
    if not moved.whole.any():
        raise UserError(f"{folder}: no message between the server and a client arrived; there is nothing to fit")
    worked, away = _worked(columns["spans"], moved, clients), _away(columns["spans"], clients)
    updates = np.unique(columns["updates"]["time"].astype(np.float64))
    last = [float(times.max()) for times in (moved.arrived, columns["spans"]["end"], updates) if len(times)]
    notes = [f"{strangers} messages between others than the server and a client are left out"] if strangers else []
    spans = columns["spans"]
    starts = Started(*(spans[name][spans["what"] == "start"].astype(np.float64) for name in ("start", "end")))
    return Measured(clients, moved, worked, away, updates, max(last), scenario, tuple(notes), starts)


def point_of(run: Path) -> Path:
    """Return the folder of the only point of a run.  Raises UserError if there is none, or if there are several."""
    if not run.is_dir():
        raise UserError(f"{run}: there is no such folder; name a run, such as runs/hospitals, or a CSV of transfers")
    if (run / "transfers.parquet").is_file():
        return run
    found = [folder for folder in folders.folders(run) if (folder / "transfers.parquet").is_file()]
    if not found:
        raise UserError(f"{run}: not a run, no folder in it has a transfers.parquet; name the folder of a run")
    if len(found) > 1:
        some = ", ".join(str(folder) for folder in found[:3])
        raise UserError(f"{run}: has {len(found)} points; name the folder of one of them, such as {some}")
    return found[0]


def refuse_others(scenario: Scenario, place: Path) -> None:
    """Raise UserError for a network that is no star."""
    if (topology := scenario.network.topology.name) != "star":
        raise UserError(f"{place}: the network is a {topology}; only the links of a star can be fitted")


def _columns(folder: Path, name: str) -> Columns:
    path = folder / f"{name}.parquet"
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path}: is missing; a run has the tables {', '.join(NEEDED)}") from None
    except (OSError, pa.ArrowException) as error:
        raise UserError(f"{path}: cannot be read ({' '.join(str(error).split())})") from None
    if lacking := [column for column in NEEDED[name] if column not in table.column_names]:
        raise UserError(f"{path}: has no column {lacking[0]!r}; it needs {', '.join(NEEDED[name])}")
    return {column: table[column].to_numpy() for column in table.column_names}


def _moved(columns: Columns, clients: int) -> tuple[Moved, int]:
    """Return the messages between the server and its clients, as they were sent, and how many others there were."""
    src, dst = columns["src"], columns["dst"]
    ours = ((src == SERVER) & (dst >= 0) & (dst < clients)) | ((dst == SERVER) & (src >= 0) & (src < clients))
    sound = np.isfinite(columns["sent"]) & np.isfinite(columns["arrived"]) & (columns["arrived"] >= columns["sent"])
    rows = np.flatnonzero(ours & sound)
    rows = rows[np.lexsort((columns["arrived"][rows], columns["sent"][rows]))]
    upload = dst[rows] == SERVER
    moved = Moved(
        np.where(upload, src[rows], dst[rows]).astype(np.int64),
        upload,
        columns["nbytes"][rows].astype(np.int64),
        columns["sent"][rows].astype(np.float64),
        columns["arrived"][rows].astype(np.float64),
        np.isin(columns["fate"][rows].astype(str), WHOLE),
        columns["wire_bytes"][rows].astype(np.int64),
    )
    return moved, len(src) - len(rows)


def _worked(columns: Columns, moved: Moved, clients: int) -> Worked:
    rows = np.flatnonzero((columns["what"] == "train") & (columns["client"] >= 0) & (columns["client"] < clients))
    client, start, end = (columns[name][rows] for name in ("client", "start", "end"))
    operations = columns["operations"][rows] if "operations" in columns else np.full(len(rows), np.nan)
    whole = Worked(client.astype(np.int64), start, end, operations.astype(np.float64))
    return whole.take(_finished(whole, moved) & (end > start))


def _finished(worked: Worked, moved: Moved) -> Mask:
    """Return the jobs after which the client sends something, before it begins another."""
    found = np.zeros(len(worked), dtype=bool)
    for client in np.unique(worked.client).tolist():
        rows = np.flatnonzero(worked.client == client)
        rows = rows[np.argsort(worked.start[rows], kind="stable")]
        sent: Floats = np.sort(moved.sent[(moved.client == client) & moved.upload])
        nexts: Floats = np.append(worked.start[rows][1:], np.inf)
        after: Ints = np.searchsorted(sent, worked.end[rows] * (1 - 1e-12))
        found[rows] = np.append(sent, np.inf)[after] < nexts
    return found


def _away(columns: Columns, clients: int) -> Away:
    rows = np.flatnonzero((columns["what"] == "offline") & (columns["client"] >= 0) & (columns["client"] < clients))
    rows = rows[columns["end"][rows] > columns["start"][rows]]
    return Away(columns["client"][rows].astype(np.int64), columns["start"][rows], columns["end"][rows])

"""Own CSV: what was measured, from a table of transfers.

Columns: `client` from 0, `direction` (`up`, `down`, or `work` for a job between a download and an upload), `bytes`
without headers (0 for work), `start_s` and `end_s` in seconds of one clock from 0 on, and `operations` of the work,
where known.  A message starts when its connection is opened, or the request is sent, and ends when the receiver has the
last byte.

Not read: messages that did not arrive, which have no end; absences.
"""

from pathlib import Path

import numpy as np

from fedsim.calibrate.measured import Away, Measured, Moved, Worked
from fedsim.core import table
from fedsim.core.errors import UserError
from fedsim.core.table import Column
from fedsim.core.units import LATEST, MOST, MOST_BYTES
from fedsim.point import fleet
from fedsim.scenario.schema import Scenario

COLUMNS = [
    Column("client", whole=True, low=0, high=MOST),
    Column("direction", choices=("up", "down", "work")),
    Column("bytes", whole=True, low=0, high=MOST_BYTES),
    Column("start_s", low=0.0, high=LATEST),
    Column("end_s", low=0.0, high=LATEST),
    Column("operations", required=False, low=0.0),
]


def read(path: Path, scenario: Scenario | None) -> Measured:
    """Return what a table says.  Raises UserError, naming file and line, for what makes no sense.

    With a scenario there are as many clients as it says, else as many as the table names.
    """
    columns, lines = table.read_lines(path, COLUMNS)
    backwards = np.flatnonzero(columns["end_s"] <= columns["start_s"])
    if backwards.size:
        row = backwards[0]
        ends = f"column 'end_s': {columns['end_s'][row]:g} is not after the start, {columns['start_s'][row]:g}"
        raise table.fault(path, int(lines[row]), f"{ends}; both are seconds of one clock")
    clients = fleet.size(scenario) if scenario else int(columns["client"].max()) + 1
    beyond = np.flatnonzero(columns["client"] >= clients)
    if beyond.size:
        row, many = beyond[0], f"the scenario has {clients} clients, numbered from 0"
        raise table.fault(
            path, int(lines[row]), f"column 'client': there is no client {columns['client'][row]}; {many}"
        )
    order = np.lexsort((columns["end_s"], columns["start_s"]))
    columns = {name: column[order] for name, column in columns.items()}
    work = columns["direction"] == "work"
    if work.all():
        raise UserError(f"{path}: has no transfer, only work; add rows with the direction 'up' or 'down'")
    rows, jobs = np.flatnonzero(~work), np.flatnonzero(work)
    moved = Moved(
        columns["client"][rows], columns["direction"][rows] == "up", columns["bytes"][rows], columns["start_s"][rows],
        columns["end_s"][rows], np.ones(len(rows), dtype=bool), np.zeros(len(rows), dtype=np.int64),
    )  # fmt: skip
    operations = columns.get("operations", np.full(len(work), np.nan))[jobs]
    worked = Worked(columns["client"][jobs], columns["start_s"][jobs], columns["end_s"][jobs], operations)
    none = np.array([])
    away = Away(none.astype(np.int64), none, none)
    return Measured(clients, moved, worked, away, none, float(columns["end_s"].max()), scenario)

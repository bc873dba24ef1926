"""Write the client table, and the scenario beside it that repeats the run with these clients.

The scenario is the run's own, with its links, speeds and times online replaced by the tables; jitter and
losses are in the fitted values.  Effects that change neither links nor speeds nor who is online stay as they
are.  Transfers without a scenario are replayed at their times.  Only absences that the run has recorded
(spans `offline`) are known: a client that did not answer for another reason counts as online, and after the
last recorded absence it stays online.

All files are written, or none: first into a folder of their own, in which the scenario is checked as a dry
run does.
"""

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedsim.calibrate.fit import DOWN, RTT, UP
from fedsim.calibrate.measured import Measurements, Moved, Spans
from fedsim.core.arrays import Floats
from fedsim.core.errors import UserError
from fedsim.point.build.parts import Parts
from fedsim.point.checks import check
from fedsim.scenario.text import yaml_file, yaml_text

KEPT = ("byzantine", "dropout", "restart")  # effects on neither links nor speeds nor who is online
DIGITS = 6
ONLINE = ("client", "on_s", "off_s")


def files_of(out: Path, measured: Measurements) -> list[Path]:
    """Return the files that `write` makes: the table, the scenario, and tables of absences or transfers if needed."""
    files = [out, out.with_suffix(".yaml")]
    if measured.scenario is None:
        return [*files, out.with_name(f"{out.stem}_transfers.csv")]
    return [*files, out.with_name(f"{out.stem}_online.csv")] if len(measured.offline) else files


def refuse(out: Path, measured: Measurements, force: bool) -> None:
    """Raise UserError for a name that is no table's, a folder that is missing, and files that are there already."""
    if out.suffix != ".csv":
        raise UserError(f"--out {out}: a table of clients ends in .csv, as in --out clients.csv")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}; make it first")
    there = [str(path) for path in files_of(out, measured) if path.exists() or path.is_symlink()]
    if there and not force:
        raise UserError(f"--out {out}: {', '.join(there)} is there already; give --force to replace, or another name")


def write(out: Path, measured: Measurements, links: Floats, losses: Floats, speeds: Floats) -> list[str]:
    """Write the files, and return what the scenario leaves out of the run's, one sentence each.

    `links` (K, 3) are round trips in seconds, uplinks and downlinks in bit/s; `losses` (K, 2)
    are those up and down, `speeds` (K,) may be NaN.

    Raises UserError if a value is missing, a file cannot be written, or the scenario would be refused.
    """
    _refuse_gaps(links)
    scenario = measured.scenario
    if np.isnan(speeds).all() and scenario is not None and scenario.clients.table:
        speeds = Parts(scenario).columns.get("speed", speeds)  # none could be fitted: those of the run's own table
    countries = Parts(scenario).countries.tolist() if scenario is not None else []  # costs may need them
    names = [path.name for path in files_of(out, measured)]
    plain, notes = _scenario(out, measured, names)
    try:
        with tempfile.TemporaryDirectory(prefix=".calibrate-", dir=out.parent) as scratch:
            folder = Path(scratch)
            _clients(links, losses, speeds, countries).to_csv(folder / names[0], index=False)
            if measured.scenario is None:
                _transfers(measured.moved).to_csv(folder / names[2], index=False)
            elif len(measured.offline):
                pd.DataFrame(online(measured.offline), columns=ONLINE).to_csv(folder / names[2], index=False)
            (folder / names[1]).write_text(yaml_text.text_of(plain), encoding="utf-8", newline="")
            repeating, document = yaml_file.load(folder / names[1])
            check.hold(check.planned(repeating, document), document, whole=True)
            for name in (*names[2:], names[0], names[1]):
                (folder / name).replace(out.with_name(name))
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror}); give another name") from None
    return notes


def _refuse_gaps(links: Floats) -> None:
    names = ((UP, "uplink_mbps", "from"), (DOWN, "downlink_mbps", "to"), (RTT, "rtt_ms", "from or to"))
    for which, name, way in names:
        if np.isnan(links[:, which]).any():
            message = f"no message {way} a client arrived, so that nothing tells {name}"
            raise UserError(f"{message}; give it with --known TABLE")


def _clients(links: Floats, losses: Floats, speeds: Floats, countries: Sequence[str]) -> pd.DataFrame:
    """Return the table of clients, rounded; with speeds and countries only where something is known of them."""
    columns = {"uplink_mbps": links[:, UP] / 1e6, "downlink_mbps": links[:, DOWN] / 1e6, "rtt_ms": links[:, RTT] * 1e3}
    if losses.any():
        columns |= {"loss_up": losses[:, 0], "loss_down": losses[:, 1]}
    if np.isfinite(speeds).any():
        columns["gflops"] = speeds / 1e9
    rounded = {name: [float(f"{value:.{DIGITS}g}") for value in column] for name, column in columns.items()}
    table = pd.DataFrame({"client": np.arange(len(links)), **rounded})
    return table.assign(country=countries) if any(countries) else table


def _scenario(out: Path, measured: Measurements, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the scenario as plain data, and what of the run's is left out."""
    name = re.sub(r"[^\w.+-]", "_", out.stem).strip(".") or "calibrated"
    label = {"name": name, "description": f"Repeats a run with clients fitted to it ({out.name})."}
    if measured.scenario is None:
        clients = {"table": names[0]}
        return {**label, "clients": clients, "network": {}, "protocol": {"name": "replay", "transfers": names[2]}}, []
    plain, notes = measured.scenario.plain(), []
    plain |= label
    plain["clients"] |= {"table": names[0], "count": measured.clients}
    network = plain["network"]
    network |= dict.fromkeys(("profile", "latency", "uplink", "downlink"))
    names_of = [part.name for part in measured.scenario.network.effects]
    network["effects"] = [part for part, name in zip(network["effects"], names_of, strict=True) if name in KEPT]
    if left_out := [name for name in names_of if name not in KEPT]:
        notes.append(f"effects left out of the scenario, as the tables hold what they did: {', '.join(left_out)}")
    if len(measured.offline):
        network["effects"].append({"name": "churn", "table": names[2], "unlisted": "online"})
    return plain, notes


def _transfers(moved: Moved) -> pd.DataFrame:
    direction = np.where(moved.upload, "up", "down")
    columns = {"start_s": moved.sent, "client": moved.client, "direction": direction, "bytes": moved.nbytes}
    return pd.DataFrame(columns)


def online(offline: Spans) -> list[dict[str, float | int | None]]:
    """Return the rows of a table of `churn`: the stretches online of every client that was ever offline."""
    rows: list[dict[str, float | int | None]] = []
    for client in np.unique(offline.client).tolist():
        absences = offline.take(offline.client == client)
        on = 0.0
        for start, end in sorted(zip(absences.start.tolist(), absences.end.tolist(), strict=True)):
            if start > on:
                rows.append({"client": client, "on_s": on, "off_s": start})
            on = max(on, end)
        rows.append({"client": client, "on_s": on, "off_s": None})
    return rows

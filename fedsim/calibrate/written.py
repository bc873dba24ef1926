"""Written: the client table, and the scenario beside it that repeats the run with these clients.

The scenario is the run's own, with its links, speeds and times online replaced by the tables; jitter and losses are in
the fitted values.  Effects that change neither links nor speeds nor who is online stay as they are.  Transfers without
a scenario are replayed at their times.

All files are written, or none: first into a folder of their own, in which the scenario is checked as a dry run does.
"""

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fedsim.calibrate import presence
from fedsim.calibrate.fit import DOWN, TRIP, UP
from fedsim.calibrate.measured import Floats, Measured
from fedsim.core.errors import UserError
from fedsim.core.whole_files import write_table
from fedsim.point import check
from fedsim.point.parts import Parts
from fedsim.scenario import yaml_file, yaml_text
from fedsim.scenario.schema import Scenario

KEPT = ("byzantine", "dropout", "restart")  # effects on neither links nor speeds nor who is online
DIGITS = 6
TRANSFERS = ("start_s", "client", "direction", "bytes")


@dataclass(frozen=True, eq=False)
class Written:
    """The files that were written, and what the scenario leaves out of the run's, one sentence each."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


def files_of(out: Path, measured: Measured) -> list[Path]:
    """Return the files that `write` makes: the table, the scenario, and tables of absences or transfers if needed."""
    found = [out, out.with_suffix(".yaml")]
    if measured.scenario is None:
        found.append(out.with_name(f"{out.stem}_transfers.csv"))
    elif len(measured.away):
        found.append(out.with_name(f"{out.stem}_online.csv"))
    return found


def refuse(out: Path, measured: Measured, force: bool) -> None:
    """Raise UserError for a name that is no table's, a folder that is missing, and files that are there already."""
    if out.suffix != ".csv":
        raise UserError(f"--out {out}: a table of clients ends in .csv, as in --out clients.csv")
    if not out.parent.is_dir():
        raise UserError(f"--out {out}: there is no folder {out.parent}; make it first")
    there = [str(path) for path in files_of(out, measured) if path.exists() or path.is_symlink()]
    if there and not force:
        raise UserError(f"--out {out}: {', '.join(there)} is there already; give --force to replace, or another name")


def write(out: Path, measured: Measured, links: Floats, losses: Floats, speeds: Floats) -> Written:
    """Write the files.

    `links` (K, 3) are round trips in seconds, uplinks and downlinks in bit/s; `losses` (K, 2)
    are those up and down, `speeds` (K,) may be NaN.

    Raises UserError if a value is missing, a file cannot be written, or the scenario would be refused.
    """
    _refuse_gaps(links)
    countries = _countries(measured.scenario)
    speeds = _stated(measured.scenario) if np.isnan(speeds).all() else speeds
    names = [path.name for path in files_of(out, measured)]
    plain, notes = _scenario(out, measured, names)
    try:
        with tempfile.TemporaryDirectory(prefix=".calibrate-", dir=out.parent) as scratch:
            folder = Path(scratch)
            columns, rows = _rows(links, losses, speeds, countries)
            write_table(folder / names[0], columns, rows)
            if measured.scenario is None:
                write_table(folder / names[2], TRANSFERS, _transfers(measured))
            elif len(measured.away):
                write_table(folder / names[2], presence.COLUMNS, presence.stretches(measured.away))
            (folder / names[1]).write_text(yaml_text.text_of(plain), encoding="utf-8", newline="")
            scenario, document = yaml_file.load(folder / names[1])
            check.hold(check.planned(scenario, document), document, whole=True)
            for name in (*names[2:], names[0], names[1]):
                os.replace(folder / name, out.with_name(name))
    except OSError as error:
        raise UserError(f"--out {out}: cannot be written ({error.strerror}); give another name") from None
    return Written(tuple(files_of(out, measured)), tuple(notes))


def _refuse_gaps(links: Floats) -> None:
    for which, name, way in (
        (UP, "uplink_mbps", "from"),
        (DOWN, "downlink_mbps", "to"),
        (TRIP, "rtt_ms", "from or to"),
    ):
        if np.isnan(links[:, which]).any():
            raise UserError(
                f"no message {way} a client arrived, so that nothing tells {name}; give it with --known TABLE"
            )


def _rows(
    links: Floats, losses: Floats, speeds: Floats, countries: Sequence[str]
) -> tuple[list[str], list[dict[str, int | float | str | None]]]:
    """Return the table's columns and rows, rounded; speeds and countries only where something is known of them."""
    columns = ["client", "uplink_mbps", "downlink_mbps", "rtt_ms"]
    columns += ["loss_up", "loss_down"] * bool(losses.any())
    columns += ["gflops"] * bool(np.isfinite(speeds).any()) + ["country"] * any(countries)
    rows: list[dict[str, int | float | str | None]] = [
        {
            "client": client,
            "uplink_mbps": _rounded(links[client, UP] / 1e6),
            "downlink_mbps": _rounded(links[client, DOWN] / 1e6),
            "rtt_ms": _rounded(links[client, TRIP] * 1e3),
            "loss_up": _rounded(losses[client, 0]),
            "loss_down": _rounded(losses[client, 1]),
            "gflops": _rounded(speeds[client] / 1e9) if np.isfinite(speeds).any() else None,
            "country": countries[client] if countries else None,
        }
        for client in range(len(links))
    ]
    return columns, rows


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def _stated(scenario: Scenario | None) -> Floats:
    """Return the speeds that the run's own table of clients states, where none could be fitted; NaN without one."""
    columns = Parts(scenario).columns if scenario and scenario.clients.table else {}
    return columns.get("speed", np.array([np.nan]))


def _countries(scenario: Scenario | None) -> list[str]:
    """Return the country of each client, which costs may need; nothing without a scenario."""
    if scenario is None:
        return []
    countries: list[str] = Parts(scenario).countries.tolist()
    return countries


def _scenario(out: Path, measured: Measured, names: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return the scenario as plain data, and what of the run's is left out."""
    label = {"name": _name(out.stem), "description": f"Repeats a run with clients fitted to it ({out.name})."}
    if measured.scenario is None:
        clients = {"table": names[0]}
        return {**label, "clients": clients, "network": {}, "protocol": {"name": "replay", "transfers": names[2]}}, []
    plain, notes = measured.scenario.plain(), []
    plain |= label
    plain["clients"] |= {"table": names[0], "count": measured.clients}
    network = plain["network"]
    network |= dict.fromkeys(("profile", "latency", "uplink", "downlink"))
    out_ = [_named(effect) for effect in network["effects"] if _named(effect) not in KEPT]
    network["effects"] = [effect for effect in network["effects"] if _named(effect) in KEPT]
    if out_:
        notes.append(f"effects left out of the scenario, as the tables hold what they did: {', '.join(out_)}")
    if len(measured.away):
        network["effects"].append({"name": "churn", "table": names[2], "unlisted": "online"})
    return plain, notes


def _named(effect: str | Mapping[str, Any]) -> str:
    return effect if isinstance(effect, str) else str(effect["name"])


def _name(stem: str) -> str:
    """Return a scenario's name from a file's: letters, digits, dots and dashes."""
    return re.sub(r"[^\w.+-]", "_", stem).strip(".") or "calibrated"


def _transfers(measured: Measured) -> list[dict[str, Any]]:
    moved = measured.moved
    columns = (moved.sent.tolist(), moved.client.tolist(), moved.upload.tolist(), moved.nbytes.tolist())
    return [
        {"start_s": sent, "client": client, "direction": "up" if upload else "down", "bytes": nbytes}
        for sent, client, upload, nbytes in zip(*columns, strict=True)
    ]

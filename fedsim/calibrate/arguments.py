"""The flags of `python -m fedsim.calibrate`, their help, and what their texts mean."""

import argparse
from pathlib import Path

import numpy as np

from analysis import terminal
from fedsim.calibrate.fit import DOWN, RTT, UP
from fedsim.core import table, units
from fedsim.core.arrays import Floats
from fedsim.core.errors import UserError
from fedsim.point.build import fleet

EXAMPLES = """examples:
  python -m fedsim.calibrate runs/pilot --out clients.csv
      clients.csv, and clients.yaml, which repeats the run with these clients
  python -m fedsim.calibrate runs/pilot/089112bd1abb --out clients.csv
      the same for one run of results that hold several
  python -m fedsim.calibrate runs/pilot --until 50% --out clients.csv
      fit to the first half, and say how well that predicts the second
  python -m fedsim.calibrate transfers.csv --out clients.csv
      from measurements of any kind, a line a transfer:
        client,direction,bytes,start_s,end_s,operations
        0,down,1200000,0.0,2.41,
        0,work,0,2.41,3.1,5e9
        0,up,1200000,3.1,7.0,
  python -m fedsim.calibrate transfers.csv --scenario study.yaml --out clients.csv
      the same, for the network and protocol of a scenario
  python -m fedsim.calibrate runs/pilot --known pings.csv --out clients.csv
      round trips (a column rtt_ms beside client) that were measured otherwise

Then: python -m fedsim clients.yaml

exit codes:
  0    done
  2    a mistake in what was given (one message, nothing written)
  130  interrupted with Ctrl-C
"""
PLACES = {"rtt_ms": (RTT, 1e-3), "uplink_mbps": (UP, 1e6), "downlink_mbps": (DOWN, 1e6)}


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    prog, about = "python -m fedsim.calibrate", "Fit a table of clients to the transfers and the work of a run."
    parser = terminal.parser(prog, about, EXAMPLES, f"{prog} RUN|CSV --out clients.csv [options]")
    add = parser.add_argument
    add("run", type=Path, metavar="RUN|CSV", help="a folder of results or of one run, or a CSV of transfers")
    add("--out", type=Path, required=True, metavar="TABLE", help="the table; the scenario gets the same name, .yaml")
    add("--force", action="store_true", help="replace files that are there already")
    add("--until", metavar="TIME", help="fit to what ended by then, predict the rest: 50%% of the run, or 10 min")
    add("--known", type=Path, metavar="TABLE", help="a table of clients with values that are not to be fitted")
    add("--losses", action="store_true", help="take wire bytes beyond headers for packets that were sent again")
    add("--operations", type=float, metavar="N", help="floating-point operations of every job, if the run cannot tell")
    add("--scenario", type=Path, metavar="FILE", help="with a CSV: whose network, protocol and learning to take")
    add("--data", type=Path, metavar="DIR", help="the folder of data sets (default: $FEDSIM_DATA or ~/.cache/fedsim)")
    add("--all", action="store_true", help="list all clients, not the first ones only")
    add("--no-plugins", action="store_true", help="refuse scenarios with parts that are not fedsim's own")
    return parser


def until(text: str | None, end: float) -> float:
    """Return the second of the run up to which to fit; infinity without a text.  Raises UserError for a wrong one."""
    if text is None:
        return float("inf")
    try:
        seconds = units.fraction(text) * end
    except ValueError:
        try:
            seconds = units.SECONDS.parse(text)
        except ValueError:
            message = f"--until {text}: write a share of the run, such as 50%, or a time, such as '10 min'"
            raise UserError(message) from None
    if not 0 < seconds < end:
        raise UserError(f"--until {text}: the run ends at {end:.6g} s; give a time within it")
    return seconds


def known(path: Path | None, clients: int) -> tuple[Floats, Floats]:
    """Return known links (K, 3) and speeds (K,), NaN where unknown.  Raises UserError for an invalid table."""
    links, speeds = np.full((clients, 3), np.nan), np.full(clients, np.nan)
    if path is None:
        return links, speeds
    columns, lines = table.read_lines(path, fleet.COLUMNS)
    rows = columns["client"]
    if beyond := [(int(line), int(row)) for line, row in zip(lines, rows, strict=True) if row >= clients]:
        line, row = beyond[0]
        raise table.fault(path, line, f"client {row}: the run has {clients} clients, numbered from 0")
    for name, (place, unit) in PLACES.items():
        if name in columns:
            links[rows, place] = columns[name] * unit
    if "gflops" in columns:
        speeds[rows] = columns["gflops"] * 1e9
    if np.isnan(links).all() and np.isnan(speeds).all():
        raise UserError(f"--known {path}: has none of {', '.join(PLACES)}, gflops; leave it out, or add one")
    return links, speeds

"""`python -m fedsim.calibrate RUN --out clients.csv`: fit clients to a run, and write a scenario that repeats it."""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from analysis import terminal
from fedsim.calibrate import arguments, fleet_fit, losses, quality, run_tables, shown, source, speeds, written
from fedsim.calibrate.fleet_fit import Fleet
from fedsim.calibrate.measured import Floats, Measured, Worked
from fedsim.calibrate.speeds import Speeds
from fedsim.core import shipped
from fedsim.core.errors import UserError
from fedsim.sweep.simulation import data_folder


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    given = arguments.parser().parse_args(words)
    near = [Path.cwd(), *([given.scenario.parent] if given.scenario else [])]
    try:
        with shipped.within_reach(*([] if given.no_plugins else near)):
            lines = command(given)
    except UserError as error:
        print(f"fedsim.calibrate: {error}", file=sys.stderr)
        return 2
    print(*lines, sep="\n")
    return 0


def command(given: argparse.Namespace) -> list[str]:
    """Fit, write the files, and return the lines to print.  Raises UserError for a mistake; then nothing is written."""
    measured = source.read(given.run, given.scenario, given.no_plugins)
    written.refuse(given.out, measured, given.force)
    until = arguments.until(given.until, measured.end)
    known_links, known_speeds = arguments.known(given.known, measured.clients)
    forward, server = source.forward(measured.scenario, measured.carried), source.server(measured.scenario)
    worked, unknown = with_operations(given, measured)
    measured = replace(measured, worked=worked)
    early, done = quality.within(measured, until)
    if not (measured.moved.whole & early).any():
        raise UserError(f"--until {given.until}: no message had arrived by then; give a later time")
    lost = losses.fitted(source.constants(measured.scenario), measured.moved.take(early), measured.clients)
    given_losses = lost if given.losses else np.zeros_like(lost)
    stated = source.links(measured.scenario) if measured.carried and measured.scenario else None
    fleet = fleet_fit.fitted(forward, measured.moved.take(early), server, known_links, given_losses, stated)
    computers = source.computers(measured.scenario) if stated is not None and measured.scenario else None
    fast = with_known(speeds.fitted(worked.take(done), measured.clients, computers), known_speeds)
    if stated is None:
        fleet = replace(fleet, crowded=fleet_fit.crowding(measured.moved, fleet.values, server))
    else:
        fleet = replace(fleet, crowded=np.zeros(len(measured.moved), dtype=bool))
    predicted = fleet.predicted(forward, measured.moved)
    width, notes = terminal.width(), [*measured.notes]
    if stated is not None and measured.scenario is not None:
        measured = replace(measured, scenario=source.with_carrier(measured.scenario, fast.constant, *fleet.carrier))
        notes.append(shown.carrier(measured.started, until, *fleet.carrier))
    lines = [*shown.clients(measured, fleet, fast, predicted, width, given.all), ""]
    lines += shown.parts([*parts(measured, fleet, fast, predicted, until)], width)
    notes += shown.remedies(measured, fleet, fast, measured.moved.take(early))
    if unknown:
        notes.append(f"speeds are not fitted: {unknown}")
    if lost.any():
        share = f"up to {100 * lost.max():.2g} % of a client's packets were sent again"
        notes.append(f"{share}, fitted as losses" if given.losses else f"{share}: --losses fits such losses too")
        if forward.connecting.keeps:
            notes.append(
                "losses have shrunk the windows of kept connections, which is not predicted: expect large errors"
            )
    if crowded := int((fleet.crowded & measured.moved.whole).sum()):
        notes.append(f"{crowded} messages may have waited for the server's link; they are not in these errors")
    made = written.write(given.out, measured, fleet.values, given_losses, fast.values)
    notes += [*made.notes, f"written: {', '.join(map(str, made.files))}", f"then: python -m fedsim {made.files[1]}"]
    return lines + [line for note in notes for line in terminal.wrapped(note, width, hanging="  ")]


def with_operations(given: argparse.Namespace, measured: Measured) -> tuple[Worked, str]:
    """Return the jobs with their operations, and why there are none ("" if there are)."""
    if given.operations is not None:
        if not 0 < given.operations < math.inf:
            raise UserError(f"--operations {given.operations:g}: give a number above 0, such as 5e9")
        worked = measured.worked
        return replace(worked, operations=np.full(len(worked), given.operations)), ""
    arrivals = None if given.run.is_file() else run_tables.point_of(given.run) / "arrivals.parquet"
    return speeds.with_operations(measured, arrivals, data_folder(given.data))


def with_known(found: Speeds, known: Floats) -> Speeds:
    """Return the speeds with those that are known in their place."""
    given = ~np.isnan(known)
    return replace(found, values=np.where(given, known, found.values), sure=found.sure | given)


def parts(measured: Measured, found: Fleet, fast: Speeds, predicted: Floats, until: float) -> Iterator[shown.Part]:
    """Yield the errors of the part of a run that was fitted, and of the rest if there is one."""
    calm = np.where(found.crowded, math.nan, predicted)
    jobs, seconds = speeds.predicted(measured.worked, fast), measured.worked.end - measured.worked.start
    own, work = quality.within(measured, until)
    split = until < math.inf
    sides = [(f"up to {until:.4g} s (fitted)" if split else "of all", own, work, 0.0, until)]
    sides += [(f"after {until:.4g} s (predicted)", ~own, ~work, until, math.inf)] * split
    for name, mine, done, begin, end in sides:
        yield shown.Part(
            name,
            quality.errors(calm[mine], measured.moved.seconds[mine]),
            quality.errors(jobs[done], seconds[done]),
            quality.errors(*quality.rounds(measured, calm, jobs, begin, end)),
        )


if __name__ == "__main__":
    sys.exit(main())

"""`python -m fedsim.calibrate RUN --out clients.csv`: fit clients to a run, and write a scenario that repeats it."""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from analysis import terminal
from fedsim.calibrate import arguments, fleet_fit, network, output, quality, report, speeds, tables
from fedsim.calibrate.measured import Measurements, Worked
from fedsim.core.arrays import Floats
from fedsim.core.errors import UserError, exit_code
from fedsim.scenario.parts import lookup
from fedsim.sweep.simulation import data_folder


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    given = arguments.parser().parse_args(words)
    near = [Path.cwd(), *([given.scenario.parent] if given.scenario else [])]
    with lookup.within_reach(*([] if given.no_plugins else near)):
        return exit_code("fedsim.calibrate", partial(command, given), "nothing was written")


def command(given: argparse.Namespace) -> int:
    """Fit, write the files, and print the results.  Raises UserError for a mistake; then nothing is written."""
    measured = tables.read(given.run, given.scenario, given.no_plugins)
    output.refuse(given.out, measured, given.force)
    until = arguments.until(given.until, measured.end)
    known_links, known_speeds = arguments.known(given.known, measured.clients)
    forward, scenario = network.forward(measured.scenario, measured.carried), measured.scenario
    worked, unknown = with_operations(given, measured)
    measured = replace(measured, worked=worked)
    early, done = quality.within(measured, until)
    if not (measured.moved.whole & early).any():
        raise UserError(f"--until {given.until}: no message had arrived by then; give a later time")
    moved, server = measured.moved.take(early), network.server(scenario)
    lost = fleet_fit.lost(network.constants(scenario), moved, measured.clients)
    losses = lost if given.losses else np.zeros_like(lost)
    links, computers = network.stated(scenario) if measured.carried and scenario else (None, None)
    fleet = fleet_fit.fitted(forward, moved, server, known_links, losses, links)
    fast = speeds.fitted(worked.take(done), measured.clients, computers).with_known(known_speeds)
    carried = links is not None
    congested = fleet_fit.congestion(measured.moved, fleet.values, server)
    fleet = replace(fleet, congested=congested & (not carried))
    predicted = fleet.predicted(forward, measured.moved)
    if carried and scenario is not None:
        measured = replace(measured, scenario=network.with_carrier(scenario, fast.constant, *fleet.carrier))
    width = terminal.width()
    lines = [*report.clients(measured, fleet, fast, predicted, width, given.all), ""]
    lines += report.parts([*parts(measured, fleet, fast, predicted, until)], width)
    notes = [*measured.notes, *([report.carrier(measured.started, until, *fleet.carrier)] if carried else [])]
    notes += report.remedies(measured, fleet, fast, moved)
    notes += [f"speeds are not fitted: {unknown}"] if unknown else []
    notes += report.losses(lost, given.losses, forward.connections.kind == "kept")
    notes += report.congestion(int((fleet.congested & measured.moved.whole).sum()))
    notes += output.write(given.out, measured, fleet.values, losses, fast.values)
    files = output.files_of(given.out, measured)
    notes += [f"written: {', '.join(map(str, files))}", f"then: python -m fedsim {files[1]}"]
    lines += [line for note in notes for line in terminal.wrapped(note, width, hanging="  ")]
    print(*lines, sep="\n")
    return 0


def with_operations(given: argparse.Namespace, measured: Measurements) -> tuple[Worked, str]:
    """Return the jobs with their operations, and why there are none ("" if there are)."""
    if given.operations is not None:
        if not 0 < given.operations < math.inf:
            raise UserError(f"--operations {given.operations:g}: give a number above 0, such as 5e9")
        worked = measured.worked
        return replace(worked, operations=np.full(len(worked), given.operations)), ""
    arrivals = None if given.run.is_file() else tables.point_of(given.run) / "arrivals.parquet"
    return speeds.with_operations(measured, arrivals, data_folder(given.data))


def parts(
    measured: Measurements, fleet: fleet_fit.Fleet, fast: speeds.Speeds, predicted: Floats, until: float
) -> Iterator[report.PartErrors]:
    """Yield the errors of the part of a run that was fitted, and of the rest if there is one."""
    messages = np.where(fleet.congested, math.nan, predicted)
    jobs, seconds = speeds.predicted(measured.worked, fast), measured.worked.seconds
    early, done = quality.within(measured, until)
    split = until < math.inf
    sides = [(f"up to {until:.4g} s (fitted)" if split else "of all", early, done, 0.0, until)]
    sides += [(f"after {until:.4g} s (predicted)", ~early, ~done, until, math.inf)] * split
    for name, rows, work, begin, end in sides:
        of_messages = quality.errors(messages[rows], measured.moved.seconds[rows])
        of_jobs = quality.errors(jobs[work], seconds[work])
        of_rounds = quality.errors(*quality.rounds(measured, messages, jobs, begin, end))
        yield report.PartErrors(name, of_messages, of_jobs, of_rounds)


if __name__ == "__main__":
    sys.exit(main())

"""The command line: read a scenario, check it, run its points and show the results.

Exit codes: 0 done, 1 a point failed, 2 a mistake of the user (one message, nothing written) or results that can no
longer be written (one message, finished points kept), 130 Ctrl-C.
"""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import json
import math
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from analysis import terminal
from analysis.axes import short
from fedsim.core import kernels
from fedsim.core.asking import asking_once
from fedsim.core.errors import UserError, exit_code
from fedsim.point.checks import check
from fedsim.scenario.parts import lookup
from fedsim.scenario.schema import Point, Scenario
from fedsim.scenario.text import yaml_file
from fedsim.scenario.text.yaml_file import Document
from fedsim.sweep import arguments, as_json, listing, starter

LISTED = 20  # points that a dry run lists one by one
CHECKED = "Every name and option is valid; nothing was run, and no data was loaded (--data DIR or --explain loads it)."
LOADED = "Every name and option is valid, and the data can be used; nothing was run."


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    words = sys.argv[1:] if words is None else words
    if not words:
        arguments.parser().print_help()
        return 0
    given = arguments.parser().parse_args(words)
    if given.native_math:
        kernels.let_native()
    folders = [Path.cwd(), *([given.scenario.parent] if given.scenario else [])]  # of a scenario's own modules
    with lookup.within_reach(*(() if given.no_plugins else folders)):
        return exit_code("fedsim", partial(command, given), "finished runs are kept, the same command continues")


def command(given: argparse.Namespace) -> int:
    """Do what the parsed arguments ask for.  Raises UserError for a mistake in them or in the scenario."""
    console = terminal.console(stderr=given.json)
    if given.json and (given.init or given.tried or given.tune):
        raise UserError("--json is for --list, --dry-run, --explain, --status and runs: leave it out")
    if given.schema:
        print(json.dumps(Scenario.model_json_schema(), indent=2, ensure_ascii=False))
        return 0
    if given.list is not None:
        with asking_once():
            kinds, names = listing.chosen(given.list)
            if given.json:
                print(as_json.parts(kinds, names))
            else:
                listing.show(console, kinds, names)
        return 0
    if given.tried is not None:
        return try_out(given, console)
    if given.init is not None:
        console.print(starter.write(given.init, given.study or "algorithm"), soft_wrap=True)
        return 0
    if given.study:
        raise UserError("--with says of what --init FOLDER writes a study; give both, or leave it out")
    if given.demo and given.scenario:
        raise UserError(f"--demo is a scenario of its own: leave out {given.scenario} or --demo")
    given.scenario = starter.DEMO if given.demo else given.scenario
    if given.scenario is None:
        raise UserError(
            "name a scenario file, as in: python -m fedsim scenarios/sparse_clients.yaml (or try --demo; see --help)"
        )
    if given.tune_lr and not given.tune:
        raise UserError("--tune-lr says what else --tune N searches; give both, or leave it out")
    if given.tune and (given.trace or given.log):
        raise UserError("--trace and --log record the runs of a scenario, --tune searches for others; give one of them")
    scenario, document = yaml_file.load(given.scenario, given.set)
    given.out = given.out or Path("runs") / scenario.name
    points = check.planned(scenario, document, given.no_plugins)
    check.hold(points, document, whole=True)
    if given.dry_run:
        noted = check.check_data(points, document, given.data) if given.data else []
        if given.json:
            print(as_json.planned(points, [*check.notes(points), *noted]))
            return 0
        show(console, points, given.verbose, [LOADED if given.data else CHECKED, *noted])
        return 0
    do = explain if given.explain else tune if given.tune else tell if given.status else run
    with document.located():
        return do(given, scenario, document, points, console)


def try_out(given: argparse.Namespace, console: Console) -> int:
    """Try an algorithm and return the exit code."""
    from fedsim.trial import command

    others = {
        "a scenario": given.scenario, "--set": given.set, "--trace": given.trace, "--log": given.log,
        "--out": given.out,
    }  # fmt: skip
    if given.no_plugins:
        raise UserError("--try runs the algorithm's code, which --no-plugins forbids; give one of them")
    if wrong := [flag for flag, value in others.items() if value]:
        message = f"--try checks an algorithm on data of its own and runs no scenario: leave {wrong[0]} out"
        raise UserError(f"{message}; the algorithm's options follow its name, as in: --try fedprox mu=0.1")
    return command.run(given.tried, console)


def explain(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Explain the scenario and return the exit code."""
    from fedsim.sweep import explain as explanation
    from fedsim.sweep.simulation import data_folder

    data = data_folder(given.data)
    for note in [*check.notes(points), *check.check_data(points, document, data, keep=True)]:
        console.print(note, soft_wrap=True)
    if given.json:
        print(as_json.text(explanation.estimates(points, data, given.verbose)))
    else:
        explanation.explain(console, scenario, points, data, given.verbose)
    return 0


def tell(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Say how far the scenario's runs are, and return the exit code."""
    from fedsim.sweep.runner import Sweep
    from fedsim.sweep.status import lines, status

    found = status(Sweep(points, "", given.out, Path()))
    if given.json:
        print(as_json.text(found))
    else:
        console.print(*lines(found, given.verbose), sep="\n", soft_wrap=True)
    return 0


def run(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Run the points and return the exit code."""
    from analysis import logger
    from fedsim.point.run import run as run_point
    from fedsim.sweep import final_table
    from fedsim.sweep.engines.choose import choose
    from fedsim.sweep.observed import LoggingDisplay
    from fedsim.sweep.runner import Sweep
    from fedsim.sweep.simulation import as_given, check_data, data_folder, write_report

    out, loggers = given.out, logger.asked_for(given.log, given.trace, given.log_to)
    if given.set and given.scenario.resolve() == (out / "scenario.yaml").resolve():
        raise UserError(f"{given.scenario} would be replaced, with what --set changes: give another --out")
    sweep = Sweep(
        points, as_given(document), out, data_folder(given.data), not given.no_following, not given.no_plugins
    )
    left = sweep.unfinished(given.fresh)
    where = choose(given, len(left))
    with where:
        notes = check_data(where, left, document, sweep.data)
        with LoggingDisplay(console, loggers, scenario.name, sweep) as display:
            rows = sweep.run(partial(run_point, every=given.checkpoint), where, display, given.fresh, notes)
    final_table.show(console, rows, [*points[0].axes], out)
    report = None
    if not given.no_report and any(row["status"] == "done" for row in rows):
        report = write_report(out, out / "report")
        console.print(f"report: {report}", soft_wrap=True)
    if given.json:
        print(as_json.ended(rows, out, report))
    return 1 if display.not_logged or any(row["status"] == "failed" for row in rows) else 0


def tune(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Tune the options of the scenario's algorithms and return the exit code."""
    from fedsim.point.results.folders import refuse_links
    from fedsim.point.run import run as run_point
    from fedsim.sweep.display import Display
    from fedsim.sweep.engines.choose import choose
    from fedsim.sweep.simulation import as_given, check_data, data_folder
    from fedsim.sweep.tune import command
    from fedsim.sweep.tune.bench import TrialRunner

    out, data = given.out, data_folder(given.data)
    refuse_links(out)  # trials have a folder in it
    engine = choose(given)
    with engine:
        check_data(engine, points, document, data)
        bench = TrialRunner(
            out / "tuning", as_given(document), data, partial(run_point, every=given.checkpoint), engine,
            Display(console), given.fresh, not given.no_following, not given.no_plugins,
        )  # fmt: skip
        return command.tune(scenario, document, points, given.tune, bench, console, given.tune_lr)


def show(console: Console, points: Sequence[Point], every: bool, checked: Sequence[str]) -> None:
    """Print the points as a table, or their axes, and the first one's resolved scenario, or every one's.

    `checked` says first what was checked, and then what the data are noted for.
    """
    varying = [axis for axis in points[0].axes if len({str(point.axes[axis]) for point in points}) > 1]
    same = ", ".join(f"{axis} {value}" for axis, value in points[0].axes.items() if axis not in varying)
    notes = [
        f"{len(points)} run{'s' * (len(points) > 1)}. {checked[0]}",
        *([f"The same in all: {same}"] if same else []),
        *check.notes(points),
        *checked[1:],
    ]
    for note in notes:
        print(*terminal.wrapped(note, console.width), sep="\n")
    if every or len(points) <= LISTED:
        values = [[point.id, *(str(point.axes[axis]) for axis in varying)] for point in points]
        for line in terminal.table(["run", *map(short, varying)], values, console.width):
            print(line)
    else:
        summarise(points, varying, console.width)
    for point in points if every else points[:1]:
        print(f"\n# run {point.id}\n{yaml_file.dump(point.scenario)}", end="")


def summarise(points: Sequence[Point], varying: Sequence[str], width: int) -> None:
    """Print a line for each axis with its values, and whether the points are every combination of these."""
    values = {axis: dict.fromkeys(str(point.axes[axis]) for point in points) for axis in varying}
    for axis, known in values.items():
        print(*terminal.wrapped(f"{short(axis)} ({len(known)}): {', '.join(known)}", width, "  ", "      "), sep="\n")
    every = math.prod(map(len, values.values())) == len(points)
    which = "Every combination of these" if every else "Not every combination of these"
    print(*terminal.wrapped(f"{which}; -v lists all {len(points)} runs. The first one:", width), sep="\n")


if __name__ == "__main__":
    sys.exit(main())

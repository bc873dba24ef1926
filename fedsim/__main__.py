"""The command line: reads a scenario, checks it, runs its points, shows what came of them.

Exit codes: 0 done, 1 a point failed, 2 a mistake of the user (one message, nothing written) or results that cannot be
written any more (one message, finished points kept), 130 Ctrl-C.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from fedsim import arguments, check, find, listing, scenario_file
from fedsim.errors import ScenarioError, UserError
from fedsim.scenario import Point, Scenario
from fedsim.scenario_file import Document

if TYPE_CHECKING:
    from analysis.logger import Logger
    from fedsim.engines.local import Local
    from fedsim.engines.ray import Ray


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = arguments.parser().parse_args(words)
    if given.schema:
        print(schema())
        return 0
    if given.list:
        listing.show(console(), [*find.KINDS] if given.list == "all" else [given.list])
        return 0
    here = str(Path.cwd())
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)  # so that dotted names of parts are found
    try:
        return command(given)
    except UserError as error:
        print(f"fedsim: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fedsim: interrupted; finished points are kept, the same command continues", file=sys.stderr)
        return 130
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def command(given: argparse.Namespace) -> int:
    """Do what the parsed arguments ask for.  Raises UserError for a mistake in them or in the scenario."""
    if given.scenario is None:
        raise UserError("name a scenario file, as in: python -m fedsim scenarios/sparse_clients.yaml (or see --help)")
    scenario, document = scenario_file.load(given.scenario, given.set)
    points = check.planned(scenario, document)
    if given.tune and given.dry_run:
        raise UserError("--dry-run shows the points of a scenario, --tune looks for others; give one of them")
    if given.tune and (given.trace or given.log):
        raise UserError("--trace and --log tell the points of a scenario, --tune looks for others; give one of them")
    if given.dry_run:
        show(console(), scenario, points, given.verbose)
        return 0
    check.hold(points, document, whole=True)
    if given.explain:
        return tell(given, scenario, document, points)
    return (tune if given.tune else run)(given, scenario, document, points, console())


def console() -> Console:
    """Return a console on the standard output: as wide as a terminal, or wide enough for tables."""
    return Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)


def tell(given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point]) -> int:
    """Explain the scenario and return the exit code."""
    from fedsim.explain import explain
    from fedsim.simulation import data_folder

    try:
        explain(console(), scenario, points, data_folder(given.data), given.verbose)
    except ScenarioError as error:
        raise document.error(error.problems) from None
    return 0


def run(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Run the points and return the exit code."""
    from fedsim.display import Display, refusals, results
    from fedsim.observed import Observed
    from fedsim.run import run as run_point
    from fedsim.simulation import as_given, data_folder, write_report
    from fedsim.sweep import Sweep

    out, found = given.out or Path("runs") / scenario.name, loggers(given)
    sweep = Sweep(points, as_given(document), out, data_folder(given.data))
    left = len(sweep.unfinished(given.fresh))
    try:
        with engine(given, left) as where, Display(console) as display:
            watcher = Observed(display, found, scenario.name, out, points)
            rows = sweep.run(partial(run_point, every=given.checkpoint), where, watcher, given.fresh)
    except ScenarioError as error:
        raise document.error(error.problems) from None
    console.print(results(rows, [*points[0].axes]))
    if told := refusals(rows):
        console.print(told, soft_wrap=True)
    if not given.no_report and any(row["status"] == "done" for row in rows):
        console.print(f"report: {write_report(out, out / 'report')}", soft_wrap=True)
    return 1 if watcher.failures or any(row["status"] == "failed" for row in rows) else 0


def loggers(given: argparse.Namespace) -> "list[Logger]":
    """Return the loggers that the flags ask for.  Raises UserError where the package of one is not installed."""
    from analysis import logger

    try:
        return logger.asked_for(given.log, given.trace, given.log_to)
    except logger.LogError as error:
        raise UserError(str(error)) from None


def tune(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Look for the options of the scenario's algorithms and return the exit code."""
    from fedsim.display import Display
    from fedsim.run import run as run_point
    from fedsim.simulation import as_given, data_folder
    from fedsim.tune import command
    from fedsim.tune.bench import Bench

    out, data = given.out or Path("runs") / scenario.name, data_folder(given.data)
    run_each = partial(run_point, every=given.checkpoint)
    with engine(given) as where:
        bench = Bench(out / "tuning", as_given(document), data, run_each, where, Display(console), given.fresh)
        return command.tune(scenario, document, points, given.tune, bench, console)


def engine(given: argparse.Namespace, points: int | None = None) -> "Local | Ray":
    """Return the engine that the flags ask for, not started; None where the number of points is not known."""
    from fedsim.engines.choose import choose

    return choose(given.engine, given.jobs, given.gpus_per_point, given.ray_address, points)


def show(console: Console, scenario: Scenario, points: Sequence[Point], every: bool) -> None:
    """Print the points as a table, and the first one's resolved scenario, or every one's."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("point", *points[0].axes):
        table.add_column(column, no_wrap=True)
    for point in points:
        table.add_row(point.id, *(str(value) for value in point.axes.values()))
    console.print(table)
    for point in points if every else points[:1]:
        print(f"\n# point {point.id}\n{scenario_file.dump(point.scenario)}", end="")


def schema() -> str:
    """Return the JSON schema of scenario files, for editors."""
    return json.dumps(Scenario.model_json_schema(), indent=2, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(main())

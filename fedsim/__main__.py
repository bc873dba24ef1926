"""The command line: reads a scenario, checks it, runs its points, shows what came of them.

Exit codes: 0 done, 1 a point failed, 2 a mistake of the user (one message, nothing written), 130 Ctrl-C.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from fedsim import __version__, check, scenario_file
from fedsim.errors import Problem, ScenarioError, UserError
from fedsim.scenario import Point, Scenario
from fedsim.scenario_file import Document

if TYPE_CHECKING:
    from fedsim.engines.local import Local
    from fedsim.engines.ray import Ray

EXAMPLES = """examples:
  python -m fedsim scenarios/sparse_clients.yaml
  python -m fedsim scenarios/sparse_clients.yaml --dry-run
  python -m fedsim scenarios/sparse_clients.yaml --set clients.count=5 --set "grid.seed=[0, 1]" --out runs/small
  python -m fedsim scenarios/cora_continual.yaml --tune 20                     # 20 trials for each algorithm
  python -m fedsim --schema > scenarios/schema.json

The same command again continues: finished points are skipped.
Exit codes: 0 done, 1 a point failed (the others still finish), 2 a mistake in what was given, 130 Ctrl-C.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    given = parser().parse_args(arguments)
    if given.schema:
        print(schema())
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
    try:
        points = [*scenario.points()]
    except ScenarioError as error:
        raise document.error(error.problems) from None
    refuse(document, check.points(points))
    if given.tune and given.dry_run:
        raise UserError("--dry-run shows the points of a scenario, --tune looks for others; give one of them")
    console = Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)
    if given.dry_run:
        show(console, scenario, points, given.verbose)
        return 0
    refuse(document, check.points(points, whole=True))
    return (tune if given.tune else run)(given, scenario, document, points, console)


def run(
    given: argparse.Namespace, scenario: Scenario, document: Document, points: list[Point], console: Console
) -> int:
    """Run the points and return the exit code."""
    from fedsim.display import Display, refusals, results
    from fedsim.run import run as run_point
    from fedsim.simulation import as_given, data_folder
    from fedsim.sweep import Sweep

    out = given.out or Path("runs") / scenario.name
    sweep = Sweep(points, as_given(document), out, data_folder(given.data))
    left = len(sweep.unfinished(given.fresh))
    try:
        with engine(given, left) as where, Display(console) as display:
            rows = sweep.run(run_point, where, display, given.fresh)
    except ScenarioError as error:
        raise document.error(error.problems) from None
    console.print(results(rows, [*points[0].axes]))
    if told := refusals(rows):
        console.print(told, soft_wrap=True)
    if not given.no_report and any(row["status"] == "done" for row in rows):
        from analysis import report, stored

        try:
            page = report.write([out], out / "report")
        except (stored.NotARunError, OSError) as error:
            raise UserError(f"the points are done, but there is no report: {error}") from None
        console.print(f"report: {page}", soft_wrap=True)
    return 1 if any(row["status"] == "failed" for row in rows) else 0


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
    with engine(given) as where:
        bench = Bench(out / "tuning", as_given(document), data, run_point, where, Display(console), given.fresh)
        return command.tune(scenario, document, points, given.tune, bench, console)


def engine(given: argparse.Namespace, points: int | None = None) -> "Local | Ray":
    """Return the engine that the flags ask for, not started; None where the number of points is not known."""
    from fedsim.engines.choose import choose

    return choose(given.engine, given.jobs, given.gpus_per_point, given.ray_address, points)


def refuse(document: Document, problems: Sequence[Problem]) -> None:
    """Raise the problems, if there are any, as a UserError that names their places."""
    if problems:
        raise document.error(problems)


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


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m fedsim",
        description="Run every point of a scenario's grid and keep tables, a summary and a report of them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("scenario", nargs="?", type=Path, metavar="SCENARIO", help="a YAML file, see scenarios/")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a dotted key; may be repeated")
    add("--out", type=Path, metavar="DIR", help="the folder of the results (default: runs/NAME)")
    add(
        "--tune",
        type=_count("trials"),
        metavar="N",
        help="N trials for each algorithm; then the best options as a scenario",
    )
    add(
        "--jobs",
        type=_count("processes"),
        metavar="N",
        help="points at the same time (default: as many as CPU cores, at most)",
    )
    add("--engine", choices=["local", "ray"], default="local", help="where the points run: here, or on a Ray cluster")
    add("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a Ray of this machine's own)")
    add(
        "--gpus-per-point",
        type=_gpus,
        metavar="N",
        help="with --engine ray: the share of a GPU for each point, as 0.25",
    )
    add("--data", type=Path, metavar="DIR", help="the folder of data sets (default: $FEDSIM_DATA or ~/.cache/fedsim)")
    add("--fresh", action="store_true", help="remove earlier results of this scenario first")
    add("--no-report", action="store_true", help="make no report at the end")
    add("--dry-run", action="store_true", help="check the scenario, print its points and the first one in full")
    add("-v", "--verbose", action="store_true", help="with --dry-run: print every point in full")
    add("--schema", action="store_true", help="print the JSON schema of scenario files")
    add("--version", action="version", version=f"fedsim {__version__}")
    return made


def _count(what: str) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what} of at least 1")
        return int(text)

    return parsed


def _gpus(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf or (number > 1 and number != int(number)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a fraction of a GPU, as 0.25, nor a whole number of them"
        )
    return number


if __name__ == "__main__":
    sys.exit(main())

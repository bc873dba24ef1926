"""`python -m fedsim.deploy scenario.yaml`: run a scenario on real machines, with Flower to carry its messages.

Exit codes are those of `python -m fedsim`: 0 done, 1 a point failed, 2 a mistake of the user, 130 Ctrl-C.
"""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis import terminal
from fedsim.core import kernels
from fedsim.core.errors import Problem, ScenarioError, UserError, exit_code
from fedsim.net.topologies.star import Star
from fedsim.point.build.parts import Parts
from fedsim.point.checks import check
from fedsim.scenario.parts import lookup
from fedsim.scenario.schema import Point
from fedsim.scenario.text import yaml_file
from fedsim.sweep.arguments import add_common

PROTOCOLS = ("sync", "deadline", "one_shot")  # that can be deployed
EXAMPLES = """\
examples:
  python -m fedsim.deploy scenarios/pilot.yaml                a SuperLink and a SuperNode for each client, here
  python -m fedsim.deploy scenarios/pilot.yaml --package pkg  write each client's package, to copy to its host
  python -m fedsim.deploy scenarios/pilot.yaml --superlink my-link
                                       through a SuperLink of Flower's configuration, whose clients have these packages

docs/deploy.md shows a deployment on several hosts.
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        "python -m fedsim.deploy", description="Run a scenario on real machines, with Flower to carry its messages.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("scenario", type=Path, help="the scenario's YAML file")
    add("--package", type=Path, metavar="DIR", help="write each client's package there, and run nothing")
    add("--superlink", metavar="NAME", help="a SuperLink of Flower's configuration that is running")
    add_common(parser, "runs/NAME-deployed")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    given = parser().parse_args(words)
    if given.native_math:
        kernels.let_native()
    with lookup.within_reach(Path.cwd(), given.scenario.parent):
        run = partial(command, given, terminal.console())
        return exit_code("fedsim.deploy", run, "a run that was under way starts again")


def command(given: argparse.Namespace, console: Console) -> int:
    """Do what the arguments ask for.  Raises UserError for a mistake in them or in the scenario."""
    from fedsim.sweep.simulation import data_folder

    scenario, document = yaml_file.load(given.scenario, given.set)
    points, data = check.planned(scenario, document), data_folder(given.data)
    check.hold(points, document, whole=True)
    with document.located():
        for point in points:
            check_deployable(Parts(point.scenario))
        if (given.package or given.superlink) and len(points) > 1:
            raise UserError(f"{given.scenario} has {len(points)} runs, and each needs packages of its own: choose one")
        if given.package:
            return _package(points[0], data, given.package, console)
        return _run(given, points, document, data, console)


def check_deployable(parts: Parts) -> None:
    """Raise ScenarioError, with the key and the remedy, if a scenario cannot be deployed."""
    if problems := [*_problems(parts)]:
        raise ScenarioError(problems)


def _problems(parts: Parts) -> Iterator[Problem]:
    scenario = parts.scenario
    name = scenario.protocol.name.rpartition(".")[2]
    if name not in PROTOCOLS:
        yield Problem("protocol", f"{name!r} is not deployed; take one of: {', '.join(PROTOCOLS)}")
    if type(parts.topology) is not Star:
        yield Problem("network.topology", "a deployed run has one server that all clients talk with; take 'star'")
    if not parts.algorithm.learns:
        yield Problem("algorithm", "does not train a model and cannot be deployed; simulate it instead")
    if not parts.algorithm.talks:
        yield Problem("algorithm", "sends nothing and cannot be deployed; simulate it instead")
    if scenario.privacy.secure_aggregation.on:
        yield Problem("privacy.secure_aggregation", "is not deployed; leave it out, or simulate it")
    for number, effect in enumerate(parts.effects):
        if effect.forges:
            yield Problem(f"network.effects.{number}", "forged uploads are not deployed; leave it out, or simulate it")
    if scenario.measure.until is not None:
        yield Problem("measure.until", "budgets are not metered in a deployed run; give protocol.rounds instead")
    if scenario.measure.views:
        yield Problem("measure.views", "a deployed run records no views; leave it out")
    if scenario.measure.keep:
        yield Problem("measure.keep", "a deployed run keeps no weights; leave it out")


def _package(point: Point, data: Path, folder: Path, console: Console) -> int:
    from fedsim.deploy import package
    from fedsim.deploy.run import packages

    contents = packages(point.scenario, data)
    for content in contents:
        package.write(folder / f"client-{content.client}", point.scenario, content)
    start = "flower-supernode --superlink HOST:8000 --node-config 'package=\"/path/to/client-0\"'"
    next_step = f"{len(contents)} packages in {folder}; copy each to its client's host, and start there:"
    console.print(f"{next_step}\n{start}", soft_wrap=True)
    return 0


def _run(given: argparse.Namespace, points: list[Point], document: Any, data: Path, console: Console) -> int:
    from fedsim.deploy import federation
    from fedsim.point.results.folders import finished, places
    from fedsim.sweep import final_table
    from fedsim.sweep.display import Display
    from fedsim.sweep.engines.local import Local
    from fedsim.sweep.runner import Sweep
    from fedsim.sweep.simulation import as_given, write_report

    federation.command("flwr")
    out = given.out or Path("runs") / f"{points[0].scenario.name}-deployed"
    sweep = Sweep(points, as_given(document), out, data, following=False)
    run = partial(federation.deployed, superlink=given.superlink, beside=(Path.cwd(), given.scenario.parent))
    with Local(1) as engine, Display(console) as display:
        rows = sweep.run(run, engine, display, given.fresh)
    final_table.show(console, rows, [*points[0].axes], out)
    where = places(out, points)
    for point in points:
        provenance = (finished(where[point.id]) or {}).get("provenance", {})
        for missed in provenance.get("missed", ()):
            console.print(f"{point.id}: {missed}", soft_wrap=True)
        if start := provenance.get("start"):
            transport = f"{{name: flower_supernodes, start: {start:.2g} s}}"
            waited = f"jobs waited {start:.2g} s (median) for a process of Flower's to start"
            note = f"{point.id}: {waited}; network.transport: {transport} simulates that"
            console.print(note, soft_wrap=True)
    if not given.no_report and any(row["status"] == "done" for row in rows):
        console.print(f"report: {write_report(out, out / 'report')}", soft_wrap=True)
    return 1 if any(row["status"] == "failed" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

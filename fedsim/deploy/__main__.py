"""`python -m fedsim.deploy scenario.yaml`: run a scenario on real machines, with Flower to carry its messages.

Exit codes are those of `python -m fedsim`: 0 done, 1 a point failed, 2 a mistake of the user, 130 Ctrl-C.
"""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from analysis import terminal
from fedsim.core import kernels, shipped
from fedsim.core.errors import ScenarioError, UserError
from fedsim.deploy import fits
from fedsim.point import check
from fedsim.point.parts import Parts
from fedsim.scenario import yaml_file
from fedsim.scenario.schema import Point

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
    found = argparse.ArgumentParser(
        "python -m fedsim.deploy", description="Run a scenario on real machines, with Flower to carry its messages.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    found.add_argument("scenario", type=Path, help="the scenario's YAML file")
    found.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set a key of the scenario")
    found.add_argument("--out", type=Path, metavar="DIR", help="folder of the results (runs/NAME-deployed)")
    found.add_argument("--data", type=Path, metavar="DIR", help="folder of data sets ($FEDSIM_DATA, or a cache)")
    found.add_argument("--package", type=Path, metavar="DIR", help="write each client's package there, and run nothing")
    found.add_argument("--superlink", metavar="NAME", help="a SuperLink of Flower's configuration that is running")
    found.add_argument("--fresh", action="store_true", help="remove earlier results of this scenario first")
    found.add_argument("--native-math", action="store_true", help=kernels.HELP)
    found.add_argument("--no-report", action="store_true", help="write no report")
    return found


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    given = parser().parse_args(words)
    if given.native_math:
        kernels.let_native()
    try:
        with shipped.within_reach(Path.cwd(), given.scenario.parent):
            return command(given, terminal.console())
    except UserError as error:
        print(f"fedsim.deploy: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fedsim.deploy: interrupted; a run that was under way starts again", file=sys.stderr)
        return 130


def command(given: argparse.Namespace, console: Console) -> int:
    """Do what the arguments ask for.  Raises UserError for a mistake in them or in the scenario."""
    from fedsim.sweep.simulation import data_folder

    scenario, document = yaml_file.load(given.scenario, given.set)
    points, data = check.planned(scenario, document), data_folder(given.data)
    check.hold(points, document, whole=True)
    try:
        for point in points:
            fits.check(Parts(point.scenario))
        if (given.package or given.superlink) and len(points) > 1:
            raise UserError(f"{given.scenario} has {len(points)} points, and each needs packages of its own: pick one")
        if given.package:
            return _package(points[0], data, given.package, console)
        return _run(given, points, document, data, console)
    except ScenarioError as error:
        raise document.error(error.problems) from None


def _package(point: Point, data: Path, folder: Path, console: Console) -> int:
    from fedsim.deploy import package
    from fedsim.deploy.assemble import packages

    owns = packages(point.scenario, data)
    for own in owns:
        package.write(folder / f"client-{own.client}", point.scenario, own)
    console.print(f"{len(owns)} packages in {folder}; copy each to its client's host, and start there:", soft_wrap=True)
    console.print(
        "flower-supernode --superlink HOST:8000 --node-config 'package=\"/path/to/client-0\"'", soft_wrap=True
    )
    return 0


def _run(given: argparse.Namespace, points: list[Point], document: Any, data: Path, console: Console) -> int:
    from fedsim.deploy.federation import command as flower
    from fedsim.deploy.point import deployed
    from fedsim.point.folders import finished
    from fedsim.sweep import final_table
    from fedsim.sweep.display import Display
    from fedsim.sweep.engines.local import Local
    from fedsim.sweep.runner import Sweep
    from fedsim.sweep.simulation import as_given, write_report

    flower("flwr")
    out = given.out or Path("runs") / f"{points[0].scenario.name}-deployed"
    sweep = Sweep(points, as_given(document), out, data, following=False)
    run = partial(deployed, superlink=given.superlink, beside=(Path.cwd(), given.scenario.parent))
    with Local(1) as engine, Display(console) as display:
        rows = sweep.run(run, engine, display, given.fresh)
    console.print()
    for line in final_table.answer(rows, [*points[0].axes], console.width, console.encoding):
        console.print(line, soft_wrap=True)
    if note := final_table.failures(rows, str(out)):
        console.print(note, soft_wrap=True)
    for point in points:
        told = (finished(out / point.id) or {}).get("provenance", {})
        for missed in told.get("missed", ()):
            console.print(f"{point.id}: {missed}", soft_wrap=True)
        if "start" in told:
            transport = f"{{name: flower_supernodes, start: {told['start']:.2g} s}}"
            console.print(f"{point.id}: jobs waited {told['start']:.2g} s (median) for a process of Flower's to start; "
                          f"network.transport: {transport} simulates that", soft_wrap=True)  # fmt: skip
    if not given.no_report and any(row["status"] == "done" for row in rows):
        console.print(f"report: {write_report(out, out / 'report')}", soft_wrap=True)
    return 1 if any(row["status"] == "failed" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

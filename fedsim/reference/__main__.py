"""`python -m fedsim.reference`: run what the reference table lacks, and write its page.

Exit codes are those of `python -m fedsim`: 0 done, 1 a cell failed, 2 a mistake of the user, 130 Ctrl-C.  A plan may
name own modules of the working folder, unless Python leaves that out of its path (`python -P -m fedsim.reference`).
"""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from rich.console import Console

from analysis import terminal
from fedsim.core import kernels
from fedsim.core.errors import UserError, exit_code
from fedsim.reference import build, page, results, running, trials
from fedsim.reference import plan as plans
from fedsim.reference.plan import Plan
from fedsim.reference.running import Bench, ReferenceFolders

EXAMPLES = """\
examples:
  python -m fedsim.reference                         run what the tables lack, and write docs/reference.md and .html
  python -m fedsim.reference --list                  what the plan has, what is done, and how long it took
  python -m fedsim.reference --hours 1               begin nothing more after an hour; the same command goes on
  python -m fedsim.reference --cell campus/digits/static/power/sync/given/3
                                                     one cell alone, into runs/reference/alone; compare with the table
  python -m fedsim.reference --cell campus/digits/static/power/sync/given         its five seeds
  python -m fedsim.reference --only campus/digits    what the tables lack of a deployment, a setting, a method in it
  python -m fedsim.reference --trials                choose hyper-parameters anew: scenarios/reference/trials.csv
  python -m fedsim.reference --page                  write the page from the tables, and run nothing
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        "python -m fedsim.reference", description="Run the reference table, or continue it, and write its page.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = parser.add_argument
    add("--plan", type=Path, default=plans.FILE, metavar="FILE", help=f"the plan ({plans.FILE})")
    add("--docs", type=Path, default=Path("docs"), metavar="DIR", help="where the page and its tables are (docs)")
    add("--out", type=Path, default=Path("runs/reference"), metavar="DIR", help="folder of the runs (runs/reference)")
    add("--data", type=Path, metavar="DIR", help="folder of data sets ($FEDSIM_DATA, or a cache)")
    add("--only", action="append", default=[], metavar="NAME", help="cells whose names begin so; may be repeated")
    add("--hours", type=float, metavar="N", help="begin no further part after so many hours")
    add("--jobs", type=int, metavar="N", help="runs at the same time (one for each core)")
    add("--engine", choices=["local", "ray"], default="local", help="where cells run: here, or on a Ray cluster")
    add("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a Ray started here)")
    add("--native-math", action="store_true", help=kernels.HELP)
    what = parser.add_mutually_exclusive_group().add_argument
    what("--list", action="store_true", help="say what is done and what is left")
    what("--cell", metavar="NAME", help="run one cell alone, or the seeds of one, and compare it with the table")
    what("--trials", action="store_true", help="run the trials that choose hyper-parameters")
    what("--page", action="store_true", help="write the page alone")
    parser.set_defaults(gpus_per_run=None, no_plugins=bool(sys.flags.safe_path))
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    given = parser().parse_args(words)
    if given.native_math:
        kernels.let_native()
    run = partial(command, given, terminal.console())
    return exit_code("fedsim.reference", run, "finished cells are kept, the same command continues")


def command(given: argparse.Namespace, console: Console) -> int:
    """Do what the arguments ask for.  Raises UserError for a mistake in them or in the plan."""
    from fedsim.point.run import run
    from fedsim.sweep.display import Display
    from fedsim.sweep.engines.choose import choose
    from fedsim.sweep.simulation import data_folder

    plan = plans.read(given.plan)
    place = ReferenceFolders(given.plan.parent.resolve(), given.docs / "reference", given.out, data_folder(given.data))
    if given.list:
        return listed(plan, place, console)
    if given.page:
        return write(plan, place, given.docs, console)
    with choose(given) as engine:
        bench = Bench(run, engine, lambda: Display(console), plugins=not given.no_plugins)
        if given.trials:
            trials.search(plan, place, bench, given.only, without=[*_absent(plan, place, plan.data, console)])
            console.print(f"trials: {place.plan / trials.FILE}", soft_wrap=True)
            return 0
        chosen = trials.chosen(trials.read(place.plan / trials.FILE))
        if given.cell:
            cells, bench = running.named(plan, given.cell), replace(bench, fresh=True)
            if wrong := build.absent(plan, place.plan, [cells[0].data], place.data):
                raise wrong[cells[0].data]
            reruns = [*running.rerun(plan, place, cells, chosen, bench)]
            console.print(*running.lines(reruns, console.width), sep="\n", soft_wrap=True)
            return 1 if any(rerun.clock is False for rerun in reruns) else 0
        known = results.read(place.tables)
        outdated = build.outdated(plan, place.plan, known, chosen, given.only)
        cells = build.missing(plan, known, given.only, outdated)
        absent = _absent(plan, place, (cell.data for cell in cells), console)
        cells = [cell for cell in cells if cell.data not in absent]
        for collected in running.run(plan, place, cells, chosen, bench, given.hours and given.hours * 3600):
            left = len(build.missing(plan, collected))
            console.print(f"{len(collected.cells)} cells in {place.tables}, {left} left", soft_wrap=True)
    return write(plan, place, given.docs, console)


def _absent(plan: Plan, place: ReferenceFolders, names: Iterable[str], console: Console) -> dict[str, UserError]:
    """Return which of the data are not at hand, and print a line for each."""
    wrong = build.absent(plan, place.plan, names, place.data)
    for name, error in wrong.items():
        console.print(f"{name} is left out: {error}", soft_wrap=True)
    return wrong


def listed(plan: Plan, place: ReferenceFolders, console: Console) -> int:
    """Print what is done and what is left, setting by setting, and return 0."""
    known = results.read(place.tables)
    heads = ["setting", "done", "failed", "left", "core time"]
    for line in terminal.table(heads, [*results.lines(results.by_setting(plan, known))], console.width):
        console.print(line, soft_wrap=True)
    console.print(results.summary(plan, known), soft_wrap=True)
    return 0


def write(plan: Plan, place: ReferenceFolders, docs: Path, console: Console) -> int:
    """Write the page from the tables, and return the exit code: 1 if a cell has failed."""
    known = results.read(place.tables)
    if known.cells.empty:
        raise UserError(f"{place.tables} has no results yet: python -m fedsim.reference runs the cells")
    for path in page.write(plan, known, trials.read(place.plan / trials.FILE), docs):
        console.print(f"written: {path}", soft_wrap=True)
    return 1 if (known.cells["status"] == "failed").any() else 0


if __name__ == "__main__":
    sys.exit(main())

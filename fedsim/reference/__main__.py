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
from pathlib import Path

from rich.console import Console

from analysis import terminal
from fedsim.core import kernels
from fedsim.core.errors import UserError
from fedsim.reference import alone, lacking, made, results, running, spent, trials, written
from fedsim.reference import plan as plans
from fedsim.reference.plan import Plan
from fedsim.reference.running import Bench, Place

EXAMPLES = """\
examples:
  python -m fedsim.reference                         run what the tables lack, and write docs/reference.md and .html
  python -m fedsim.reference --list                  what the plan has, what is done, and the hours that are left
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
    made = argparse.ArgumentParser(
        "python -m fedsim.reference", description="Run the reference table, or continue it, and write its page.",
        epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = made.add_argument
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
    what = made.add_mutually_exclusive_group().add_argument
    what("--list", action="store_true", help="say what is done and what is left")
    what("--cell", metavar="NAME", help="run one cell alone, or the seeds of one, and compare it with the table")
    what("--trials", action="store_true", help="run the trials that choose hyper-parameters")
    what("--page", action="store_true", help="write the page alone")
    return made


def main(words: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    terminal.prepare()
    given = parser().parse_args(words)
    if given.native_math:
        kernels.let_native()
    try:
        return command(given, terminal.console())
    except UserError as error:
        print(f"fedsim.reference: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fedsim.reference: interrupted; finished cells are kept, the same command continues", file=sys.stderr)
        return 130


def command(given: argparse.Namespace, console: Console) -> int:
    """Do what the arguments ask for.  Raises UserError for a mistake in them or in the plan."""
    from fedsim.point.run import run
    from fedsim.sweep.display import Display
    from fedsim.sweep.engines.choose import choose
    from fedsim.sweep.simulation import data_folder

    plan = plans.read(given.plan)
    place = Place(given.plan.parent.resolve(), given.docs / "reference", given.out, data_folder(given.data))
    if given.list:
        return listed(plan, place, console)
    if given.page:
        return page(plan, place, given.docs, console)
    plugins = not sys.flags.safe_path
    with choose(given.engine, given.jobs, None, given.ray_address, plugins=plugins) as engine:
        bench = Bench(run, engine, lambda: Display(console), plugins=plugins)
        if given.trials:
            trials.search(plan, place, bench, given.only, without=[*_absent(plan, place, plan.data, console)])
            console.print(f"trials: {place.plan / trials.FILE}", soft_wrap=True)
            return 0
        chosen = trials.chosen(trials.read(place.plan / trials.FILE))
        if given.cell:
            cells, bench = alone.meant(plan, given.cell), replace(bench, fresh=True)
            if wrong := lacking.absent(plan, place.plan, [cells[0].data], place.data):
                raise wrong[cells[0].data]
            compared = alone.run(plan, place, cells, chosen, bench)
            console.print(*alone.lines(compared, console.width), sep="\n", soft_wrap=True)
            return 1 if any(one.clock is False for one in compared) else 0
        known = results.read(place.tables)
        old = lacking.outdated(plan, place.plan, known, chosen, given.only)
        cells = lacking.missing(plan, known, given.only, old)
        nowhere = _absent(plan, place, (cell.data for cell in cells), console)
        there = [cell for cell in cells if cell.data not in nowhere]
        for found in running.run(plan, place, there, chosen, bench, given.hours and given.hours * 3600):
            left = len(lacking.missing(plan, found))
            console.print(f"{len(found.cells)} cells in {place.tables}, {left} left", soft_wrap=True)
    return page(plan, place, given.docs, console)


def _absent(plan: Plan, place: Place, names: Iterable[str], console: Console) -> dict[str, UserError]:
    """Return which of the data are not at hand, and print a line for each."""
    wrong = lacking.absent(plan, place.plan, names, place.data)
    for name, error in wrong.items():
        console.print(f"{name} is left out: {error}", soft_wrap=True)
    return wrong


def listed(plan: Plan, place: Place, console: Console) -> int:
    """Print what is done and what is left, setting by setting, and return 0."""
    known = results.read(place.tables)
    heads = ["setting", "done", "failed", "left", "core time", "ahead"]
    for line in terminal.table(heads, [*spent.lines(spent.by_setting(plan, known))], console.width):
        console.print(line, soft_wrap=True)
    console.print(spent.summary(plan, known), soft_wrap=True)
    return 0


def page(plan: Plan, place: Place, docs: Path, console: Console) -> int:
    """Write the page from the tables, and return the exit code: 1 if a cell has failed."""
    found = results.read(place.tables)
    if found.cells.empty:
        raise UserError(f"{place.tables} has no results yet: python -m fedsim.reference runs the cells")
    for path in written.write(found, plan.budgets, made.text(plan, found), docs):
        console.print(f"written: {path}", soft_wrap=True)
    return 1 if (found.cells["status"] == "failed").any() else 0


if __name__ == "__main__":
    sys.exit(main())

"""The command line: `python -m analysis RESULTS...` reports, compares, or writes the timelines of finished runs."""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from analysis import terminal
from analysis.compare import compare, lines
from analysis.read.links import link_in
from analysis.read.load import finished
from analysis.report.write import write
from analysis.run_comparison import lines as beside
from analysis.run_comparison import pairs
from analysis.timeline.write import write as write_timeline
from fedsim.core.errors import UserError, exit_code

EXAMPLES = """examples:
  {prog} runs/sparse_clients
      report.html, figures/ and tables/ in that folder
  {prog} runs/sparse_clients --out paper
      the same in paper/
  {prog} runs/lossless runs/lossy --out both
      a report of two studies side by side, the folder as a further axis
  {prog} runs/protocols --trace
      no report: trace.json.gz in each run's folder
  {prog} --compare runs/before runs/after
      how many runs are alike, and what differs in the others
  {prog} --compare runs/measured runs/simulated --errors
      how far rounds, messages, bytes and scores are apart, in percent

Without --out everything goes into the first folder of results. Only finished
runs are shown; a study that is still running can be reported too.

exit codes:
  0    done; with --compare: all runs are alike, bit for bit (--errors: done)
  1    with --compare: something differs, or (--errors) there is nothing in both
  2    a mistake in what was given
  130  interrupted with Ctrl-C
"""


def main(arguments: Sequence[str] | None = None, prog: str = "python -m analysis") -> int:
    """Write the report and print its path; return 0, or 2 after a message if the folders or `--out` are not usable.

    `prog` is the command as its help shows it.
    """
    terminal.prepare()
    usage = f"{prog} RESULTS... [--out DIR] | RESULTS... --trace | --compare RESULTS RESULTS [--all | --errors]"
    about = "Write a report of finished runs: one HTML page, figures (SVG, PDF) and tables (CSV)."
    parser = terminal.parser(prog, about, EXAMPLES.format(prog=prog), usage)
    parser.add_argument(
        "results", nargs="*", type=Path, metavar="RESULTS", help="a folder of results: runs/sparse_clients"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: the first folder)")
    parser.add_argument("--trace", action="store_true", help="write each run's timeline, for ui.perfetto.dev")
    parser.add_argument(
        "--compare", nargs=2, type=Path, metavar="RESULTS", help="show what differs between two folders"
    )
    parser.add_argument("--all", action="store_true", help="with --compare: list all runs that differ")
    parser.add_argument("--errors", action="store_true", help="with --compare: relative errors, side by side")
    options = parser.parse_args(arguments)
    if bool(options.results) == bool(options.compare):
        parser.error("give folders of results, or --compare with two of them")
    if (options.all or options.errors) and not options.compare:
        parser.error(f"--{'all' if options.all else 'errors'} goes with --compare")
    if options.compare and (options.out or options.trace):
        parser.error(f"--compare writes nothing: leave out --{'out' if options.out else 'trace'}")
    return exit_code("analysis", partial(_done, options), "the same command begins anew")


def _done(options: argparse.Namespace) -> int:
    """Do what the options ask for, and return the exit code.  Raises UserError for what cannot be read or written."""
    if options.compare:
        return _compared(options, *options.compare)
    try:
        if options.trace:
            if found := [why for run in options.results if (why := link_in(run))]:
                raise UserError(found[0])
            for folder in (folder for run in options.results for folder in finished(run)):
                print(write_timeline(folder))
            return 0
        with terminal.working() as say:
            path = write(options.results, options.out, say)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = error.filename or options.out
        raise UserError(f"{where}: cannot be written ({error.strerror}); choose another --out") from error
    print(path)
    return 0


def _compared(options: argparse.Namespace, one: Path, other: Path) -> int:
    if options.errors:
        print(*beside(one, other, terminal.width()), sep="\n")
        return 0 if pairs(one, other) else 1
    found = compare(one, other)
    print(*lines(found, one, other, terminal.width(), options.all), sep="\n")
    return 0 if found.identical else 1


if __name__ == "__main__":
    sys.exit(main())

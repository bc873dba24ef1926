"""The command line: `python -m analysis RUNS...` reports, compares, or writes the timelines of finished points."""

from analysis import interrupted  # noqa: F401 - first, since the others take seconds

# isort: split

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis import terminal
from analysis.beside import lines as beside
from analysis.beside import pairs
from analysis.compare import compare, lines
from analysis.links import link_in
from analysis.load import finished
from analysis.report import write
from analysis.stored import NotARunError
from analysis.timeline.write import write as write_timeline

EXAMPLES = """examples:
  {prog} runs/sparse_clients
      report.html, figures/ and tables/ in the run's folder
  {prog} runs/sparse_clients --out paper
      the same in paper/
  {prog} runs/lossless runs/lossy --out both
      a report of two runs side by side, the run as a further axis
  {prog} runs/protocols --trace
      no report: trace.json.gz in each point's folder
  {prog} --compare runs/before runs/after
      how many points are alike, and what differs in the others
  {prog} --compare runs/measured runs/simulated --errors
      how far rounds, messages, bytes and scores are apart, in percent

Without --out everything goes into the first run's folder. Only finished points
are shown; a sweep that is still running can be reported too.

exit codes:
  0    done; with --compare: all points are alike, bit for bit (--errors: done)
  1    with --compare: something differs, or (--errors) there is nothing in both
  2    a mistake in what was given
  130  interrupted with Ctrl-C
"""


def main(arguments: Sequence[str] | None = None, prog: str = "python -m analysis") -> int:
    """Write the report and print its path; return 0, or 2 after a message if the folders or `--out` are not usable.

    `prog` is the command as its help shows it.
    """
    terminal.prepare()
    parser = argparse.ArgumentParser(
        prog=prog,
        usage=f"{prog} RUN... [--out DIR] | RUN... --trace | --compare RUN RUN [--all | --errors]",
        description="Write a report of finished runs: one HTML page, figures (SVG, PDF) and tables (CSV).",
        epilog=EXAMPLES.format(prog=prog),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="a run's folder, such as runs/sparse_clients")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: the first run's folder)")
    parser.add_argument("--trace", action="store_true", help="write each point's timeline, for ui.perfetto.dev")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="RUN", help="show what differs between two runs")
    parser.add_argument("--all", action="store_true", help="with --compare: list all points that differ")
    parser.add_argument("--errors", action="store_true", help="with --compare: relative errors, side by side")
    options = parser.parse_args(arguments)
    if bool(options.runs) == bool(options.compare):
        parser.error("give the folders of runs, or --compare with two of them")
    if options.errors and not options.compare:
        parser.error("--errors goes with --compare")
    try:
        if options.compare:
            one, other = options.compare
            if options.errors:
                return _beside(one, other)
            return _compared(one, other, options.all)
        if options.trace and (found := [why for run in options.runs if (why := link_in(run))]):
            return _mistake(found[0])
        if options.trace:
            for folder in (folder for run in options.runs for folder in finished(run)):
                print(write_timeline(folder))
        else:
            with terminal.working() as say:
                path = write(options.runs, options.out, say)
            print(path)
    except NotARunError as error:
        return _mistake(str(error))
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        return _mistake(f"{error.filename or options.out}: cannot be written ({error.strerror}); choose another --out")
    return 0


def _compared(one: Path, other: Path, every: bool) -> int:
    found = compare(one, other)
    for line in lines(found, one, other, terminal.width(), every):
        print(line)
    return 0 if found.identical else 1


def _beside(one: Path, other: Path) -> int:
    print(*beside(one, other, terminal.width()), sep="\n")
    return 0 if pairs(one, other) else 1


def _mistake(message: str) -> int:
    print(f"analysis: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

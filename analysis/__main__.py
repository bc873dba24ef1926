"""The command line: `python -m analysis RUNS...` reports, compares, or writes the timelines of finished points."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.compare import compare, told
from analysis.load import finished
from analysis.report import write
from analysis.stored import NotARunError
from analysis.timeline.write import write as write_timeline

EXAMPLES = """examples:
  python -m analysis runs/sparse_clients                   report.html, figures/ and tables/ in the run's folder
  python -m analysis runs/sparse_clients --out paper       the same in paper/
  python -m analysis runs/lossless runs/lossy --out both   two runs side by side, the run as a further axis
  python -m analysis runs/protocols --trace                no report: trace.json.gz in each point's folder
  python -m analysis --compare runs/before runs/after      what differs, point by point

Without --out everything goes into the first run's folder. Only finished points are shown; a sweep that is still
running can be reported as it stands.
Exit codes: 0 done, 2 a mistake in what was given; with --compare 0 identical bit for bit, 1 not.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report and print its path; return 0, or 2 after a message if the folders or `--out` are not usable."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Make a report from finished runs: one HTML page, figures (SVG, PNG) and tables (CSV).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUNS", help="run folders, such as runs/sparse_clients")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: the first run's folder)")
    parser.add_argument("--trace", action="store_true", help="write each point's timeline, for ui.perfetto.dev")
    parser.add_argument("--compare", nargs=2, type=Path, metavar="RUN", help="set two runs side by side")
    options = parser.parse_args(arguments)
    if bool(options.runs) == bool(options.compare):
        parser.error("give the folders of runs, or --compare with two of them")
    try:
        if options.compare:
            return _compared(*options.compare)
        paths = (
            (write_timeline(folder) for run in options.runs for folder in finished(run))
            if options.trace
            else [write(options.runs, options.out)]
        )
        for path in paths:
            print(path)
    except NotARunError as error:
        return _mistake(str(error))
    except OSError as error:
        return _mistake(f"{error.filename or options.out}: cannot be written ({error.strerror}); choose another --out")
    return 0


def _compared(one: Path, other: Path) -> int:
    found = compare(one, other)
    for line in told(found, one, other):
        print(line)
    return 0 if found.identical else 1


def _mistake(message: str) -> int:
    print(f"analysis: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

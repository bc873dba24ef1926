"""The command line: `python -m analysis RUNS... [--out DIR]`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis.report import write
from analysis.stored import NotARunError

EXAMPLES = """examples:
  python -m analysis runs/sparse_clients                   report.html, figures/ and tables/ in the run's folder
  python -m analysis runs/sparse_clients --out paper       the same in paper/
  python -m analysis runs/lossless runs/lossy --out both   two runs side by side, the run as a further axis

Without --out everything goes into the first run's folder. Only finished points are shown; a sweep that is still
running can be reported as it stands.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the report and print its path; return 0, or 2 after a message if the folders or `--out` are not usable."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Make a report from finished runs: one HTML page, figures (SVG, PNG) and tables (CSV).",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUNS", help="run folders, such as runs/sparse_clients")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: the first run's folder)")
    options = parser.parse_args(arguments)
    try:
        print(write(options.runs, options.out))
    except NotARunError as error:
        return _mistake(str(error))
    except OSError as error:
        return _mistake(f"{error.filename or options.out}: cannot be written ({error.strerror}); choose another --out")
    return 0


def _mistake(message: str) -> int:
    print(f"analysis: {message}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

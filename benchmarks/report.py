"""The report of a sweep of a thousand points: the page's size, peak memory and seconds, beside those of a tenth of it.

    python benchmarks/report.py [--points 1000]

The points are made up (three latencies, three algorithms, two seeds, the rest participations; 24 rounds of eight
clients, four periods), for making a report reads tables and does not care where they come from.  Each report is
written by a process of its own, because peak memory is a process's.  What a page holds is bounded chart by chart, so
ten times the points should not make it ten times as large.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EACH = 3 * 3 * 2  # points a participation
LARGEST = 10e6  # bytes of a page


def reported(run: Path) -> None:
    """Write a run's report and print what it took: bytes of the page, peak MB, processor seconds."""
    import fedsim  # noqa: F401 -- by which analysis is found from any folder
    from analysis.report.write import write

    page = write([run])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(page.stat().st_size, peak, time.process_time())


def measured(folder: Path, points: int) -> None:
    """Make up a sweep, have its report written, and print a row."""
    import fedsim  # noqa: F401 -- see above

    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from synthetic_sweep import write_sweep  # type: ignore[import-not-found]

    count = -(-points // EACH)
    run = write_sweep(folder / f"of_{points}", participations=tuple(f"{i / count:.3f}" for i in range(1, count + 1)))
    command = [sys.executable, __file__, "--report", str(run)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    size, peak, seconds = map(float, told)
    print(f"{count * EACH:8} points: {size / 1e6:6.1f} MB, {peak:6.0f} MB at its peak, {seconds:6.0f} s of processor")
    if size > LARGEST:
        raise SystemExit(f"the page is larger than {LARGEST / 1e6:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=1000, help="about how many (default: %(default)s)")
    parser.add_argument(
        "--report", type=Path, metavar="RUN", help="write this run's report only (for the script itself)"
    )
    options = parser.parse_args()
    if options.report:
        reported(options.report)
        return
    with tempfile.TemporaryDirectory() as folder:
        for points in sorted({max(EACH, options.points // 10), options.points}):
            measured(Path(folder), points)


if __name__ == "__main__":
    main()

"""Whole runs over real TCP on this machine, beside the same runs in simulation.

    python benchmarks/netns scenarios/validation/*.yaml [--repeat 3] [--jobs 2] [--only TEXT] [--out netns.csv]
    python benchmarks/netns scenarios/validation/*.yaml --measured benchmarks/netns/measured.csv

Each point of a scenario is simulated and then carried out: namespaces as hosts (`spaces.py`), a line in user space that
shapes, delays and loses packets (`line.py`), sockets that do what the protocol says (`federation.py`).  Scenarios of
`traffic` under sync, deadline or buffered over a star will do.  It needs Linux and root, takes as long as the runs
take, and leaves nothing behind.  No constant was fitted to cases with the table `five_...`, the half "held out", though
they were in view.  A run in which the machine was too busy to deliver packets in time is carried out again.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import compare
import pandas as pd
import points
import real
import spaces
from points import Case

from fedsim.core.errors import UserError

TRIES, BUSY = 3, 0.03  # share of packets that may be late by more than line.LATE
LONGEST = 300.0  # seconds of a real run
HELD_OUT = "five"


def main() -> int:
    """Run the command; return 0 where namespaces cannot be made, after saying why."""
    given = _parser().parse_args()
    if given.measured is None and (reason := spaces.refusal()):
        print(f"skipped: {reason}")
        return 0
    try:
        with tempfile.TemporaryDirectory() as scratch:
            cases = [case for path in given.scenarios for case in points.cases(path, Path(scratch, path.stem))]
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    cases = [case for case in cases if given.only in case.name]
    if given.measured is not None:
        report(_compared(pd.read_csv(given.measured), cases))
        return 0
    runs = [(case, number) for number in range(given.repeat) for case in cases]
    seconds = sum(case.simulated[0] for case, _ in runs) / given.jobs
    print(f"{len(runs)} real runs of {len(cases)} cases, about {seconds / 60:.0f} minutes", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        found = list(pool.map(lambda run: _carried_out(*run), runs))
    table = pd.DataFrame(found)
    table.to_csv(given.out, index=False)
    report(_compared(table, cases))
    return 0


def report(table: pd.DataFrame) -> None:
    """Print errors by group, then by case, and whether kinds of connection and protocols come in the right order."""
    cases = compare.rows(table)
    by_axis = {"connections": ["own_links"], "protocols": ["protocols"]}
    with pd.option_context("display.width", 200, "display.max_columns", 20, "display.max_colwidth", 80):
        print(compare.groups(cases).round(1).to_string(index=False), "\n")
        print(cases.drop(columns=["scenario", "control"]).round(3).to_string(index=False), "\n")
    for what, scenarios in by_axis.items():
        own = table[table["scenario"].isin(scenarios)]
        groups = [group["case"].unique().tolist() for _, group in own.groupby("rest")]
        print(f"Kendall's tau of {what}: {compare.order(cases, groups):.2f}")


def _carried_out(case: Case, number: int) -> dict[str, Any]:
    """Return one real run of a case; the last of three tries, if the machine was too busy for each."""
    try:
        seen, late = real.carried_out({**case.plan, "seed": 1000 * number, "longest": LONGEST}, TRIES, BUSY)
    except RuntimeError as error:
        raise RuntimeError(f"{case.name}: {error}") from error
    print(f"{case.name}: {seen['updates'][-1]:.2f} s, simulated {case.simulated[0]:.2f} s", flush=True)
    return {
        "case": case.name, "real": seen["updates"][-1], "late": late,
        "lost": seen["lost"], "overflown": seen["overflown"],
    }  # fmt: skip


def _compared(table: pd.DataFrame, cases: list[Case]) -> pd.DataFrame:
    """Return real runs with what is known of their cases."""
    known = []
    for case in cases:
        compared = "protocol" if case.scenario == "protocols" else "network.connection"
        rest = [value for axis, value in case.axes.items() if axis != compared]
        held_out = any(HELD_OUT in value for value in case.axes.values())
        known.append({
            "case": case.name, "scenario": case.scenario, "control": case.plan["plan"]["control"],
            "rest": ", ".join(rest), "half": "held out" if held_out else "open", "simulated": case.simulated,
        })  # fmt: skip
    return table.merge(pd.DataFrame(known), on="case")


def _parser() -> argparse.ArgumentParser:
    head, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        prog="python benchmarks/netns", description=head + rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scenarios", nargs="+", type=Path, help="scenario files, such as those of scenarios/validation")
    parser.add_argument("--repeat", type=int, default=3, help="real runs of each case (default: 3)")
    parser.add_argument("--jobs", type=int, default=2, help="real runs at a time (default: 2)")
    parser.add_argument("--only", default="", help="only the cases whose names contain this text")
    parser.add_argument("--measured", type=Path, help="compare with the real runs of this file instead of new ones")
    parser.add_argument("--out", type=Path, default=Path("netns.csv"), help="a row for each real run (netns.csv)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

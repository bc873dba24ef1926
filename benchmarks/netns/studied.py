"""The command of a study of real messages: carry out its cases, write a table, and say how far the model is off."""

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import spaces

Case = Sequence[Any]
TRIES, BUSY = 4, 0.05  # share of packets that may be late by more than line.LATE


def main(
    doc: str | None, cases: Sequence[Case], carried_out: Callable[..., list[dict[str, Any]]],
    errors: Callable[[pd.DataFrame], pd.DataFrame], out: str,
) -> int:  # fmt: skip
    """Run the command; return 0 where namespaces cannot be made, after saying why."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--jobs", type=int, default=3, help="real runs at a time (default: 3)")
    parser.add_argument("--only", default="", help="only cases with this among their values, as bbr")
    parser.add_argument("--measured", type=Path, help="compare with the real messages of this file instead of new ones")
    parser.add_argument("--out", type=Path, default=Path(out), help=f"a row for each message ({out})")
    given = parser.parse_args()
    if given.measured is None:
        if reason := spaces.refusal():
            print(f"skipped: {reason}")
            return 0
        wanted = [case for case in cases if not given.only or given.only in map(str, case)]
        if not wanted:
            parser.error(f"--only {given.only}: no case has this value")
        with ThreadPoolExecutor(given.jobs) as pool:
            rows = [row for found in pool.map(lambda case: carried_out(*case), wanted) for row in found]
        pd.DataFrame(rows).to_csv(given.out, index=False)
    print(errors(pd.read_csv(given.measured or given.out)).round(2).to_string())
    return 0

"""Random worlds, run as a user runs them, and a second ledger over the tables that they leave.

    python benchmarks/worlds [--first 0] [--worlds 2000] [--seed 0] [--jobs 2] [--limit 60] [--out DIR]

`draw` and `lessons` draw scenarios, `batch` runs them through the command line's entry point, `books` and `links` check
what is left on the disk and import nothing of fedsim.  A world depends on its number and the seed alone.  Each world
with a finding leaves its folder: `world.yaml` with its files, `finding.txt`, and `out`.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BATCH = 100  # worlds per process: importing torch and reading sources costs as much as ten of them


def main() -> int:
    """Run the command and return 1 if there was a finding."""
    given = _parser().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    batches = range(given.first, given.first + given.worlds, BATCH)
    with ThreadPoolExecutor(given.jobs) as pool, (given.out / "worlds.jsonl").open("a") as journal:
        ended = []
        for results in pool.map(lambda first: _batch(given, first), batches):
            ended += results
            journal.writelines(json.dumps(result) + "\n" for result in results)
            journal.flush()
            wrong = sum(bool(each["findings"]) for each in ended)
            print(f"{len(ended)} worlds, {wrong} with findings, {time.perf_counter() - begun:.0f} s", flush=True)
    report(ended, given)
    return int(any(each["findings"] for each in ended))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python benchmarks/worlds", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds that a world may take")
    parser.add_argument("--out", type=Path, default=Path("worlds"), help="folder of what was found")
    return parser


def _batch(given: argparse.Namespace, first: int) -> list[dict[str, Any]]:
    """Run one batch, in another process again after each world that ended it."""
    ended, last = [], min(first + BATCH, given.first + given.worlds)
    while first < last:
        words = [sys.executable, str(HERE / "batch.py"), str(given.seed), str(first), str(last - first)]
        done = subprocess.run([*words, str(given.out), str(given.limit)], capture_output=True, text=True)
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
        ended += [line["end"] for line in lines if "end" in line]
        begins = [line["begin"] for line in lines if "begin" in line]
        open_ones = set(begins) - {line["end"]["number"] for line in lines if "end" in line}
        if not begins:
            raise RuntimeError(f"no world begins:\n{done.stderr[-2000:]}")
        for number in open_ones:
            ended.append(_died(given, number, done.returncode, done.stderr))
        first = max(begins) + 1
    return ended


def _died(given: argparse.Namespace, number: int, code: int, log: str) -> dict[str, Any]:
    """Return the finding of a world that has ended its process."""
    inner = [line.strip() for line in log.splitlines() if "/fedsim/" in line or "/algorithms/" in line]
    slow = "Timeout" in log
    finding = f"no end after {given.limit:g} s" if slow else f"the process died with {code}"
    finding += f": {inner[0] if inner else log[-300:]}"
    (given.out / str(number) / "finding.txt").write_text(f"{finding}\n\n{log[-6000:]}")
    return {
        "number": number,
        "code": -1,
        "seconds": given.limit,
        "findings": [finding],
        "said": "",
        "kinds": {},
        "tables": 0,
    }


def report(ended: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Print counts of ends, of what the worlds were made of, and all findings."""
    codes = Counter(each["code"] for each in ended)
    print(f"\n{len(ended)} worlds of seed {given.seed}: exit codes {dict(codes)}")
    for key in ("protocol", "topology", "algorithm"):
        print(f"{key}: {dict(Counter(each['kinds'].get(key) for each in ended if each['code'] == 0).most_common())}")
    effects = Counter(effect for each in ended if each["code"] == 0 for effect in each["kinds"]["effects"])
    print(f"effects: {dict(effects.most_common())}")
    times = sorted(each["seconds"] for each in ended)
    print(f"seconds a world: median {times[len(times) // 2]:.2f}, longest {times[-1]:.1f}")
    refused = Counter(" ".join(each["said"].split()[:14]) for each in ended if each["code"] == 2)
    for text, count in refused.most_common(40):
        print(f"  refused {count:4}: {text}")
    for each in ended:
        for finding in each["findings"]:
            print(f"  world {each['number']}: {finding[:300]}")


if __name__ == "__main__":
    sys.exit(main())

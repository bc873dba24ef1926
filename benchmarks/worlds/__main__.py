"""Random worlds, run as a user runs them, and a second ledger over the tables that they leave.

    python benchmarks/worlds [--first 0] [--worlds 2000] [--seed 0] [--jobs 2] [--limit 20] [--out DIR]

`draw` and `lessons` draw scenarios, `batch` runs them through the command line's entry point, `books` and `links` check
what is left on the disk and import nothing of fedsim.  A world depends on its number and the seed alone.  Each world
with a finding leaves its folder: `world.yaml` with its files, `finding.txt`, and `out`.
"""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BATCH = 125  # worlds per process: importing torch and reading sources costs as much as ten of them


def main() -> int:
    """Run the command and return 1 if there was a finding."""
    given = _parser().parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    batches = range(given.first, given.first + given.worlds, BATCH)
    ended: list[dict[str, Any]] = []
    with ThreadPoolExecutor(given.jobs) as pool, (given.out / "worlds.jsonl").open("a") as journal:

        def note(result: dict[str, Any]) -> None:
            ended.append(result)
            journal.write(json.dumps(result) + "\n")
            journal.flush()
            if len(ended) % 25 == 0:
                wrong = sum(bool(each["findings"]) for each in ended)
                print(f"{len(ended)} worlds, {wrong} with findings, {time.perf_counter() - begun:.0f} s", flush=True)

        for _ in pool.map(lambda first: _batch(given, first, note), batches):
            pass
    report(ended, given)
    return int(any(each["findings"] for each in ended))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python benchmarks/worlds", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--worlds", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--limit", type=float, default=20.0, help="processor seconds that a world may take")
    parser.add_argument("--out", type=Path, default=Path("worlds"), help="folder of what was found")
    return parser


def _batch(given: argparse.Namespace, first: int, note: Callable[[dict[str, Any]], None]) -> None:
    """Run one batch, in another process again after each world that ended it."""
    last = min(first + BATCH, given.first + given.worlds)
    while first < last:
        words = [sys.executable, str(HERE / "batch.py"), str(given.seed), str(first), str(last - first)]
        words += [str(given.out), str(given.limit)]
        begun = first - 1
        with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
            with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True) as process:
                for line in (json.loads(line) for line in process.stdout or () if line.startswith('{"')):
                    if "end" in line:
                        note(line["end"])
                        first = line["end"]["number"] + 1
                    else:
                        begun = line["begin"]
            log.seek(0)
            text = log.read()
        if begun < first and first < last:
            raise RuntimeError(f"world {first} does not begin:\n{text[-2000:]}")
        if begun >= first:
            note(_died(given, begun, process.returncode, text))
            first = begun + 1


def _died(given: argparse.Namespace, number: int, code: int, log: str) -> dict[str, Any]:
    """Return the finding of a world that has ended its process."""
    stack = log[max(0, log.find("Current thread")) :].splitlines()
    inner = [line.strip() for line in stack if "/fedsim/" in line or "/algorithms/" in line]
    slow = "Timeout" in log or code == -signal.SIGXCPU
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
        "transfers": 0,
    }


def report(ended: list[dict[str, Any]], given: argparse.Namespace) -> None:
    """Print counts of ends, of what the worlds were made of, and all findings."""
    codes = Counter(each["code"] for each in ended)
    rows = sum(each["transfers"] for each in ended)
    print(f"\n{len(ended)} worlds of seed {given.seed}: exit codes {dict(codes)}, {rows} transfers checked")
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

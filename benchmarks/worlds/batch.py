"""Run some worlds in this process, one after the other, and write a line of JSON before and after each.

A world that takes more processor seconds than the limit, or ten times as many of the clock's, ends the process, with
the stack in its log; one that asks for more memory than `MEMORY` gets a MemoryError, as on a small machine.
"""

import contextlib
import faulthandler
import io
import json
import resource
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import books
import draw
import yaml
from pyarrow import parquet

from fedsim.__main__ import main

MEMORY = 4 * 2**30
WAITS = 10  # other work may slow a world down by so much
AGAIN = 10  # each so many worlds one is run again
LONGEST = 4000  # characters of a message


def run(seed: int, number: int, home: Path) -> dict[str, Any]:
    """Run one world in a folder of its own and return what came of it; the folder is left if something is wrong."""
    scenario, files = draw.world(seed, number)
    home.mkdir(parents=True)
    for name, text in files.items():
        (home / name).write_text(text)
    (home / "world.yaml").write_text(yaml.safe_dump(scenario, sort_keys=False))
    results, begun = home / "out", time.perf_counter()
    code, out, err, found = _run(home, "out")
    took = time.perf_counter() - begun
    text = out + err
    found += _ended(code, text, err, results)
    rows = 0
    if code == 0:
        try:
            found += books.check(results, scenario, files)
            rows = sum(parquet.read_metadata(path).num_rows for path in results.glob("points/*/transfers.parquet"))
        except Exception as error:
            found.append(f"the tables cannot be read: {error!r}")
        if number % AGAIN == 0 or "grid" in scenario:
            found += _again(home)
    if found:
        (home / "finding.txt").write_text("\n".join(found) + "\n\n" + text[-4000:])
    else:
        shutil.rmtree(home)
    return {
        "number": number, "code": code, "seconds": took, "findings": found, "transfers": rows,
        "said": err.strip().replace(str(home), "")[:300] if code == 2 else "", "kinds": kinds(scenario),
    }  # fmt: skip


def _run(home: Path, results: str, *more: str) -> tuple[int, str, str, list[str]]:
    """Run the world and return the exit code, both outputs and findings."""
    out, err = io.StringIO(), io.StringIO()
    code, found = -1, []
    words = [str(home / "world.yaml"), "--jobs", "1", "--no-report", "--out", str(home / results), *more]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(words)
    except SystemExit as error:
        found.append(f"it exits by itself: {error!r}")
    except BaseException as error:
        found.append(f"it ends in {type(error).__name__}: {str(error)[:300]}")
    return code, out.getvalue(), err.getvalue(), found


def _again(home: Path) -> list[str]:
    """Run a world a second time, where no point follows another, and return the tables that differ."""
    found = _run(home, "again", "--no-following")[3]
    for path in (home / "out").glob("points/*/*.parquet"):
        other = home / "again" / path.relative_to(home / "out")
        if not other.exists() or path.read_bytes() != other.read_bytes():
            found.append(f"run again, {path.name} of {path.parent.name} differs")
    return found


def kinds(scenario: dict[str, Any]) -> dict[str, Any]:
    """Return what a world is made of, to count by."""
    algorithm = scenario.get("algorithm", "none")
    return {
        "protocol": scenario["protocol"]["name"], "topology": scenario["network"]["topology"]["name"],
        "algorithm": algorithm if isinstance(algorithm, str) else algorithm["name"],
        "effects": [effect["name"] for effect in scenario["network"]["effects"]],
    }  # fmt: skip


def _ended(code: int, text: str, message: str, results: Path) -> list[str]:
    found = []
    logs = "".join(path.read_text("utf-8", "replace") for path in results.rglob("*.log"))
    if "Traceback" in text or "Traceback" in logs:
        found.append("a traceback: " + (logs + text).strip().splitlines()[-1][:300])
    if code == 1:
        found.append(f"exit 1: {(logs.strip().splitlines() or [''])[-1][:300]}")
    if code not in (-1, 0, 1, 2):
        found.append(f"exit {code}")
    if code == 2 and (not message.strip() or len(message) > LONGEST):
        found.append(f"refused in {len(message)} characters")
    if code == 2 and results.exists():
        found.append(f"refused, and {sorted(path.name for path in results.iterdir())} is left")
    if list(results.rglob("*.partial")):
        found.append("half-written tables are left")
    return found


def batch(seed: int, first: int, worlds: int, home: Path, limit: float) -> None:
    """Run worlds and write `begin` and `end` lines to the standard output."""
    faulthandler.register(signal.SIGXCPU, chain=True)  # the stack, then the end
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for number in range(first, first + worlds):
        print(json.dumps({"begin": number}), flush=True)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + limit) + 1, resource.RLIM_INFINITY))
        faulthandler.dump_traceback_later(WAITS * limit, exit=True)
        print(json.dumps({"end": run(seed, number, home / str(number))}), flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    seed, first, worlds, home, limit = sys.argv[1:]
    batch(int(seed), int(first), int(worlds), Path(home), float(limit))

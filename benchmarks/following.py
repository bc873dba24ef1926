"""What points that follow one another save: processor seconds of a sweep, against the same sweep without following.

    python benchmarks/following.py [--seeds 2] [--latencies 20] [--rounds 40]

The first row is scenarios/sparse_clients.yaml with so many seeds: three latencies, three participation rates and three
methods a seed.  The others are one of its points (everybody, one method) at so many latencies, against it alone.
Sides run in turn, each in a process of its own with one thread; its start and its imports are timed apart and taken
off.  The tables of both sides are compared, byte for byte.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios" / "sparse_clients.yaml"
ONE = ["grid.protocol.participation=[1.0]", "grid.seed=[0]"]
METHODS = {"FedAvg": "fedavg", "POWER": "{name: power, beta: 0.1}"}


def seconds(out, *settings, flags=()):
    """Run the command in a new process and return its processor seconds."""
    line = [sys.executable, "-m", "fedsim", str(SCENARIO), "--jobs", "1", "--no-report", "--out", str(out), *flags]
    for setting in settings:
        line += ["--set", setting]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(line, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def check_same(one, other):
    """Stop where a table of one folder is not that of the other."""
    tables = sorted(path.relative_to(other) for path in other.glob("points/*/*.parquet"))
    if not tables or any((one / table).read_bytes() != (other / table).read_bytes() for table in tables):
        raise SystemExit(f"the tables in {one} and {other} differ")


def main():
    """Time both rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2, help="seeds of the main job (27 points each)")
    parser.add_argument("--latencies", type=int, default=20, help="latencies of the one point")
    parser.add_argument("--rounds", type=int, default=40, help="rounds of every point")
    given = parser.parse_args()
    seeds, rounds = f"grid.seed={[*range(given.seeds)]}", f"protocol.rounds={given.rounds}"
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        start = seconds(
            out / "start", *ONE, "grid.algorithm=[fedavg]", "grid.network.latency=[1 s]", "protocol.rounds=1"
        )
        some = seconds(out / "some", seeds, rounds) - start
        each = seconds(out / "each", seeds, rounds, flags=["--no-following"]) - start
        check_same(out / "some", out / "each")
        print(
            f"{27 * given.seeds} points: {some:.1f} s of processor, {each:.1f} s without following: {some / each:.2f}"
        )
        latencies = ", ".join(f"{10 * (number + 1)} ms" for number in range(given.latencies))
        for name, algorithm in METHODS.items():
            common = [*ONE, f"grid.algorithm=[{algorithm}]", rounds]
            many = seconds(out / f"many {name}", *common, f"grid.network.latency=[{latencies}]") - start
            one = seconds(out / f"one {name}", *common, "grid.network.latency=[10 ms]") - start
            check_same(out / f"many {name}", out / f"one {name}")
            print(f"{given.latencies} latencies, {name}: {many:.1f} s, one {one:.1f} s: {many / one:.2f} times")


if __name__ == "__main__":
    main()

"""What a round of FedAvg takes in fedsim, and the same work in pfl-research, FLGo and Flower's simulation.

    python benchmarks/peers.py [--only flower] [--clients 100] [--rounds 20] [--repeats 3] [--envs DIR]

A round: every client takes one full-batch step of Adam (lr 0.01) from the server's weights, with new
moments in each round, and the server averages by the clients' numbers of rows.  Two cases:

- gcn: a GCN 32-64-5 on graphs of 20 nodes, half of which train, over a dense adjacency;
- cnn: two convolutions on scikit-learn's digits, 8x8, dealt out at random, half of which train.

All systems are given the same plain modules (benchmarks/peers/peer_work.py), data, and first weights.
fedsim, which also simulates each round's messages as in rounds.py, has further rows: its own stacked GCN,
from weights of its own, and the module with FEDSIM_NATIVE_MATH=1, which leaves the choice of kernels to
torch, as the others do.  "By hand" is a loop over the clients with one resident module and nothing around
it.  The others run with as little around the work as they let one choose: no evaluation, no log, one
process, and Flower with one actor and messages that carry weights alone.

Measured are processor seconds, user and system, of the process and all that it has started, and wall-clock
time, from the end of round 5 to the end of round 5 + `--rounds`, so that the start is not in it: the median
of `--repeats` runs, taken in turn, on one thread.  `apart` is the largest difference between the weights
after the first round and those of a round by hand.  It needs Linux (/proc).

Each system has an environment of its own under `--envs`, which is made if it is not there and takes a
minute or two; torch has fedsim's version everywhere.  A system that cannot be installed or run is named
with the reason.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent / "peers"
WARM = 5
TOLERANCE = 1e-4
LIMIT = 1800  # seconds for a command
CASES = ("gcn", "cnn")
TORCH = f"torch=={version('torch').partition('+')[0]}"
# FLGo asks for torchvision, which none of what is used here needs
FLGO = "flgo==0.4.4"
FLGO_NEEDS = ["tqdm", "scipy", "matplotlib", "prettytable", "ujson", "pynvml", "pyyaml", "networkx"]
FLGO_NEEDS += ["requests", "toolz", "pandas", "scikit-learn"]
QUIET = {
    "OMP_NUM_THREADS": "1",
    "PYTHONPATH": str(HERE),
    "PYTHONWARNINGS": "ignore",
    "TQDM_DISABLE": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
NATIVE = {"FEDSIM_NATIVE_MATH": "1"}


class Peer(NamedTuple):
    """A system: its distribution, and what pip is asked for, one call after the other."""

    distribution: str
    installs: list[list[str]]


class Row(NamedTuple):
    """A row of the table: whose interpreter runs which script, and with what environment variables."""

    name: str
    peer: str  # "" is fedsim
    command: list[str]
    variables: dict[str, str]
    cases: tuple[str, ...] = CASES


PEERS = {
    "pfl": Peer("pfl", [[TORCH], ["pfl==0.6.0"]]),
    "flgo": Peer("flgo", [[TORCH], ["--no-deps", FLGO], FLGO_NEEDS]),
    "flower": Peer("flwr", [[TORCH], ["flwr[simulation]>=1.41,<2"]]),
}
ROWS = [
    Row("fedsim, its own GCN", "", ["by_fedsim.py", "stacked"], {}, ("gcn",)),
    Row("fedsim", "", ["by_fedsim.py", "run"], {}),
    Row("fedsim, native kernels", "", ["by_fedsim.py", "run"], NATIVE),
    Row("by hand", "", ["by_fedsim.py", "hand"], NATIVE),
    Row("pfl-research", "pfl", ["by_pfl.py"], {}),
    Row("FLGo", "flgo", ["by_flgo.py"], {}),
    Row("Flower", "flower", ["by_flower.py"], {}),
]


class Failed(Exception):  # noqa: N818  (a reason, not a mistake)
    """Why a system has no numbers."""


class Taken(NamedTuple):
    """What one run took, in seconds a round."""

    cpu: float
    wall: float


def called(command: list[str], variables: dict[str, str]) -> str:
    """Run a command and return what it prints; raise Failed with its last line if it fails."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("FEDSIM_", "PYTHON"))}
    own |= variables
    try:
        done = subprocess.run(command, env=own, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"took more than {LIMIT} s") from None
    if done.returncode:
        said = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise Failed(said[-1].strip()[:200] if said else f"exit status {done.returncode}")
    return done.stdout


def interpreter(name: str, envs: Path) -> str:
    """Return the interpreter of a peer's environment, which is made if it is not there."""
    folder = envs / name
    python, made = folder / "bin" / "python", folder / "made"
    asked = json.dumps(PEERS[name].installs)
    if not made.exists() or made.read_text(encoding="utf-8") != asked:
        print(f"making {folder}", file=sys.stderr, flush=True)
        venv.create(folder, clear=True, with_pip=True)
        for packages in PEERS[name].installs:
            called([str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages], {})
        made.write_text(asked, encoding="utf-8")
    return str(python)


def release(row: Row, python: str) -> str:
    """Return the version of a row's system."""
    distribution = "torch" if row.name == "by hand" else "fedsim"
    if row.peer:
        distribution = PEERS[row.peer].distribution
    asked = f"from importlib.metadata import version; print(version('{distribution}'))"
    return called([python, "-c", asked], {}).strip()


def run(row: Row, python: str, work: Path, rounds: int) -> tuple[Taken, float]:
    """Return what a row takes on a case, and how far its weights are from those by hand."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "weights"
        script, *given = row.command
        command = [python, str(HERE / script), *given, str(work), str(WARM), str(rounds), str(file)]
        called(command, QUIET | row.variables)
        if not file.with_suffix(".json").exists():
            raise Failed("it ended early and said nothing")
        found = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        check = [sys.executable, str(HERE / "by_fedsim.py"), "apart", str(work), str(file)]
        gap = float(called(check, QUIET))
    return Taken(found["cpu"] / rounds, found["wall"] / rounds), gap


def measured(
    case: str, rows: dict[str, tuple[Row, str]], options: argparse.Namespace, folder: Path
) -> dict[str, tuple[Taken, float] | str]:
    """Return each row's median and difference on a case, or the reason for there being none."""
    work = folder / f"{case}.work"
    make = ["make", case, str(options.clients), str(work)]
    called([sys.executable, str(HERE / "by_fedsim.py"), *make], QUIET)
    runs: dict[str, list[Taken]] = {name: [] for name in rows}
    gaps = dict.fromkeys(rows, 0.0)
    failed: dict[str, str] = {}
    for _ in range(options.repeats):
        for name, (row, python) in rows.items():
            if name in failed:
                continue
            try:
                taken, gap = run(row, python, work, options.rounds)
            except Failed as reason:
                failed[name] = str(reason)
            else:
                runs[name].append(taken)
                gaps[name] = max(gaps[name], gap)
    found: dict[str, tuple[Taken, float] | str] = {**failed}
    for name in rows:
        if name not in failed:
            cpu, wall = (statistics.median(values) for values in zip(*runs[name], strict=True))
            found[name] = (Taken(cpu, wall), gaps[name])
    return found


def main() -> None:
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--only", choices=[*PEERS], help="one of the others, beside fedsim")
    parser.add_argument("--clients", type=int, default=100, help="clients, all of whom a round asks")
    parser.add_argument("--rounds", type=int, default=20, help="rounds that are timed")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each; the median counts")
    default = Path(tempfile.gettempdir()) / "fedsim-peers"
    parser.add_argument("--envs", type=Path, default=default, help=f"folder of environments ({default})")
    options = parser.parse_args()
    envs = options.envs.resolve()
    ready: list[tuple[Row, str, str]] = []
    absent: list[str] = []
    for row in ROWS:
        if options.only and row.peer not in ("", options.only):
            continue
        try:
            python = interpreter(row.peer, envs) if row.peer else sys.executable
            ready.append((row, python, release(row, python)))
        except Failed as reason:
            absent.append(f"{row.name} cannot be installed: {reason}")
    print(f"{options.clients} clients, all of them in every round, one step of Adam each; {options.rounds}")
    print(f"rounds after {WARM}, median of {options.repeats} runs; processor and wall-clock ms a round")
    print(f"\n{'':24}{'version':>14}{'case':>6}{'cpu ms':>9}{'wall ms':>9}", end="")
    print(f"{'/ fedsim':>10}{'/ own GCN':>11}{'apart':>9}", flush=True)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            rows = {row.name: (row, python) for row, python, _ in ready if case in row.cases}
            found = measured(case, rows, options, Path(folder))
            for row, _, number in ready:
                result = found.get(row.name, "")
                if isinstance(result, str):
                    absent += [f"{row.name} cannot run {case}: {result}"] if result else []
                    continue
                taken, gap = result
                ratios = [over(taken, found.get(base)) for base in ("fedsim", "fedsim, its own GCN")]
                print(f"{row.name:24}{number:>14}{case:>6}", end="")
                print(f"{taken.cpu * 1e3:9.1f}{taken.wall * 1e3:9.1f}", end="")
                print(f"{ratios[0]:>10}{ratios[1]:>11}{gap:9.0e}", flush=True)
                if gap > TOLERANCE:
                    wrong.append(f"{row.name}, {case}")
    print("\n".join(["", *absent]) if absent else "")
    if wrong:
        raise SystemExit(f"more than {TOLERANCE} from a loop by hand: {'; '.join(wrong)}")


def over(taken: Taken, base: tuple[Taken, float] | str | None) -> str:
    """Return the ratio of processor time to that of a row, if there is one."""
    return f"{taken.cpu / base[0].cpu:.2f}" if isinstance(base, tuple) else ""


if __name__ == "__main__":
    main()

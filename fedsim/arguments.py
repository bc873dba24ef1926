"""The command line's flags, their help and what is wrong with a value that can be told from itself."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path

from fedsim import __version__, find

EXAMPLES = """examples:
  python -m fedsim scenarios/sparse_clients.yaml
  python -m fedsim scenarios/sparse_clients.yaml --dry-run
  python -m fedsim scenarios/sparse_clients.yaml --explain                     # in words, with bytes and times
  python -m fedsim --list algorithm                                            # what there is, and from where
  python -m fedsim scenarios/sparse_clients.yaml --set clients.count=5 --set "grid.seed=[0, 1]" --out runs/small
  python -m fedsim scenarios/cora_continual.yaml --tune 20                     # 20 trials for each algorithm
  python -m fedsim scenarios/protocols.yaml --trace                            # timelines, for ui.perfetto.dev
  python -m fedsim scenarios/sparse_clients.yaml --log tensorboard             # then: tensorboard --logdir runs
  python -m fedsim --schema > scenarios/schema.json

The same command again continues: finished points are skipped, and those that were ended in the middle go on from their
last checkpoint.  Where a file that decides results has changed since, points run again, and a line says which.
Exit codes: 0 done, 1 a point failed (the others still finish), 2 a mistake in what was given, or results that cannot be
written (finished points are kept), 130 Ctrl-C.
"""
LOGGERS = ("tensorboard", "mlflow")  # files of analysis/loggers/; timelines have a flag of their own
LIST = f"print the parts there are, with their sources: all, or one of {', '.join(find.KINDS)}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = argparse.ArgumentParser(
        prog="python -m fedsim",
        description="Run every point of a scenario's grid and keep tables, a summary and a report of them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("scenario", nargs="?", type=Path, metavar="SCENARIO", help="a YAML file, see scenarios/")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="change a dotted key; may be repeated")
    add("--out", type=Path, metavar="DIR", help="the folder of the results (default: runs/NAME)")
    add(
        "--tune",
        type=_count("trials"),
        metavar="N",
        help="N trials for each algorithm; then the best options as a scenario",
    )
    add(
        "--jobs",
        type=_count("processes"),
        metavar="N",
        help="points at the same time (default: as many as CPU cores, at most)",
    )
    add("--engine", choices=["local", "ray"], default="local", help="where the points run: here, or on a Ray cluster")
    add("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a Ray of this machine's own)")
    add(
        "--gpus-per-point",
        type=_gpus,
        metavar="N",
        help="with --engine ray: the share of a GPU for each point, as 0.25",
    )
    add("--data", type=Path, metavar="DIR", help="the folder of data sets (default: $FEDSIM_DATA or ~/.cache/fedsim)")
    add(
        "--checkpoint",
        type=_seconds,
        default=60.0,
        metavar="SECONDS",
        help="how often a running point keeps its state, to go on from there when it was ended; 0: never (default: 60)",
    )
    add("--fresh", action="store_true", help="remove earlier results of this scenario first")
    add("--trace", action="store_true", help="write each point's timeline too: trace.json.gz, for ui.perfetto.dev")
    add("--log", action="append", default=[], choices=LOGGERS, help="tell finished points to this too")
    add("--log-to", metavar="URI", help="with --log mlflow: the tracking URI (default: mlflow.db among the results)")
    add("--no-report", action="store_true", help="make no report at the end")
    add("--dry-run", action="store_true", help="check the scenario, print its points and the first one in full")
    add("--explain", action="store_true", help="say what would run, and foretell bytes and times of the first rounds")
    add("-v", "--verbose", action="store_true", help="with --dry-run, --explain: every point, every condition")
    add("--list", nargs="?", const="all", choices=["all", *find.KINDS], metavar="KIND", help=LIST)
    add("--schema", action="store_true", help="print the JSON schema of scenario files")
    add("--version", action="version", version=f"fedsim {__version__}")
    return made


def _count(what: str) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what} of at least 1")
        return int(text)

    return parsed


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, as 60, or 0 for never")
    return number or math.inf


def _gpus(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf or (number > 1 and number != int(number)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a fraction of a GPU, as 0.25, nor a whole number of them"
        )
    return number

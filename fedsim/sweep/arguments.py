"""The command line's flags, their help, and checks of single values."""

import argparse
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fedsim.core import kernels
from fedsim.core.errors import brief
from fedsim.core.units import nearest
from fedsim.core.version import __version__
from fedsim.scenario import find

EXAMPLES = """examples:
  python -m fedsim scenarios/sparse_clients.yaml
      run every point and write tables and a report into runs/sparse_clients
  python -m fedsim scenarios/sparse_clients.yaml --dry-run
      check the scenario and list its points; nothing is run or written
  python -m fedsim scenarios/sparse_clients.yaml --explain
      describe what would run, and estimate the cost of the first rounds
  python -m fedsim scenarios/sparse_clients.yaml --set protocol.rounds=5 \\
                   --set "grid.seed=[0, 1]" --out runs/small
      the same with fewer rounds and two seeds
  python -m fedsim --list algorithm
      list the algorithms; --list algorithm power shows the options of one
  python -m fedsim --try mylab.scaffold option=2
      check an algorithm of your own: which promise is broken, at which line;
      so do --try mylab/scaffold.py option=2, and --try fedavg
  python -m fedsim --init my_study
      write a small study to start from
  python -m fedsim scenarios/cora_continual.yaml --tune 20
      search for good options, 20 trials for each algorithm
  python -m fedsim scenarios/protocols.yaml --trace
      write timelines too, for ui.perfetto.dev
  python -m fedsim scenarios/sparse_clients.yaml --log tensorboard
      log the points too; then: tensorboard --logdir runs
  python -m fedsim --schema > schema.json
      for editors that check YAML

The same command again continues: finished points are skipped, and a point that
was interrupted goes on from its last checkpoint. If a file that decides results
has changed, the points that used it run again, and a message names the file.

exit codes:
  0    done
  1    a point failed (the others still finish), or a promise is broken (--try)
  2    a mistake in what was given, or results that cannot be written (finished
       points are kept)
  130  interrupted with Ctrl-C
"""
LOGGERS = ("tensorboard", "mlflow")  # files of analysis/loggers/; timelines have a flag of their own
LIST = (
    f"list the parts that scenarios can name (kinds: {', '.join(find.KINDS)}), those of a KIND, "
    "or the options of the parts NAME"
)


DESTRUCTIVE = {"--fresh"}  # removes results; never suggested


class Parser(argparse.ArgumentParser):
    """A parser that suggests the flag that was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the message, with a hint, and exit with code 2."""
        found = re.search(r"unrecognized arguments: (.*)", message)
        words = [word for word in (found[1].split() if found else []) if word.startswith("-")]
        known = [flag for flag in self._option_string_actions if flag not in DESTRUCTIVE]
        near = {word: nearest(word.partition("=")[0], known) for word in words}
        hints = [f"did you mean {flag} for {word}?" for word, flag in near.items() if flag]
        super().error(brief("; ".join([message, *hints]) if hints else f"{message} (--help shows all flags)"))


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    made = Parser(
        prog="python -m fedsim",
        usage="python -m fedsim SCENARIO [options]\n"
        "       python -m fedsim --list [KIND [NAME ...]] | --try ALGORITHM [KEY=VALUE ...]\n"
        "       python -m fedsim --init FOLDER | --schema | --version",
        description="Run every point of a scenario's grid, and write tables, a summary and a report of them.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = made.add_argument
    add("scenario", nargs="?", type=Path, metavar="SCENARIO", help="a YAML file, such as those in scenarios/")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="set a dotted key; may be repeated")
    add("--out", type=Path, metavar="DIR", help="the folder for results (default: runs/NAME)")
    add("--data", type=Path, metavar="DIR", help="the folder of data sets (default: $FEDSIM_DATA or ~/.cache/fedsim)")
    add("--fresh", action="store_true", help="remove earlier results of this scenario first")
    add("--no-plugins", action="store_true",
        help="refuse parts that are not fedsim's own, for a scenario of a stranger: a part's name is a module, whose "
        "code runs (docs/security.md)")  # fmt: skip
    add("--no-report", action="store_true", help="write no report at the end")

    add = made.add_argument_group("look before you run").add_argument
    add(
        "--dry-run",
        action="store_true",
        help="check the scenario; print its points (of many: their axes) and the first one in full",
    )
    add("--explain", action="store_true", help="describe what would run; estimate bytes and times of the first rounds")
    add("-v", "--verbose", action="store_true", help="with --dry-run: a row for every point, and each in full; with "
        "--explain: every condition and all options")  # fmt: skip
    add("--list", nargs="*", metavar=("KIND", "NAME"), help=LIST)
    add("--try", nargs="+", dest="tried", metavar=("ALGORITHM", "KEY=VALUE"),
        help="check whether an algorithm keeps the contract, on a small graph of its own; a name, a dotted module or a "
        "file, and its options")  # fmt: skip
    add("--init", type=Path, metavar="FOLDER", help="write a scenario, a table of clients and an algorithm to start "
        "from into a new folder")  # fmt: skip
    add("--schema", action="store_true", help="print the JSON schema of scenario files")
    add("--version", action="version", version=f"fedsim {__version__}")

    add = made.add_argument_group("where and how points run").add_argument
    add("--jobs", "--workers", type=_count("processes"), metavar="N",
        help="points that run at the same time (default: one for each CPU core, at most)")  # fmt: skip
    add("--checkpoint", type=_seconds, default=60.0, metavar="SECONDS",
        help="how often a running point saves its state, to go on from there; 0: never (default: 60)")  # fmt: skip
    add(
        "--no-following",
        action="store_true",
        help="train every point, also where another has learned the same (points that differ in their network alone)",
    )
    add("--native-math", action="store_true", help=kernels.HELP)
    add("--engine", choices=["local", "ray"], default="local", help="where points run: here, or on a Ray cluster")
    add("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a Ray started here)")
    add("--gpus-per-point", type=_gpus, metavar="N", help="with --engine ray: the GPUs of each point, such as 0.25")

    add = made.add_argument_group("more than a run").add_argument
    add("--tune", type=_count("trials"), metavar="N",
        help="run N trials for each algorithm and write the best options as a scenario")  # fmt: skip
    add("--tune-lr", action="store_true",
        help="with --tune: the clients' learning rate too, from a tenth of training.lr to ten times it")  # fmt: skip
    add("--trace", action="store_true", help="write each point's timeline too: trace.json.gz, for ui.perfetto.dev")
    add("--log", action="append", default=[], choices=LOGGERS, help="also log finished points with this tool")
    add("--log-to", metavar="URI", help="with --log mlflow: the tracking URI (default: mlflow.db among the results)")
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
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds: write 60, for instance, or 0 for never")
    return number or math.inf


def _gpus(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf or (number > 1 and number != int(number)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a fraction of a GPU, such as 0.25, nor a whole number of GPUs"
        )
    return number

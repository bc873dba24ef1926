"""The command line's flags, their help, and checks of single values."""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from fedsim.core import kernels
from fedsim.core.errors import brief
from fedsim.core.units import nearest
from fedsim.core.version import __version__
from fedsim.scenario.parts import find
from fedsim.sweep.starter import STUDIES

EXAMPLES = """examples:
  python -m fedsim --demo
      three methods on ten clients, half a minute: a table and a report
  python -m fedsim scenarios/sparse_clients.yaml
      simulate every run, and write tables and a report into runs/sparse_clients
  python -m fedsim scenarios/sparse_clients.yaml --dry-run
      check the scenario and list its runs; nothing is simulated or written
  python -m fedsim scenarios/sparse_clients.yaml --explain
      describe what would run, and estimate the cost of the first rounds
  python -m fedsim scenarios/sparse_clients.yaml --status
      how many of its runs are done, and which have failed
  python -m fedsim scenarios/sparse_clients.yaml --set protocol.rounds=5 \\
                   --set "grid.seed=[0, 1]" --out runs/small
      the same with fewer rounds and two seeds
  python -m fedsim --list algorithm
      list the algorithms; --list algorithm power shows the options of one
  python -m fedsim --try mylab.scaffold option=2
      check an algorithm of your own: which promise is broken, at which line;
      so do --try mylab/scaffold.py option=2, and --try fedavg
  python -m fedsim --init my_study
      write a small study to start from; --with module: one of a network of your own
  python -m fedsim scenarios/cora_continual.yaml --tune 20
      search for good options, 20 trials for each algorithm
  python -m fedsim scenarios/protocols.yaml --trace
      write timelines too, for ui.perfetto.dev
  python -m fedsim scenarios/sparse_clients.yaml --log tensorboard
      log the runs too; then: tensorboard --logdir runs
  python -m fedsim --schema > schema.json
      for editors that check YAML

The same command again continues: finished runs are skipped, and a run that was
interrupted goes on from its last checkpoint. If a file that decides results has
changed, the runs that used it are repeated, and a message names the file.

exit codes:
  0    done
  1    a run failed (the others still finish), or a promise is broken (--try)
  2    a mistake in what was given, or results that cannot be written (finished
       runs are kept)
  130  interrupted with Ctrl-C
"""
LOGGERS = ("tensorboard", "mlflow")  # files of analysis/loggers/; timelines have a flag of their own
KINDS = ", ".join(find.KINDS)
DESTRUCTIVE = {"--fresh"}  # removes results; never suggested


class Parser(argparse.ArgumentParser):
    """A parser that suggests the flag that was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Print the message, with a hint, and exit with code 2."""
        _, _, unknown = message.partition("unrecognized arguments: ")
        words = [word for word in unknown.split() if word.startswith("-")]
        known = [flag for flag in self._option_string_actions if flag not in DESTRUCTIVE]
        near = {word: nearest(word.partition("=")[0], known) for word in words}
        hints = [f"did you mean {flag} for {word}?" for word, flag in near.items() if flag]
        super().error(brief("; ".join([message, *hints]) if hints else f"{message} (--help shows all flags)"))


def add_common(parser: argparse.ArgumentParser, results: str) -> None:
    """Add the options that simulated and deployed runs share; `results` is where results go by default."""
    add = parser.add_argument
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="set a dotted key; may be repeated")
    add("--out", type=Path, metavar="DIR", help=f"the folder for results (default: {results})")
    add("--data", type=Path, metavar="DIR", help="the folder of data sets (default: $FEDSIM_DATA or ~/.cache/fedsim)")
    add("--fresh", action="store_true", help="remove earlier results of this scenario first")
    add("--native-math", action="store_true", help=kernels.HELP)
    add("--no-report", action="store_true", help="write no report at the end")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = Parser(
        prog="python -m fedsim",
        usage="python -m fedsim SCENARIO [options]\n"
        "       python -m fedsim --demo\n"
        "       python -m fedsim --list [KIND [NAME ...]] | --try ALGORITHM [KEY=VALUE ...]\n"
        "       python -m fedsim --init FOLDER [--with module] | --schema | --version",
        description="Simulate every run of a scenario's grid, and write tables, a summary and a report.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("scenario", nargs="?", type=Path, metavar="SCENARIO", help="a YAML file, such as those in scenarios/")
    add("--demo", action="store_true", help="run a small scenario that comes with fedsim, in half a minute")
    add_common(parser, "runs/NAME")
    add("--no-plugins", action="store_true",
        help="refuse parts that are not fedsim's own, for an untrusted scenario: a part's name is a module, whose "
        "code runs (docs/security.md)")  # fmt: skip

    add = parser.add_argument_group("instead of running, one of these").add_mutually_exclusive_group().add_argument
    add("--dry-run", action="store_true",
        help="check the scenario; print its runs (of many: their axes) and the first one in full")  # fmt: skip
    add("--explain", action="store_true", help="describe what would run; estimate bytes and times of the first rounds")
    add("--status", action="store_true", help="say how many of its runs are done, failed, begun and left")
    add("--tune", type=_count("trials"), metavar="N",
        help="run N trials for each algorithm and write the best options as a scenario")  # fmt: skip
    add("--list", nargs="*", metavar=("KIND", "NAME"),
        help=f"list the parts that scenarios can name ({KINDS}), those of a KIND, or the options of NAME")  # fmt: skip
    add("--try", nargs="+", dest="tried", metavar=("ALGORITHM", "KEY=VALUE"),
        help="check whether an algorithm keeps the contract, on a small graph of its own; a name, a dotted module or a "
        "file, and its options")  # fmt: skip
    add("--init", type=Path, metavar="FOLDER", help="write a scenario, a table of clients and an algorithm to start "
        "from into a new folder")  # fmt: skip
    add("--schema", action="store_true", help="print the JSON schema of scenario files")
    add("--version", action="version", version=f"fedsim {__version__}")

    add = parser.add_argument_group("with these").add_argument
    add("-v", "--verbose", action="store_true", help="with --dry-run: a row for every run, and each in full; with "
        "--explain: every condition and all options; with --status: every run")  # fmt: skip
    add("--tune-lr", action="store_true",
        help="with --tune: the clients' learning rate too, from a tenth of training.lr to ten times it")  # fmt: skip
    add("--with", choices=[*STUDIES], dest="study",
        help="with --init: a study of an algorithm of your own, as by default, or of a torch module")  # fmt: skip
    add("--json", action="store_true", help="print one JSON document for programs, of --list, --dry-run, --explain, "
        "--status or the runs; all else goes to the standard error")  # fmt: skip

    add = parser.add_argument_group("where and how runs are simulated").add_argument
    add("--jobs", "--workers", type=_count("processes"), metavar="N",
        help="runs at the same time (default: one for each CPU core, at most)")  # fmt: skip
    add("--checkpoint", type=_seconds, default=60.0, metavar="SECONDS",
        help="how often a run saves its state, to go on from there; 0: never (default: 60)")  # fmt: skip
    add("--no-following", action="store_true",
        help="train every run, also where another that differs in its network alone has learned the same")  # fmt: skip
    add("--engine", choices=["local", "ray"], default="local",
        help="where runs are simulated: here, or on a Ray cluster")  # fmt: skip
    add("--ray-address", metavar="ADDRESS", help="the cluster (default: $RAY_ADDRESS, or a Ray started here)")
    add("--gpus-per-run", type=_gpus, metavar="N", help="with --engine ray: the GPUs of each run, such as 0.25")

    add = parser.add_argument_group("more than runs").add_argument
    add("--trace", action="store_true", help="write each run's timeline too: trace.json.gz, for ui.perfetto.dev")
    add("--log", action="append", default=[], choices=LOGGERS, help="also log finished runs with this tool")
    add("--log-to", metavar="URI", help="with --log mlflow: the tracking URI (default: mlflow.db among the results)")
    return parser


def _count(what: str) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        if not text.isdecimal() or int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of {what} of at least 1")
        return int(text)

    return parsed


def _seconds(text: str) -> float:
    if not (number := _number(text)) >= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds: write 60, for instance, or 0 for never")
    return number or math.inf


def _gpus(text: str) -> float:
    number = _number(text)
    if not 0 < number < math.inf or (number > 1 and number != int(number)):
        message = f"{text!r} is neither a fraction of a GPU, such as 0.25, nor a whole number of GPUs"
        raise argparse.ArgumentTypeError(message)
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan

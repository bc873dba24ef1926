"""The contract of a logger: it tells a finished point to some other tool, from the point's tables alone.

Loggers stand outside: no algorithm and no protocol knows of them, and a point's tables and its id are the same without
them.  They are asked when a point has ended, so they show nothing of one that is still running.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from analysis.load import read_scenario
from analysis.settings import Scalar, flat


class LogError(Exception):
    """A point that could not be logged, or a logger that cannot be had; the message says why and names the mend."""


@dataclass(frozen=True)
class Finished:
    """A finished point: its run's name, its id, its folder, and the values of its axes as texts."""

    run: str
    point: str
    folder: Path
    axes: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Scalar]:
        """Return the resolved scenario by dotted keys.  Raises NotARunError where it cannot be read."""
        return dict(flat(read_scenario(self.folder)[0]))


@dataclass(frozen=True)
class Logger(ABC):
    """A logger; `to` is where it writes, None for its own place beside the run's tables."""

    to: str | None = None
    needs: ClassVar[str | None] = None  # the package without which it cannot be, and its extra

    @abstractmethod
    def logged(self, point: Finished) -> bool:
        """Return whether the point is there already."""

    @abstractmethod
    def log(self, point: Finished) -> None:
        """Tell a point, whole or not at all.  Raises LogError, NotARunError or OSError where that cannot be done."""


def build(name: str, to: str | None = None) -> Logger:
    """Return the logger of analysis/loggers/NAME.py.  Raises LogError where its package is not installed."""
    module = importlib.import_module(f"analysis.loggers.{name}")
    kind: type[Logger] = getattr(module, name.capitalize())
    if kind.needs and find_spec(kind.needs) is None:
        remedy = f'pip install -c constraints.txt -e ".[{kind.needs}]"'
        raise LogError(f"--log {name} needs the package {kind.needs}, which is not installed: {remedy}")
    return kind(to)


def asked_for(names: Sequence[str], timelines: bool, to: str | None) -> list[Logger]:
    """Return the loggers of `--log NAME`, `--trace` and `--log-to`.

    Raises LogError where a package is not installed, or where there is nobody to write there.
    """
    if to is not None and "mlflow" not in names:
        raise LogError("--log-to says where MLflow's runs go; give --log mlflow too, or leave it out")
    own = {"mlflow": to}
    return [build(name, own.get(name)) for name in dict.fromkeys([*(["timeline"] if timelines else []), *names])]

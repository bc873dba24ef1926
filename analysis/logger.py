"""The contract of a logger, which passes a finished point to another tool, from the point's tables alone.

Algorithms and protocols do not know of loggers, and a point's tables and id are the same without them.  They are
called when a point has ended, so they show nothing of a running one.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

from analysis.read.load import Scalar, flat, read_scenario
from fedsim.core.errors import UserError, installing


class LogError(UserError):
    """A point could not be logged, or a logger is not available; the message gives the reason and the remedy."""


@dataclass(frozen=True)
class Finished:
    """A finished point: its run's name, its id, its folder, and the values of its axes as texts."""

    run: str
    point: str
    folder: Path
    axes: Mapping[str, str] = field(default_factory=dict)

    def settings(self) -> dict[str, Scalar]:
        """Return the resolved scenario by dotted keys.  Raises NotARunError if it cannot be read."""
        return dict(flat(read_scenario(self.folder)[0]))


@dataclass(frozen=True)
class Logger(ABC):
    """A logger; `to` is where it writes, None for its default place beside the run's tables."""

    to: str | None = None
    needs: ClassVar[str | None] = None  # the package it needs, which is also the name of the extra

    @abstractmethod
    def logged(self, point: Finished) -> bool:
        """Return whether the point has been logged already."""

    @abstractmethod
    def log(self, point: Finished) -> None:
        """Log a point, completely or not at all.  Raises LogError, NotARunError or OSError on failure."""


def build(name: str, to: str | None = None) -> Logger:
    """Return the logger of analysis/loggers/NAME.py.  Raises LogError if its package is not installed."""
    kind: type[Logger] = getattr(importlib.import_module(f"analysis.loggers.{name}"), name.capitalize())
    if kind.needs and find_spec(kind.needs) is None:
        raise LogError(f"--log {name} needs {kind.needs}, which is not installed: {installing(kind.needs)}")
    return kind(to)


def asked_for(names: Sequence[str], timelines: bool, to: str | None) -> list[Logger]:
    """Return the loggers of `--log NAME`, `--trace` and `--log-to`.

    Raises LogError if a package is not installed, or if no logger uses `--log-to`.
    """
    if to is not None and "mlflow" not in names:
        raise LogError("--log-to is the address for --log mlflow; add --log mlflow, or leave --log-to out")
    wanted = dict.fromkeys(["timeline", *names] if timelines else names)
    return [build(name, to if name == "mlflow" else None) for name in wanted]

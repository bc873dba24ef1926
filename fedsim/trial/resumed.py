"""The promise that a point that was interrupted ends with the tables of one that was not.

The point is run to its end; run again, broken off in the middle of training after a checkpoint, and continued.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

from fedsim.learn.training import Trainer
from fedsim.run import run
from fedsim.scenario import Point
from fedsim.trial.finding import Finding, broken, warning
from fedsim.trial.stage import folder
from fedsim.trial.trial import Trial

PAUSE = 0.4  # seconds, by which a checkpoint is due again: its own time at least lies between it and the next 20 times
NONE = "no checkpoint can be taken"
REMEDY = (
    "all that later calls need must lie in the state or in job.memory: not on self, nor in variables of the module, nor "
    "in objects that both of them share"
)


class Interrupted(Exception):
    """The training that was to be the last one."""


def check(trial: Trial) -> list[Finding]:
    """Compare the tables of both."""
    point = trial.stage.point()
    with folder() as whole, folder() as parts:
        with _interrupting(None) as trained:
            _run(point, whole)
        if len(trained) < 3:
            return []  # nothing to be broken off, or not long enough
        with _interrupting(len(trained) // 2), suppress(Interrupted):
            _run(point, parts)
        log = (parts / "run.log").read_text("utf-8")
        if reason := next((line for line in log.splitlines() if NONE in line), None):
            told = f"a point that is interrupted starts anew: {reason.partition(': ')[2]}"
            return [warning(told, remedy="keep tensors, NumPy arrays, numbers, texts, dicts, lists and tuples")]
        if not [path for path in parts.rglob("*") if path.is_file() and path.name != "run.log"]:
            return [warning("whether a point can be continued was not seen: no checkpoint was taken in time")]
        _run(point, parts)
        for path in sorted(whole.glob("*.parquet")):
            one, other = (pq.read_table(where / path.name).to_pylist() for where in (whole, parts))
            if repr(one) != repr(other):
                told = f"a point that was interrupted and continued has other {path.stem}: {_first(one, other)}"
                return [broken(told, trial.method("work"), REMEDY)]
    return []


def _run(point: Point, where: Path) -> None:
    run(point, where, where, lambda progress: None, 0.0)


@contextmanager
def _interrupting(last: int | None) -> Iterator[list[int]]:
    """Count calls of the trainer; raise Interrupted at call `last`, with a checkpoint shortly before."""
    calls: list[int] = []
    train = Trainer.train

    def counted(self: Trainer, work: Sequence[Any]) -> list[Any]:
        calls.append(len(work))
        if last is not None and len(calls) == last:
            time.sleep(PAUSE)
        if last is not None and len(calls) > last:
            raise Interrupted
        return train(self, work)

    with patch.object(Trainer, "train", counted):
        yield calls


def _first(one: Sequence[dict[str, Any]], other: Sequence[dict[str, Any]]) -> str:
    """Say in which row and column two tables first differ."""
    if len(one) != len(other):
        return f"{len(one)} rows, and {len(other)}"
    number = next(n for n, (row, same) in enumerate(zip(one, other, strict=True)) if repr(row) != repr(same))
    column = next(name for name, value in one[number].items() if repr(value) != repr(other[number][name]))
    return f"{column} of row {number + 1} is {one[number][column]}, and {other[number][column]}"

"""The promise that a point that was interrupted ends with the tables of one that was not.

The point is run to its end; then run again, interrupted during training after a checkpoint, and resumed.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow.parquet as pq

from fedsim.learn.algorithm import Fit, Job
from fedsim.learn.training import Trainer
from fedsim.point.checkpoint import Keeper
from fedsim.point.run import run
from fedsim.scenario.schema import Point
from fedsim.trial import cohorts
from fedsim.trial.finding import Finding, broken, warning
from fedsim.trial.stage import folder
from fedsim.trial.trial import Trial

PAUSE = 0.8  # seconds, by which a checkpoint is due again: its own time at least lies between it and the next 20 times
REMEDY = (
    "all that later calls need must lie in the state or in job.memory, not on self and not in variables of the module"
)

Trained = list[list[tuple[Job, Any]]]  # the jobs of each call of the trainer, and what was made of them


class Interrupted(Exception):  # noqa: N818 -- nothing is wrong
    """The training that was to be the last one."""


def check(trial: Trial) -> list[Finding]:
    """Compare what both have trained, and their tables."""
    point = trial.stage.point()
    with folder() as whole, folder() as parts:
        with _interrupting(None) as trained:
            _run(point, whole)
        if len(trained) < 3:
            return []  # nothing to interrupt, or too short
        with _interrupting(len(trained) // 2), _forgone() as reasons, suppress(Interrupted):
            _run(point, parts)
        if reasons:
            message = f"a point that is interrupted starts anew: {reasons[0]}"
            return [warning(message, remedy="keep tensors, NumPy arrays, numbers, texts, dicts, lists and tuples")]
        if not [path for path in parts.rglob("*") if path.is_file() and path.name != "run.log"]:
            return [warning("whether a point can be continued was not seen: no checkpoint was taken in time")]
        with _interrupting(None) as continued:
            _run(point, parts)
        if difference := _other_fits(trained, continued) or _other_tables(whole, parts):
            what = f"a point that was interrupted and continued goes on otherwise than one that was not: {difference}"
            return [broken(what, trial.method("work"), REMEDY)]
    return []


def _run(point: Point, where: Path) -> None:
    run(point, where, where, lambda progress: None, 0.0)


@contextmanager
def _forgone() -> Iterator[list[str]]:
    """Collect why no checkpoint can be taken."""
    reasons: list[str] = []
    forgo = Keeper.forgo

    def noted(self: Keeper, reason: str) -> None:
        reasons.append(reason)
        forgo(self, reason)

    with patch.object(Keeper, "forgo", noted):
        yield reasons


@contextmanager
def _interrupting(last: int | None) -> Iterator[Trained]:
    """Keep what the trainer has made; raise Interrupted at the call after `last`, with a checkpoint between the two."""
    made: Trained = []
    train = Trainer.train

    def kept(self: Trainer, work: Sequence[tuple[Job, Fit]]) -> list[Any]:
        if len(made) == last:
            raise Interrupted
        if last is not None and len(made) + 1 == last:
            time.sleep(PAUSE)
        results = train(self, work)
        made.append([(job, params) for (job, _), params in zip(work, results, strict=True)])
        return results

    with patch.object(Trainer, "train", kept):
        yield made


def _other_fits(one: Trained, other: Trained) -> str | None:
    """Say which fit of those that were trained after the interruption has another outcome."""
    known, again = _by_job(one), _by_job(other)
    for key, (job, params) in again.items():
        if key not in known or cohorts.differing(known[key][1], params) is not None:
            return f"client {job.client} trains something else in step {job.step!r}"
    return None


def _by_job(made: Trained) -> dict[tuple[int, int, int], tuple[Job, Any]]:
    found: dict[tuple[int, int, int], tuple[Job, Any]] = {}
    counts: Counter[tuple[int, int]] = Counter()
    for job, params in (pair for call in made for pair in call):
        counts[job.client, job.seed] += 1
        found[job.client, job.seed, counts[job.client, job.seed]] = job, params
    return found


def _other_tables(one: Path, other: Path) -> str | None:
    """Say which row and column of which table differ."""
    for path in sorted(one.glob("*.parquet")):
        rows, others = (pq.read_table(where / path.name).to_pylist() for where in (one, other))
        for number, (row, same) in enumerate(zip(rows, others, strict=False)):
            for column, value in row.items():
                if repr(value) != repr(same[column]):
                    return f"{column} in row {number + 1} of {path.stem} is {same[column]} instead of {value}"
        if len(rows) != len(others):
            return f"{path.stem} has {len(others)} rows instead of {len(rows)}"
    return None

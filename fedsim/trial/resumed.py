"""Check that a point that was interrupted ends with the tables of one that was not.

The point is run to its end; then again, interrupted during training after a checkpoint, and resumed.
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
from fedsim.learn.engine.training import Trainer
from fedsim.point.resume.checkpoint import Checkpointer
from fedsim.point.run import run
from fedsim.scenario.schema import Point
from fedsim.trial import cohorts
from fedsim.trial.stage import folder
from fedsim.trial.trial import Finding, Trial, broken

PAUSE = 0.8  # seconds, after which a checkpoint is due again: 20 times as long as one takes lies between two
REMEDY = (
    "all that later calls need must lie in the state or in job.memory, not on self and not in variables of the module"
)

Trained = list[list[tuple[Job, Any]]]  # the jobs of each call of the trainer, and their results


class Interrupted(Exception):  # noqa: N818 -- nothing is wrong
    """The training that was to be the last one."""


def check(trial: Trial) -> list[Finding]:
    """Compare what both train, and their tables."""
    point = trial.stage.point()
    with folder() as uninterrupted, folder() as resumed:
        with _interrupted_after(None) as trained:
            _run(point, uninterrupted)
        if len(trained) < 3:
            return []  # nothing to interrupt, or too short
        disabled = patch.object(Checkpointer, "disable", autospec=True, side_effect=Checkpointer.disable)
        with _interrupted_after(len(trained) // 2), disabled as disable, suppress(Interrupted):
            _run(point, resumed)
        if disable.called:
            remedy = "keep tensors, NumPy arrays, numbers, texts, dicts, lists and tuples"
            _, reason = disable.call_args_list[0].args
            return [Finding("note", f"an interrupted run starts anew: {reason}", "", remedy)]
        if not [path for path in resumed.rglob("*") if path.is_file() and path.name != "run.log"]:
            return [Finding("note", "not tried: no checkpoint was taken in time")]
        with _interrupted_after(None) as continued:
            _run(point, resumed)
        if difference := _other_fits(trained, continued) or _other_tables(uninterrupted, resumed):
            what = f"a run that was interrupted and resumed differs from one that was not: {difference}"
            return [broken(what, trial.method("work"), REMEDY)]
    return []


def _run(point: Point, where: Path) -> None:
    run(point, where, where, lambda progress: None, 0.0)


@contextmanager
def _interrupted_after(last: int | None) -> Iterator[Trained]:
    """Collect what the trainer returns; after `last` calls, and a checkpoint before the last, raise Interrupted."""
    calls: Trained = []
    train = Trainer.train

    def recorded(self: Trainer, work: Sequence[tuple[Job, Fit]]) -> list[Any]:
        if len(calls) == last:
            raise Interrupted
        if last is not None and len(calls) + 1 == last:
            time.sleep(PAUSE)
        results = train(self, work)
        calls.append([(job, params) for (job, _), params in zip(work, results, strict=True)])
        return results

    with patch.object(Trainer, "train", recorded):
        yield calls


def _other_fits(one: Trained, other: Trained) -> str | None:
    """Say which fit after the interruption has another outcome."""
    expected, actual = _by_job(one), _by_job(other)
    for key, (job, params) in actual.items():
        if key not in expected or cohorts.differing(expected[key][1], params) is not None:
            return f"client {job.client} trains something else in step {job.step!r}"
    return None


def _by_job(trained: Trained) -> dict[tuple[int, int, int], tuple[Job, Any]]:
    """Return each job and its result by client, seed, and which of the job's fits it is."""
    fits: dict[tuple[int, int, int], tuple[Job, Any]] = {}
    counts: Counter[tuple[int, int]] = Counter()
    for job, params in (pair for call in trained for pair in call):
        counts[job.client, job.seed] += 1
        fits[job.client, job.seed, counts[job.client, job.seed]] = job, params
    return fits


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

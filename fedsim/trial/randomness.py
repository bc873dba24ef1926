"""The promises that nothing is drawn from global random numbers, and that the same seed gives the same result."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from fedsim.trial import prints
from fedsim.trial.finding import Finding, broken
from fedsim.trial.play import Play, play
from fedsim.trial.trial import Trial
from fedsim.trial.watch import Event

REMEDY = (
    "draw from a generator of your own: torch.Generator().manual_seed(integer(job.seed, ...)) in a client's work, with "
    "self.task.seed and something kept in the state on the server (integer is in fedsim.core.seeds)"
)


def check(trial: Trial) -> list[Finding]:
    """Report every method that draws global random numbers, with the line that does."""
    found: dict[tuple[str, str], Event] = {}
    for event in trial.recording.draws:
        if event.method != "train":  # which `work` surrounds
            found.setdefault((event.method, event.what), event)
    return [
        broken(
            f"{event.method} draws from the global random numbers of {event.what}, whose order depends on who is "
            "trained together",
            trial.line_of(event),
            REMEDY,
        )
        for event in found.values()
    ]


def check_repeats(trial: Trial) -> list[Finding]:
    """Play the same again with other global random numbers and look for the first result that differs."""
    with _other_numbers():
        again = play(trial.stage.lesson(), trial.stage.trainer())
    difference = _first(trial.played, again)
    if difference is None:
        return []
    what, method = difference
    message = f"{what} differs when the same rounds are played again with the same seed"
    return [broken(message, trial.method(method), f"{REMEDY}; time, object ids and sets of texts have no fixed order")]


def _first(one: Play, other: Play) -> tuple[str, str] | None:
    """Return the first result that differs, and the method that made it."""
    if paths := prints.changed(prints.of(one.first), prints.of(other.first)):
        return f"the first state{paths[-1]}", "start"
    works, others = iter(one.works), iter(other.works)
    for fold, again in zip(one.folds, other.folds, strict=False):
        for _ in fold.replies:
            work, same = next(works), next(others)
            whose = f"of client {work.job.client} in step {fold.step!r} of round {fold.number + 1}"
            for name, method, first, second in (
                ("download", "download", work.job.download, same.job.download),
                ("upload", "work", work.upload, same.upload),
            ):
                if paths := prints.changed(prints.of(first), prints.of(second)):
                    return f"the {name}{paths[-1]} {whose}", method
        if paths := prints.changed(prints.of(fold.state), prints.of(again.state)):
            return f"the state{paths[-1]} after step {fold.step!r} of round {fold.number + 1}", "update"
    return None if len(one.folds) == len(other.folds) else ("the number of steps", "steps")


@contextmanager
def _other_numbers() -> Iterator[None]:
    """Set the global random numbers to others, and back afterwards."""
    kept = torch.get_rng_state(), np.random.get_state(), random.getstate()
    torch.manual_seed(1), np.random.seed(1), random.seed(1)
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        np.random.set_state(kept[1])
        random.setstate(kept[2])

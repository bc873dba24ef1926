"""The promise that clients trained together learn what each would learn alone, up to rounding."""

from collections.abc import Iterator
from typing import Any

import torch

from fedsim.learn.training import Trainer
from fedsim.trial import places
from fedsim.trial.finding import Finding, broken
from fedsim.trial.play import Work
from fedsim.trial.trial import Trial

TOLERANCE = 1e-4  # of what float32 rounds differently when many are computed at once
REMEDY = (
    "keep the clients' axis K in front everywhere: the loss takes parameters (K, ...) and returns (K,); what cannot be "
    "written so is trained client by client with Fit(each=True)"
)


def check(trial: Trial) -> list[Finding]:
    """Compare every fit, then every upload, with those of the same job trained alone; report the first difference."""
    for work, alone in zip(trial.played.works, trial.alone.works, strict=False):
        whose = f"of client {work.job.client} in step {work.job.step!r} of round {work.number + 1}"
        for fit, one, other in zip(work.fits, work.trained, alone.trained, strict=False):
            if (path := differing(one, other)) is not None:
                message = f"the fit{path} {whose} has another outcome in a cohort than when the client is trained alone"
                return [broken(message + _single(trial, alone), places.definition(fit.loss), REMEDY)]
        if (path := differing(work.upload, alone.upload)) is not None:
            message = f"the upload{path} {whose} differs when clients are trained one by one"
            return [broken(message, trial.method("work"), "work may read nothing of other clients' jobs")]
    return []


def _single(trial: Trial, work: Work) -> str:
    """Say whether the loss returns one number for all clients; tried on the job's first fit."""
    shapes = []

    def seen(params: Any, data: Any, given: Any) -> torch.Tensor:
        shapes.append(tuple((loss := work.fits[0].loss(params, data, given)).shape))
        return loss

    fit = type(work.fits[0])(**{**vars(work.fits[0]), "loss": seen, "slot": None})
    Trainer(trial.stage.trainer().optimiser, 1).train([(work.job, fit)])
    return "" if shapes == [(1,)] else f"; its loss returns the shape {shapes[0]} for one client, which must be (1,)"


def differing(one: Any, other: Any) -> str | None:
    """Return the path of the first entry in which two trees differ by more than rounding, None where none does."""
    return next(_differing(one, other, ""), None)


def _differing(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key, value in one.items():
            yield from _differing(value, other[key], f"{path}[{key!r}]")
    elif isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        for number, both in enumerate(zip(one, other, strict=True)):
            yield from _differing(*both, f"{path}[{number}]")
    elif isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.shape == other.shape:
        first, second = one.detach().double(), other.detach().double()
        if not torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            yield path
    elif isinstance(one, float) and isinstance(other, float):
        if not abs(one - other) <= TOLERANCE * (1 + abs(other)) and not one != one != other != other:
            yield path
    elif type(one) is not type(other) or (isinstance(one, int | str | bytes | dict | list | tuple) and one != other):
        yield path

"""Check that clients trained together learn what each would learn alone, up to rounding."""

from typing import Any

import torch

from fedsim.scenario.parts import source
from fedsim.trial import trees
from fedsim.trial.trial import Finding, Trial, broken

TOLERANCE = 1e-4  # of what float32 rounds differently when many are computed at once
REMEDY = (
    "keep the clients' axis K in front everywhere: the loss takes parameters (K, ...) and returns (K,); what cannot be "
    "written so is trained client by client with Fit(each=True)"
)


def check(trial: Trial) -> list[Finding]:
    """Compare every fit, then every upload, with those of the same job trained alone; report the first difference."""
    for work, alone in zip(trial.played.works, trial.alone.works, strict=False):
        context = f"of client {work.job.client} in step {work.job.step!r} of round {work.number + 1}"
        for fit, together, single in zip(work.fits, work.trained, alone.trained, strict=False):
            if (path := differing(together, single)) is not None:
                what = f"the fit{path} {context} has another outcome in a cohort than when the client is trained alone"
                return [broken(what, source.line_of(fit.loss), REMEDY)]
        if (path := differing(work.upload, alone.upload)) is not None:
            what = f"the upload{path} {context} differs when clients are trained one by one"
            return [broken(what, trial.method("work"), "work may read nothing of other clients' jobs")]
    return []


def differing(expected: Any, actual: Any) -> str | None:
    """Return the path of the first entry in which two trees differ by more than rounding, None where none does."""
    first, second = dict(trees.leaves(expected)), dict(trees.leaves(actual))
    if first.keys() != second.keys():
        return min(first.keys() ^ second.keys())
    return next((path for path in first if not _close(first[path], second[path])), None)


def _close(expected: Any, actual: Any) -> bool:
    if type(expected) is not type(actual):
        return False
    if isinstance(expected, torch.Tensor | float):
        first, second = (torch.as_tensor(value).detach().double() for value in (expected, actual))
        close = torch.allclose(first, second, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True)
        return first.shape == second.shape and close
    return bool(expected == actual) if isinstance(expected, int | str | bytes) else True

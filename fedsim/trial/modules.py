"""Check that an algorithm that says so (`any_model`) runs with a torch module, and keeps its other promises there."""

from dataclasses import replace
from typing import Any

from fedsim.learn.algorithm import Algorithm
from fedsim.trial import messages, side_effects
from fedsim.trial.trial import Finding, Trial

CHECKS = (
    messages.check_encodable,
    messages.check_size,
    messages.check_finite,
    side_effects.check_random,
    side_effects.check_repeats,
    side_effects.check_in_place,
)
REMEDY = "treat a model as a tree whatever its names, or leave out any_model = True"


def check(trial: Trial) -> list[Finding]:
    """Play the rounds with a module; a note says where the algorithm does not claim to run with one."""
    algorithm = trial.stage.setup().algorithm
    if not algorithm.any_model:
        return [Finding("note", "not tried: it does not say any_model = True, so that modules are refused")]
    other = with_module(trial, algorithm)
    findings = [finding for each in CHECKS for finding in each(other) if finding.kind == "broken"]
    return [replace(one, what=f"with a torch module {one.what}", remedy=one.remedy or REMEDY) for one in findings]


def with_module(trial: Trial, algorithm: Algorithm) -> Trial:
    """Return the trial with a module as the model, with buffers as far as the algorithm takes any."""
    options: dict[str, Any] = {}
    if "no buffers" in algorithm.needs:
        options = {"norm": False}
    elif "own buffers" in algorithm.needs:
        options = {"buffers": "local"}
    keys = {**trial.stage.keys, "model": {"name": "fedsim.trial.net.Net", **options}}
    return replace(trial, stage=replace(trial.stage, keys=keys))

"""A warning where clients that could be trained together are trained one by one, without a word."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fedsim.learn.algorithm import Fit
from fedsim.trial import places
from fedsim.trial.finding import Finding, warning
from fedsim.trial.trial import Trial


def check(trial: Trial) -> list[Finding]:
    """Look at the fits that were asked for at the same time; each reason is reported once."""
    found: dict[tuple[str, str], Finding] = {}
    for training in trial.played.trainings:
        fits = [fit for _, fit in training]
        if len(fits) > 1:
            for finding in (*_by_wish(fits), *_by_function(fits), *_by_shape(fits)):
                found.setdefault((finding.where, finding.remedy), finding)
    return list(found.values())


def _by_wish(fits: Sequence[Fit]) -> list[Finding]:
    wished = [fit for fit in fits if fit.each]
    return [
        warning(
            "Fit(each=True) trains clients one by one, which is many times slower",
            places.definition(wished[0].loss),
            "leave `each` out if the loss can keep the clients' axis K in front: parameters (K, ...) to losses (K,)",
        )
        for _ in wished[:1]
    ]


def _by_function(fits: Sequence[Fit]) -> list[Finding]:
    """Report a function of the same code that is another object in each job: a lambda, a closure, a partial one."""
    findings = []
    for name in ("loss", "correct"):
        functions: list[Callable[..., Any]] = [
            f for fit in fits if not fit.each and (f := getattr(fit, name)) is not None
        ]
        places_of = {places.definition(function) for function in functions}
        if _distinct(functions) > len(places_of):
            findings.append(
                warning(
                    f"`{name}` of a Fit is a new function for every job, so that clients are trained one by one",
                    places.definition(functions[0]),
                    f"give a method, such as Fit(..., {name}=self.{name}), and pass what it reads as `given`",
                )
            )
    return findings


def _by_shape(fits: Sequence[Fit]) -> list[Finding]:
    """Report an entry of `start` or `given` whose shape differs in every job."""
    together = [fit for fit in fits if not fit.each]
    for name in ("start", "given"):
        shapes = [dict(_shapes(getattr(fit, name), "")) for fit in together]
        for path in shapes[0] if len(shapes) > 1 else ():
            seen = [own.get(path) for own in shapes]
            if len(set(seen)) == len(seen):
                message = f"{name}{path} of a Fit has another shape for every client ({seen[0]}, {seen[1]}, ...)"
                return [
                    warning(
                        f"{message}, so that clients are trained one by one",
                        places.definition(together[0].loss),
                        "keep what has one row for each vertex in the graph's own keys, or give it equal shapes",
                    )
                ]
    return []


def _distinct(functions: Sequence[Callable[..., Any]]) -> int:
    kinds: list[Callable[..., Any]] = []
    for function in functions:
        if not any(function == other for other in kinds):
            kinds.append(function)
    return len(kinds)


def _shapes(node: Any, path: str) -> list[tuple[str, str]]:
    if isinstance(node, torch.Tensor):
        return [(path, str(tuple(node.shape)))]
    if isinstance(node, dict) and not {"edges", "sizes"} <= node.keys():  # graphs are joined whatever their size
        return [pair for key, value in node.items() for pair in _shapes(value, f"{path}[{key!r}]")]
    if isinstance(node, list | tuple):
        return [pair for number, value in enumerate(node) for pair in _shapes(value, f"{path}[{number}]")]
    return []

"""Check that what is sent can be encoded, is as large as declared, and is finite."""

from collections.abc import Iterable
from typing import Any

from fedsim.core import wire
from fedsim.learn import upload_size as declared
from fedsim.learner.client import is_finite
from fedsim.trial import trees
from fedsim.trial.play import PlayedJob
from fedsim.trial.trial import Finding, Trial, broken

SENDABLE = (
    "send tensors, NumPy arrays, numbers, texts, bytes, None, and dicts (keys of type str), lists and tuples of them"
)
DECLARE = 'return a tree of the same shapes, such as {"update": job.download["model"], "samples": 0}'


def check_encodable(trial: Trial) -> list[Finding]:
    """Encode every download and upload; of each kind the first that cannot be encoded is reported."""
    findings: dict[str, Finding] = {}
    for work in trial.played.works:
        for name, method, tree in (("download", "download", work.job.download), ("upload", "work", work.upload)):
            if method not in findings and (problem := unencodable(tree)) is not None:
                path, reason = problem
                message = f"the {name} of client {work.job.client}{path} cannot be sent: {reason}"
                findings[method] = broken(message, trial.method(method), SENDABLE)
    return list(findings.values())


def check_size(trial: Trial) -> list[Finding]:
    """Compare every upload with its declaration; of each step the first that differs is reported."""
    findings: dict[str, Finding] = {}
    for work in trial.played.works:
        step = work.job.step
        if step in findings or unencodable(work.upload):  # which has no size
            continue
        if work.declared is not None and wire.size(work.declared) != wire.size(work.upload):
            findings[step] = _other_size(trial, work)
        elif work.declared is None and trial.cls.talks:
            what = f"upload_like returns None for step {step!r}, so that clients are trained one by one"
            findings[step] = Finding("note", what, trial.method("upload_like"), DECLARE)
    return list(findings.values())


def _other_size(trial: Trial, work: PlayedJob) -> Finding:
    inherited = "" if "upload_like" in vars(trial.cls) else f"; it is inherited: give {trial.cls.__name__} its own"
    return broken(
        f"upload_like declares {wire.size(work.declared)} bytes for step {work.job.step!r}, client {work.job.client} "
        f"sends {wire.size(work.upload)}: {declared.difference(work.declared, work.upload)}",
        trial.method("upload_like"),
        f"make it agree with what work returns ({trial.method('work')}){inherited}",
    )


def check_finite(trial: Trial) -> list[Finding]:
    """Report the first value of an upload, a download or a state that is not finite."""
    for what, method, tree in trial.played.results():
        path = next((path for path, leaf in trees.leaves(tree) if not is_finite(leaf)), None)
        if path is not None:
            message = f"{what.format(path)} holds a value that is not finite"
            return [broken(message, trial.method(method), "look for a division by zero, a log or a root of 0")]
    return []


def unencodable(tree: Any, path: str = "") -> tuple[str, str] | None:
    """Return the path of the innermost entry that cannot be encoded, and why, or None where all can."""
    try:
        wire.encode(tree)
    except (ValueError, TypeError) as error:
        entries: Iterable[tuple[Any, Any]] = ()
        if isinstance(tree, dict) and all(isinstance(key, str) for key in tree):
            entries = tree.items()
        elif isinstance(tree, list | tuple):
            entries = enumerate(tree)
        inner = (unencodable(value, f"{path}[{key!r}]") for key, value in entries)
        return next((problem for problem in inner if problem is not None), (path, str(error)))
    return None

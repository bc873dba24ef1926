"""`--try ALGORITHM [KEY=VALUE ...]`: find the algorithm, run every check, print the report."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from analysis.terminal import writable
from fedsim.core import logbook
from fedsim.core.errors import UserError
from fedsim.learn.algorithm import Algorithm
from fedsim.scenario import find, yaml_text
from fedsim.scenario.part import Part
from fedsim.trial import (
    billing,
    cohorts,
    corrections,
    declared_bytes,
    encodable,
    files,
    groups,
    protocols,
    randomness,
    report,
    resumed,
    untouched,
)  # fmt: skip
from fedsim.trial.finding import Finding, broken
from fedsim.trial.stage import accepted, folder
from fedsim.trial.trial import Trial

Check = Callable[[Trial], list[Finding]]
PLAYED = "work, updates and training run to the end"
BYTES = "the bytes declared are the bytes sent"
ENCODED = "what is sent can be encoded"
DRAWN = "nothing draws from global random numbers"
SAME = "the same seed gives the same result"


@dataclass(frozen=True)
class Promise:
    """A promise in words, and what looks at it: only where those that it rests on hold."""

    words: str
    checks: Sequence[Check]
    after: Sequence[str] = ()


PROMISES: Sequence[Promise] = (
    Promise(ENCODED, [encodable.check]),
    Promise(BYTES, [declared_bytes.check]),
    Promise("every value is finite", [encodable.check_finite]),
    Promise(DRAWN, [randomness.check]),
    Promise(SAME, [randomness.check_repeats], [DRAWN]),
    Promise("nothing is changed in place", [untouched.check, untouched.check_kept]),
    Promise("clients are trained together", [groups.check]),
    Promise("a cohort learns what its clients learn one by one", [cohorts.check], [DRAWN, SAME]),
    Promise("what is computed is billed", [billing.check]),
    Promise("corrections of gradients have the right sign", [corrections.check]),
    Promise("an interrupted point ends like one that was not", [resumed.check], [ENCODED, BYTES, DRAWN, SAME]),
    Promise("every protocol runs, or is refused with a reason", [protocols.check], [ENCODED, BYTES]),
)


def run(words: Sequence[str], console: Console) -> int:
    """Try the algorithm that the words of `--try` name; return 0 where all promises hold, and 1 where one is broken.

    Raises UserError where there is no such algorithm, or none that can be tried.
    """
    part = named(words)
    cls = built(part)
    trial = Trial(accepted(part), cls)
    options = "".join(f" {key}={value}" for key, value in part.options.items())
    console.print(f"{cls.__name__} ({trial.author.file()}){options}\n", soft_wrap=True)
    sections = []
    with folder() as there, logbook.keep(there / "log"):  # what algorithms log is not for the terminal
        for section in tried(trial):
            sections.append(section)
            for line in report.lines(section, min(console.width, report.WIDTH)):
                console.print(writable(line, console.encoding), soft_wrap=True)
    console.print(f"\n{report.summary(sections)}")
    return 1 if any(finding.kind == "broken" for _, findings in sections for finding in findings) else 0


def tried(trial: Trial) -> Iterator[report.Section]:
    """Run the checks and yield what was found of each promise; only the first where it cannot even be played."""
    failed = _plays(trial)
    yield PLAYED, failed
    wrong: list[str] = []
    for promise in () if failed else PROMISES:
        if first := next((words for words in promise.after if words in wrong), None):
            yield promise.words, [Finding("untried", f"until this holds: {first}")]
            continue
        findings = [finding for check in promise.checks for finding in _safe(trial, check)]
        if any(finding.kind == "broken" for finding in findings):
            wrong.append(promise.words)
        yield promise.words, findings


def built(part: Part) -> type[Algorithm]:
    """Return the class of the algorithm, which can be built with its options.

    Raises UserError where there is none, its file cannot be imported, an option is wrong, or it trains nothing.
    """
    made: Algorithm = find.build("algorithm", part)
    if not made.learns:
        message = f"{type(made).__name__} trains nothing (learns = False), so that there is no contract to try"
        raise UserError(f"--try {part.name}: {message}")
    return type(made)


def named(words: Sequence[str]) -> Part:
    """Return the algorithm of the words: a name, a dotted module or a file, and options as KEY=VALUE.

    Raises UserError for words that are neither.
    """
    name, *rest = words
    options = {}
    for word in rest:
        key, equals, text = word.partition("=")
        if not equals or not key.isidentifier():
            raise UserError(f"--try {name}: {word!r} is no option: write it as KEY=VALUE, as in mu=0.1")
        options[key] = yaml_text.read(text, f"--try: {word}", {})
    return Part(name=files.module(name) if files.is_file(name) else name, options=options)


def _plays(trial: Trial) -> list[Finding]:
    try:
        trial.played  # noqa: B018 -- played when asked for, and kept
    except Exception as error:  # whatever the author's code raises is what is looked for
        return [_raised(trial, error), *_alone(trial)]
    return []


def _alone(trial: Trial) -> list[Finding]:
    """Say so where it is only in a cohort that it fails."""
    try:
        trial.alone  # noqa: B018
    except Exception:  # the same or another: the first is reported
        return []
    return [broken("with every client trained by itself it works", "", cohorts.REMEDY)]


def _safe(trial: Trial, check: Check) -> list[Finding]:
    try:
        return check(trial)
    except Exception as error:  # the author's code may raise in one way of running it alone
        return [_raised(trial, error)]


def _raised(trial: Trial, error: Exception) -> Finding:
    return broken(f"it raises {type(error).__name__}: {error}", trial.author.line_of_error(error))

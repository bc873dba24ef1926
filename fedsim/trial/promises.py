"""The promises of an algorithm, and the checks of each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fedsim.core import logbook
from fedsim.scenario.parts import source
from fedsim.trial import cohorts, messages, modules, protocols, resumed, side_effects
from fedsim.trial.stage import folder
from fedsim.trial.trial import Finding, Trial, broken

Check = Callable[[Trial], list[Finding]]
PromiseFindings = tuple[str, list[Finding]]  # a promise in words, and what was found

RUNS = "work, updates and training run to the end"
BYTES = "the bytes declared are the bytes sent"
ENCODED = "what is sent can be encoded"
DRAWN = "nothing draws from global random numbers"
SAME = "the same seed gives the same result"


@dataclass(frozen=True)
class CheckedPromise:
    """A promise in words and its check, which is tried only where the promises that it rests on hold."""

    words: str
    check: Check
    after: Sequence[str] = ()


PROMISES: Sequence[CheckedPromise] = (
    CheckedPromise(ENCODED, messages.check_encodable),
    CheckedPromise(BYTES, messages.check_size),
    CheckedPromise("every value is finite", messages.check_finite),
    CheckedPromise(DRAWN, side_effects.check_random),
    CheckedPromise(SAME, side_effects.check_repeats, [DRAWN]),
    CheckedPromise("nothing is changed in place", side_effects.check_in_place),
    CheckedPromise("a cohort learns what its clients learn one by one", cohorts.check, [DRAWN, SAME]),
    CheckedPromise("any torch module will do as the model, where it says so", modules.check, [ENCODED, BYTES, DRAWN]),
    CheckedPromise("an interrupted run ends like one that was not", resumed.check, [ENCODED, BYTES, DRAWN, SAME]),
    CheckedPromise("every protocol runs, or is refused with a reason", protocols.check, [ENCODED, BYTES]),
)


def tried(trial: Trial) -> Iterator[PromiseFindings]:
    """Yield what the checks find of each promise; only of the first where the algorithm cannot even be played."""
    with folder() as scratch, logbook.keep(scratch / "log"):  # what algorithms log is not for the terminal
        failures = _failures(trial)
        yield RUNS, failures
        broken_before: set[str] = set()
        for promise in () if failures else PROMISES:
            if missing := next((words for words in promise.after if words in broken_before), None):
                yield promise.words, [Finding("untried", f"until this holds: {missing}")]
                continue
            findings = _findings(trial, promise.check)
            if is_broken(findings):
                broken_before.add(promise.words)
            yield promise.words, findings


def is_broken(findings: Sequence[Finding]) -> bool:
    """Return whether a promise with these findings does not hold."""
    return any(finding.kind == "broken" for finding in findings)


def _failures(trial: Trial) -> list[Finding]:
    """Play the algorithm; if it raises, say what, and whether it does so only where clients are trained together."""
    together = _findings(trial, _plays)
    if together and not _findings(trial, _plays_alone):
        return [*together, broken("with every client trained by itself it works", "", cohorts.REMEDY)]
    return together


def _plays(trial: Trial) -> list[Finding]:
    trial.played  # noqa: B018 -- raises what the author's code raises
    return []


def _plays_alone(trial: Trial) -> list[Finding]:
    trial.alone  # noqa: B018
    return []


def _findings(trial: Trial, check: Check) -> list[Finding]:
    try:
        return check(trial)
    except Exception as error:  # the author's code may raise anything
        return [broken(f"it raises {source.in_a_line(error)}", source.place_of(error))]

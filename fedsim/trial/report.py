"""What a trial has found, in words, for a terminal of 80 columns."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from fedsim.trial.finding import Finding

WIDTH, MARGIN = 80, 10
WORDS = {"broken": "BROKEN", "untried": "untried", "warning": "warning"}  # the first that fits heads a promise

Section = tuple[str, Sequence[Finding]]  # a promise, and what was found of it


def lines(section: Section, width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of a promise and of what was found of it."""
    promise, findings = section
    kinds = {finding.kind for finding in findings}
    head = next((word for kind, word in WORDS.items() if kind in kinds), "holds")
    yield from _entry(head, promise, width)
    for finding in findings:
        yield from _entry("warning" if finding.kind == "warning" and head != "warning" else "", finding.what, width)
        if finding.where:
            yield from _entry("", f"at {finding.where}", width)
        if finding.remedy:
            yield from _entry("", f"-> {finding.remedy}", width)


def summary(sections: Sequence[Section]) -> str:
    """Return how many promises hold, and how many warnings there are."""
    wrong = sum(any(finding.kind == "broken" for finding in findings) for _, findings in sections)
    warned = sum(finding.kind == "warning" for _, findings in sections for finding in findings)
    if wrong and len(sections) == 1:
        return "It does not run, so nothing else was tried."
    warnings = f"{warned or 'no'} warning{'s' * (warned != 1)}"
    if wrong:
        left = sum(finding.kind == "untried" for _, findings in sections for finding in findings)
        untried = f"{left} not tried; " if left else ""
        return f"{wrong} of {len(sections)} promises {'is' if wrong == 1 else 'are'} broken; {untried}{warnings}."
    return f"All {len(sections)} promises hold; {warnings}."


def _entry(word: str, text: str, width: int) -> Iterator[str]:
    found = wrap(text, width - MARGIN, break_on_hyphens=False, break_long_words=False) or [""]
    yield f"{word:<{MARGIN}}{found[0]}".rstrip()
    yield from (" " * MARGIN + line for line in found[1:])

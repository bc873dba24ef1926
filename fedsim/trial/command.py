"""`--try ALGORITHM [KEY=VALUE ...]`: check the algorithm's promises and print the findings."""

from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import Console

from analysis import terminal
from fedsim.core.errors import UserError
from fedsim.learn.algorithm import Algorithm
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, lookup, source
from fedsim.scenario.text import yaml_text
from fedsim.trial import files
from fedsim.trial.promises import PromiseFindings, is_broken, tried
from fedsim.trial.stage import accepted
from fedsim.trial.trial import Trial

WIDTH, MARGIN = 80, 10


def run(words: Sequence[str], console: Console) -> int:
    """Try the algorithm that the words of `--try` name; return 0 where all promises hold, and 1 where one is broken.

    Raises UserError where there is no such algorithm, or none that can be tried.
    """
    part = named(words)
    cls = built(part)
    trial = Trial(accepted(part), cls)
    options = "".join(f" {key}={value}" for key, value in part.options.items())
    file = lookup.file_of(cls.__module__)
    console.print(f"{cls.__name__} ({source.shown(file) if file else cls.__module__}){options}\n", soft_wrap=True)
    sections = []
    for section in tried(trial):
        sections.append(section)
        terminal.show(console, report(section, min(console.width, WIDTH)))
    console.print(f"\n{summary(sections)}")
    return 1 if any(is_broken(findings) for _, findings in sections) else 0


def built(part: Part) -> type[Algorithm]:
    """Return the class of the algorithm, which can be built with its options.

    Raises UserError where there is none, its file cannot be imported, an option is wrong, or it trains
    nothing.
    """
    algorithm: Algorithm = find.build("algorithm", part)
    if not algorithm.learns:
        message = f"{type(algorithm).__name__} trains nothing (learns = False), so that there is no contract to try"
        raise UserError(f"--try {part.name}: {message}")
    return type(algorithm)


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


def report(section: PromiseFindings, width: int = WIDTH) -> Iterator[str]:
    """Yield the lines of a promise and its findings."""
    promise, findings = section
    untried = any(finding.kind == "untried" for finding in findings)
    yield from _wrapped("BROKEN" if is_broken(findings) else "untried" if untried else "holds", promise, width)
    for finding in findings:
        yield from _wrapped("", finding.what, width)
        if finding.where:
            yield from _wrapped("", f"at {finding.where}", width)
        if finding.remedy:
            yield from _wrapped("", f"-> {finding.remedy}", width)


def summary(sections: Sequence[PromiseFindings]) -> str:
    """Return how many promises hold."""
    wrong = sum(is_broken(findings) for _, findings in sections)
    if not wrong:
        return f"All {len(sections)} promises hold."
    if len(sections) == 1:
        return "It does not run, so nothing else was tried."
    left = sum(finding.kind == "untried" for _, findings in sections for finding in findings)
    untried = f"; {left} not tried" if left else ""
    return f"{wrong} of {len(sections)} promises {'is' if wrong == 1 else 'are'} broken{untried}."


def _wrapped(word: str, text: str, width: int) -> Iterator[str]:
    first, *others = wrap(text, width - MARGIN, break_on_hyphens=False, break_long_words=False) or [""]
    yield f"{word:<{MARGIN}}{first}".rstrip()
    yield from (" " * MARGIN + line for line in others)

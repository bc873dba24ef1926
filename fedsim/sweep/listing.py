"""`--list`: show every part of the project in a line, without importing any, or one part with its options.

The line is the first paragraph of the file's docstring.  The source is the text in brackets with a year there, or a
sentence that begins with "Source:" or "After", or the first brackets with authors and a year; a part without a source
has none.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console

from analysis.terminal import wrapped, writable
from fedsim.core.errors import UserError
from fedsim.scenario import find, options, source, wording
from fedsim.scenario.options import Named, Option

IN_BRACKETS = re.compile(r"\s*\(([^()]*(?:\b(?:19|20)\d\d\b|arXiv)[^()]*)\)")
AUTHORS = re.compile(r"\(([^()]*(?:et al\.| and )[^()]*\b(?:19|20)\d\d\b[^()]*)\)")
SENTENCE = re.compile(r"(?:^|[.;]\s)(?:Source:|After) ([^\n]*?\b(?:19|20)\d\d\b)")
ALL = "all"


@dataclass(frozen=True)
class Entry:
    """A part's name, its description in one line, and its source ("" if it has none)."""

    name: str
    line: str
    source: str


def entry(kind: str, name: str) -> Entry:
    """Return the entry of a part, read from its source; its name may be dotted."""
    module = find.module_of(kind, name)
    whole = source.docstring(module) if module else ""
    first = " ".join(whole.split("\n\n")[0].split())
    found = IN_BRACKETS.search(first)
    flat = " ".join(whole.split())
    cited = found or SENTENCE.search(flat) or AUTHORS.search(flat)
    line = IN_BRACKETS.sub("", first, count=1) if found else first
    return Entry(name, line.rstrip("."), cited[1].strip() if cited else "")


def line(kind: str, name: str) -> str:
    """Return a part's line, and its source in brackets."""
    found = entry(kind, name)
    return f"{found.line} ({found.source})" if found.source else found.line


def chosen(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the kinds that the words of `--list` name, and the names of parts, if some are given.

    A kind may be in the plural or in capitals.  Raises UserError, with the nearest valid word, for any other.
    """
    if not words or [*words] == [ALL]:
        return [*find.KINDS], []
    kind, names = _kind(words[0]), [*dict.fromkeys(words[1:])]
    for name in names:
        problems = find.check(kind, Named(name))
        if wrong := [problem.message for problem in problems if "needs the option" not in problem.message]:
            raise UserError(f"--list {kind} {name}: {wrong[0]}")
    return [kind], names


def _kind(word: str) -> str:
    lower = word.lower()
    for kind in find.KINDS:
        if lower in (kind, f"{kind}s", f"{kind[:-1]}ies", find.KINDS[kind].key):
            return kind
    holders = [kind for kind in find.KINDS if lower in find.names(kind)]
    if holders:
        raise UserError(f"--list {word}: did you mean --list {holders[0]} {lower}?")
    raise UserError(f"--list {word}: there is no such kind{wording.did_you_mean(word, [*find.KINDS], 'There are')}")


def show(console: Console, kinds: Sequence[str], names: Sequence[str] = ()) -> None:
    """Print the parts of these kinds, one line each, or the named ones with their options."""
    width = console.width
    if len(kinds) > 1:
        _print(console, wrapped(f"Kinds: {', '.join(kinds)}. --list KIND lists the parts of one.", width, "", "  "))
        console.print()
    for kind in kinds if not names else ():
        console.print(f"{find.KINDS[kind].key}", style="bold")
        for each in find.names(kind):
            _print(console, wrapped(f"{each}: {line(kind, each)}", width, "  ", "      "))
        console.print()
    for number, name in enumerate(names):
        _print(console, [*([""] if number else []), *details(kinds[0], name, width)])
    if not names:
        _print(console, wrapped("--list KIND NAME shows a part's options.", width))


def details(kind: str, name: str, width: int) -> Iterator[str]:
    """Yield the description of a part line by line: what it is, its source and its options.

    Raises ScenarioError if it cannot be imported.
    """
    cls, found = options.of(kind, name)
    own, part = entry(kind, name), find.module_of(kind, name)
    yield f"{name} ({find.KINDS[kind].key})"
    yield from wrapped(own.line, width, "  ")
    if own.source:
        yield from wrapped(f"source: {own.source}", width, "  ", "    ")
    own_words = _paragraph(inspect.getdoc(cls) or "")
    generated = own_words.startswith((f"{cls.__name__}(", "See the module"))  # as dataclasses do without a docstring
    if own_words and cls.__module__ == part and not generated:
        yield ""
        yield from wrapped(own_words, width, "  ")
    yield ""
    yield from _option_lines(found, width)


def _option_lines(found: Sequence[Option], width: int) -> Iterator[str]:
    if not found:
        yield "It has no options."
        return
    yield "options"
    for option in found:
        default = option.default if option.default == options.REQUIRED else f"default {option.default}"
        span = f"; --tune searches {option.span}" if option.span else ""
        yield from wrapped(f"{option.name}: {option.type} ({default}{span})", width, "  ", "      ")
        if option.meaning:
            yield from wrapped(option.meaning, width, "      ")


def _paragraph(text: str) -> str:
    return " ".join(text.split("\n\n")[0].split())


def _print(console: Console, lines: Iterable[str]) -> None:
    for each in lines:
        console.print(writable(each, console.encoding), soft_wrap=True)

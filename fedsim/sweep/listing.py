"""`--list`: show every part of the project in a line, without importing any, or one part with its options.

The line is the first paragraph of the file's docstring.  The source is the text in brackets with a year there, or a
sentence that begins with "Source:" or "After", or the first brackets with authors and a year; a part without a source
has none.
"""

import inspect
import re
from collections.abc import Iterator, Sequence

from rich.console import Console

from analysis import terminal
from analysis.terminal import wrapped
from fedsim.core.errors import UserError
from fedsim.core.units import did_you_mean
from fedsim.scenario.part import Part
from fedsim.scenario.parts import find, installed, options, source
from fedsim.scenario.parts.options import Option

IN_BRACKETS = re.compile(r"\s*\(([^()]*(?:\b(?:19|20)\d\d\b|arXiv)[^()]*)\)")
AUTHORS = re.compile(r"\(([^()]*(?:et al\.| and )[^()]*\b(?:19|20)\d\d\b[^()]*)\)")
SENTENCE = re.compile(r"(?:^|[.;]\s)(?:Source:|After) ([^\n]*?\b(?:19|20)\d\d\b)")
ALL = "all"


def entry(kind: str, name: str) -> tuple[str, str]:
    """Return a part's description in one line, and its source ("" if it has none); its name may be dotted."""
    module = find.module_of(kind, name)
    text = source.docstring(module) if module else ""
    first, flat = (" ".join(words.split()) for words in (text.split("\n\n")[0], text))
    in_brackets = IN_BRACKETS.search(first)
    cited = in_brackets or SENTENCE.search(flat) or AUTHORS.search(flat)
    line = IN_BRACKETS.sub("", first, count=1) if in_brackets else first
    return line.rstrip("."), cited[1].strip() if cited else ""


def line(kind: str, name: str) -> str:
    """Return a part's line, its source in brackets, and the package that it comes from if it is installed."""
    text, cited = entry(kind, name)
    owner = installed.owner_of(find.KINDS[kind].package, name, find.module_of(kind, name))
    return " ".join([text, *(f"({note})" for note in (cited, owner and f"from {owner}") if note)])


def chosen(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the kinds that the words of `--list` name, and the names of parts, if some are given.

    A kind may be in the plural or in capitals.  Raises UserError, with the nearest valid word, for any other.
    """
    if not words or [*words] == [ALL]:
        return [*find.KINDS], []
    kind, names = _kind(words[0]), [*dict.fromkeys(words[1:])]
    for name in names:
        problems = find.check(kind, Part(name=name))
        if wrong := [problem.message for problem in problems if "needs the option" not in problem.message]:
            raise UserError(f"--list {kind} {name}: {wrong[0]}")
    return [kind], names


def _kind(word: str) -> str:
    lower = word.lower()
    for kind in find.KINDS:
        if lower in (kind, f"{kind}s", f"{kind[:-1]}ies", find.KINDS[kind].key):
            return kind
    if holders := [kind for kind in find.KINDS if lower in find.names(kind)]:
        raise UserError(f"--list {word}: did you mean --list {holders[0]} {lower}?")
    raise UserError(f"--list {word}: there is no such kind{did_you_mean(word, find.KINDS)}")


def show(console: Console, kinds: Sequence[str], names: Sequence[str] = ()) -> None:
    """Print the parts of these kinds, one line each, or the named ones with their options."""
    width = console.width
    if len(kinds) > 1:
        terminal.show(
            console, wrapped(f"Kinds: {', '.join(kinds)}. --list KIND lists the parts of one.", width, "", "  ")
        )
        console.print()
    for kind in kinds if not names else ():
        console.print(f"{find.KINDS[kind].key}", style="bold")
        for each in find.names(kind):
            terminal.show(console, wrapped(f"{each}: {line(kind, each)}", width, "  ", "      "))
        console.print()
    for number, name in enumerate(names):
        terminal.show(console, [*([""] if number else []), *details(kinds[0], name, width)])
    if not names:
        terminal.show(console, wrapped("--list KIND NAME shows a part's options.", width))


def details(kind: str, name: str, width: int) -> Iterator[str]:
    """Yield the description of a part line by line: what it is, its source and its options.

    Raises ScenarioError if it cannot be imported.
    """
    cls, known = options.of(kind, name)
    text, cited = entry(kind, name)
    yield f"{name} ({find.KINDS[kind].key})"
    yield from wrapped(text, width, "  ") if text else ()
    if cited:
        yield from wrapped(f"source: {cited}", width, "  ", "    ")
    if disclosed := getattr(cls, "discloses", None):
        yield from wrapped(f"others read of a client: {disclosed}", width, "  ", "    ")
    words = " ".join((inspect.getdoc(cls) or "").split("\n\n")[0].split())
    generated = words.startswith((f"{cls.__name__}(", "See the module"))  # as dataclasses do without a docstring
    if words and cls.__module__ == find.module_of(kind, name) and not generated:
        yield ""
        yield from wrapped(words, width, "  ")
    yield ""
    yield from _option_lines(known, width)


def _option_lines(known: Sequence[Option], width: int) -> Iterator[str]:
    if not known:
        yield "It has no options."
        return
    yield "options"
    for option in known:
        default = option.default if option.default == options.REQUIRED else f"default {option.default}"
        span = f"; --tune searches {option.span}" if option.span else ""
        yield from wrapped(f"{option.name}: {option.type} ({default}{span})", width, "  ", "      ")
        if option.meaning:
            yield from wrapped(option.meaning, width, "      ")

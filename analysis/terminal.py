"""Text for terminals and logs: its width, tables that fit, and substitutes for characters that an encoding lacks.

A table never loses a column or a digit: labels are folded, and if even that is too wide each row becomes a block.
What it does not model: characters of double width.
"""

import argparse
import codecs
import io
import os
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate, chain

from rich.console import Console
from rich.text import Text

Say = Callable[[str], None]  # shows what is being done
WIDTH = 80  # where no terminal says otherwise
GAP = 2  # spaces between two columns
LABEL = 14  # smallest width to which a label is folded
SIGNS = {
    "±": "+-", "–": "-", "—": "-", "−": "-", "…": "...", "→": "->", "←": "<-", "×": "x", "·": "*", "≤": "<=", "≥": ">=",
    "≈": "~", "━": "#", "─": ".", "‘": "'", "’": "'", "“": '"', "”": '"', "µ": "u", "μ": "mu", "α": "alpha",
    "β": "beta", "γ": "gamma", "Γ": "Gamma", "δ": "delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma", "τ": "tau",
    "φ": "phi", "Σ": "sum", "ß": "ss", "ø": "o", "ł": "l", "₂": "2", "²": "2",
}  # fmt: skip
HANDLER = "fedsim.signs"


def prepare() -> None:
    """Make the standard streams substitute characters that their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=HANDLER)


def parser(prog: str, description: str, examples: str, usage: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of a command, which takes no shortened options, and whose help ends with the examples."""
    plain = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(prog, usage, description, examples, formatter_class=plain, allow_abbrev=False)


def console(stderr: bool = False) -> Console:
    """Return a console on the standard output or error: as wide as a terminal; elsewhere $COLUMNS or 80 columns."""
    prepare()
    wide = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(width=None if wide else width(), markup=False, highlight=False, stderr=stderr)


@contextmanager
def working() -> Iterator[Say]:
    """Yield what says what is being done, on a line of the standard error that it is erased from at the end.

    Nothing is shown where that is not a terminal.
    """
    if not sys.stderr.isatty():
        yield silent
        return
    with Console(stderr=True, markup=False, highlight=False).status("") as line:
        yield lambda words: line.update(Text(words))


def show(console: Console, lines: Iterable[str]) -> None:
    """Print lines that fit already, with substitutes for what the console's encoding lacks."""
    for line in lines:
        console.print(writable(line, console.encoding), soft_wrap=True)


def silent(words: str) -> None:
    """Say nothing."""


def width() -> int:
    """Return how wide the lines may be: $COLUMNS, or else the terminal's width, or 80 where there is none."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or WIDTH
    except (OSError, ValueError):
        return WIDTH


def writable(text: str, encoding: str | None) -> str:
    """Return the text with substitutes for characters that the encoding lacks, so that its width is known."""
    return text.encode(encoding or "utf-8", HANDLER).decode(encoding or "utf-8")


def wrapped(text: str, width: int, indent: str = "", hanging: str | None = None) -> list[str]:
    """Return the text in lines of at most this width; what is longer than a line is broken, nothing is left out."""
    hang = indent if hanging is None else hanging
    wide = max(width, len(hang) + 8, len(indent) + 8)
    return textwrap.wrap(text, wide, initial_indent=indent, subsequent_indent=hang, break_on_hyphens=False) or [""]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, indent: str = "") -> Iterator[str]:
    """Yield the lines of a table; see `layout`."""
    yield from chain.from_iterable(layout(heads, rows, width, indent))


def layout(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, indent: str = "") -> list[list[str]]:
    """Return the lines of the heads and of each row: labels at the left, folded where they must be, and numbers."""
    sizes = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    label = min(sizes[0], width - len(indent) - sum(size + GAP for size in sizes[1:]))
    if label < min(sizes[0], LABEL):
        return [[], *([*_block(heads, row, width, indent)] for row in rows)]
    return [[*_line(row, label, sizes[1:], indent)] for row in (heads, *rows)]


def columns_that_fit(sizes: Sequence[int], label: int, width: int) -> int:
    """Return how many columns of these sizes, the first ones, fit beside a label that may be folded; at least one."""
    room = width - min(label, max(LABEL, width // 3))
    return max(1, sum(taken <= room for taken in accumulate(size + GAP for size in sizes)))


def _line(row: Sequence[str], label: int, sizes: Sequence[int], indent: str) -> Iterator[str]:
    first, *more = wrapped(row[0], label) if len(row[0]) > label else [row[0]]
    cells = "".join(f"{cell:>{size + GAP}}" for cell, size in zip(row[1:], sizes, strict=True))
    yield f"{indent}{first:<{label}}{cells}".rstrip()
    yield from (f"{indent}{line}" for line in more)


def _block(heads: Sequence[str], row: Sequence[str], width: int, indent: str) -> Iterator[str]:
    yield from wrapped(row[0], width, indent)
    for head, cell in zip(heads[1:], row[1:], strict=True):
        if cell:
            yield from wrapped(f"{head}: {cell}", width, f"{indent}  ", f"{indent}    ")


def _sign(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_ascii, error.object[error.start : error.end])), error.end


def _ascii(character: str) -> str:
    bare = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return SIGNS.get(character) or bare or "?"


codecs.register_error(HANDLER, _sign)

"""`--list`: every part that comes with the project, with a line of its docstring and its source; nothing is imported.

The line is the first paragraph of the file's docstring.  Its source is what stands there in brackets with a year, or
else a sentence that begins with "Source:" or "After", or else the first brackets with authors and a year; a part of the
project's own has none.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from fedsim import find, source

IN_BRACKETS = re.compile(r"\s*\(([^()]*(?:\b(?:19|20)\d\d\b|arXiv)[^()]*)\)")
AUTHORS = re.compile(r"\(([^()]*(?:et al\.| and )[^()]*\b(?:19|20)\d\d\b[^()]*)\)")
SENTENCE = re.compile(r"(?:^|[.;]\s)(?:Source:|After) ([^\n]*?\b(?:19|20)\d\d\b)")
OWN_NOTES = re.compile(r"[;,]\s*[\w.]+\.md[^;]*")  # where in a note of the project


@dataclass(frozen=True)
class Entry:
    """A part by its name, in one line, and where it is from ("" where that is not told)."""

    name: str
    line: str
    source: str


def entry(kind: str, name: str) -> Entry:
    """Return what the source of a part tells of it, a dotted one's too."""
    module = find.module_of(kind, name)
    whole = source.docstring(module) if module else ""
    first = " ".join(whole.split("\n\n")[0].split())
    found = IN_BRACKETS.search(first)
    flat = " ".join(whole.split())
    told = found or SENTENCE.search(flat) or AUTHORS.search(flat)
    line = IN_BRACKETS.sub("", first, count=1) if found else first
    return Entry(name, line.rstrip("."), OWN_NOTES.sub("", told[1]).strip() if told else "")


def line(kind: str, name: str) -> str:
    """Return a part's line, and its source in brackets."""
    found = entry(kind, name)
    return f"{found.line} ({found.source})" if found.source else found.line


def show(console: Console, kinds: Sequence[str]) -> None:
    """Print a table for each of these kinds."""
    for kind in kinds:
        table = Table(box=None, header_style="bold", pad_edge=False, title_justify="left", title_style="bold")
        for column in (find.KINDS[kind].key, "", "source"):
            table.add_column(column, no_wrap=column == find.KINDS[kind].key)
        for name in find.names(kind):
            found = entry(kind, name)
            table.add_row(found.name, found.line, found.source)
        console.print(table)
        console.print()

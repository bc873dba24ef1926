"""The tables within pages of numbers: between the marks `<!-- claims: TABLE -->` and `<!-- end of claims -->`.

All else on a page is prose, which this leaves alone.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from analysis.claims.file import ClaimsError, Table
from fedsim.core import whole_files

ROOT = Path(__file__).resolve().parents[2]
END = "<!-- end of claims -->"
MARKED = re.compile(rf"<!-- claims: (\S+) -->\n(.*?){re.escape(END)}", re.DOTALL)


def table_text(table: Table) -> str:
    """Return the table as Markdown."""
    rows = [[column.head for column in table.columns], *(row.cells for row in table.rows)]
    head, *lines = [f"| {' | '.join(cells)} |\n" for cells in rows]
    return "".join([head, "|---" * len(table.columns) + "|\n", *lines])


def pages() -> list[Path]:
    """Return the pages that may have such tables: README and the documents."""
    return [ROOT / "README.md", *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts)]


def generated(text: str, tables: Sequence[Table]) -> str:
    """Return the text of a page with every marked table written anew.

    Raise ClaimsError where a mark names no table.
    """
    known = {table.table: table for table in tables}
    if unknown := [name for name in marks(text) if name not in known]:
        raise ClaimsError(f"there is a mark for {unknown[0]!r}, of which analysis/claims.yaml knows nothing")
    return MARKED.sub(lambda match: f"<!-- claims: {match[1]} -->\n{table_text(known[match[1]])}{END}", text)


def marks(text: str) -> list[str]:
    """Return the names of the tables that a text has marks for."""
    return [match[1] for match in MARKED.finditer(text)]


def write(tables: Sequence[Table]) -> list[Path]:
    """Write the tables of all pages anew; return the pages.

    Raise ClaimsError where a mark names no table, or a table has not one mark; then nothing is written.
    """
    texts = {path: text for path in pages() if marks(text := path.read_text(encoding="utf-8"))}
    found = [name for text in texts.values() for name in marks(text)]
    if wrong := [table.table for table in tables if found.count(table.table) != 1]:
        raise ClaimsError(f"there must be one mark '<!-- claims: {wrong[0]} -->'; there are {found.count(wrong[0])}")
    written = {path: generated(text, tables) for path, text in texts.items()}
    for path, text in written.items():
        whole_files.replace(path, text)
    return [*written]

"""The tables within pages of numbers: between the marks `<!-- claims: TABLE -->` and `<!-- end of claims -->`.

All else on a page is prose, which this leaves alone.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from analysis.claims.file import ClaimsError, Table

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/reproduction.md"
END = "<!-- end of claims -->"
MARKED = re.compile(rf"<!-- claims: (\S+) -->\n(.*?){re.escape(END)}", re.DOTALL)


def table_text(table: Table) -> str:
    """Return the table as Markdown."""
    head, *rows = [[column.head for column in table.columns], *(row.cells for row in table.rows)]
    lines = [_line(head), "|---" * len(head) + "|\n", *map(_line, rows)]
    return "".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def generated(text: str, tables: Sequence[Table], page: str = PAGE) -> str:
    """Return the text of a page with every marked table written anew.

    Raise ClaimsError where a mark names no table of the page, and where such a table has no mark.
    """
    known = {table.table: table for table in tables if table.page == page}
    marked = [match[1] for match in MARKED.finditer(text)]
    for name in marked:
        if name not in known:
            raise ClaimsError(f"{page} has a mark for the table {name!r}, of which analysis/claims.yaml knows nothing")
    for name in known:
        if marked.count(name) != 1:
            raise ClaimsError(f"{page} must have one mark '<!-- claims: {name} -->', and has {marked.count(name)}")
    return MARKED.sub(lambda match: f"<!-- claims: {match[1]} -->\n{table_text(known[match[1]])}{END}", text)


def write(tables: Sequence[Table]) -> list[Path]:
    """Write the tables of all pages anew; return the pages.  Raise ClaimsError as `generated` does, writing nothing."""
    pages = {ROOT / name: name for name in dict.fromkeys(table.page for table in tables)}
    texts = {path: generated(path.read_text(encoding="utf-8"), tables, name) for path, name in pages.items()}
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return [*texts]

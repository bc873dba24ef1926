"""Tables as the page shows them, with notes: constant columns, how much is shown, and the full table.

A column with the same value in every row is stated once, below; an empty one is left out. The CSV and the LaTeX table
have all columns.
"""

from collections.abc import Sequence
from html import escape
from urllib.parse import quote

from analysis.page import MOST_ROWS, Cell, table
from analysis.quantity import MISSING

MOST_CONSTANTS = 8  # stated below a table


def part(name: str, title: str, *parts: str) -> str:
    """Return a part of a section under its own heading; without one, its chart has it. `name` is its anchor."""
    heading = f"<h3>{escape(title)}</h3>\n" if title else ""
    return f'<div class="part" id="{escape(name)}">{heading}' + "\n".join(filter(None, parts)) + "</div>"


def sheet(heads: Sequence[str], rows: Sequence[Sequence[Cell]], full: str, first: int, note: str = "") -> str:
    """Return a table with its note; `full` is the name of its CSV.

    The columns before the `first` identify a row, and are left out only if all of them are constant.
    """
    constants, heads, rows = _varied(heads, rows, first)
    words = " ".join(filter(None, [note.strip(), constants]))
    return table(heads, rows[:MOST_ROWS]) + f'<p class="note">{escape(words)} {_whole(len(rows), full)}</p>'


def _whole(rows: int, full: str) -> str:
    cut = f"{MOST_ROWS:,} of {rows:,} rows; full table" if rows > MOST_ROWS else "Full table"
    links = [f'<a href="tables/{quote(full)}.{end}">{escape(words)}</a>'
             for end, words in (("csv", f"tables/{full}.csv"), ("tex", "LaTeX"))]  # fmt: skip
    return f"{cut}: {links[0]} ({links[1]})."


def _varied(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], first: int
) -> tuple[str, list[str], list[list[Cell]]]:
    """Return the constant columns in words, and the table without them."""
    alike = [len(rows) > 1 and all(row[at].shown == rows[0][at].shown for row in rows) for at in range(len(heads))]
    empty = [at >= first and all(row[at].shown == MISSING for row in rows) for at in range(len(heads))]
    kept = [at for at in range(len(heads)) if not (alike[at] or empty[at])]
    if not rows or not kept:
        return "", list(heads), [list(row) for row in rows]
    said = [
        f"{heads[at]} {rows[0][at].shown}" for at in range(len(heads)) if alike[at] and rows[0][at].shown != MISSING
    ]
    more = f" and {len(said) - MOST_CONSTANTS} more" if len(said) > MOST_CONSTANTS else ""
    constants = f"In every row: {', '.join(said[:MOST_CONSTANTS])}{more}." if said else ""
    return constants, [heads[at] for at in kept], [[row[at] for at in kept] for row in rows]

"""Tables as the page shows them, with notes: constant columns, how much is shown, and the full table.

A column with the same value in every row is stated once, below; an empty one is left out. The CSV and the LaTeX table
have all columns.
"""

from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import quote

import pandas as pd

from analysis.axes import short
from analysis.quantity import MISSING
from analysis.report.cells import Maker, placed, spread_in_words
from analysis.report.page import MOST_ROWS, Cell, note, table
from analysis.statistics.constant_axes import settled

MOST_CONSTANTS = 8  # stated below a table


def part(name: str, title: str, *parts: str) -> str:
    """Return a part of a section under its own heading; without one, its chart has it. `name` is its anchor."""
    heading = f"<h3>{escape(title)}</h3>\n" if title else ""
    return f'<div class="part" id="{escape(name)}">{heading}' + "\n".join(filter(None, parts)) + "</div>"


def figures_table(
    frame: pd.DataFrame, by: Sequence[str], columns: Sequence[tuple[str, Maker]], full: str, noted: str = "",
    settle: Sequence[str] = (), **facts: Any,
) -> str:  # fmt: skip
    """Return a table with a row for each of the frame's: where it was run (`by`), then `columns`, heads and cells.

    The note is the block `noted` of templates/notes.jinja, or that called `full`; it states `facts`. Rows are
    shown at one value of each axis along which none of the figures `settle` changes. For `full` see `sheet`.
    """
    same = ""
    if settle:
        axes = [name for name in by if name != "algorithm"]
        frame, varied, same = settled(frame, axes, settle)
        by = [name for name in by if name in varied or name not in axes]
    heads = [*map(short, by), *(head for head, _ in columns)]
    rows = [placed(row, by) + [cell(row) for _, cell in columns] for _, row in frame.iterrows()]
    spread = spread_in_words(frame) if "n" in frame else ""
    return sheet(heads, rows, full, len(by), note(noted or full, spread=spread, same=same, **facts))


def sheet(heads: Sequence[str], rows: Sequence[Sequence[Cell]], full: str, first: int, words: str = "") -> str:
    """Return a table with its note; `full` is the name of its CSV.

    The columns before the `first` identify a row, and are left out only if all of them are constant.
    """
    constants, heads, rows = _varied(heads, rows, first)
    below = " ".join(filter(None, [words.strip(), constants]))
    return table(heads, rows[:MOST_ROWS]) + f'<p class="note">{escape(below)} {_where_full(len(rows), full)}</p>'


def _where_full(rows: int, full: str) -> str:
    cut = f"{MOST_ROWS:,} of {rows:,} rows; full table" if rows > MOST_ROWS else "Full table"
    files = (("csv", f"tables/{full}.csv"), ("tex", "LaTeX"))
    csv, tex = (f'<a href="tables/{quote(full)}.{end}">{escape(words)}</a>' for end, words in files)
    return f"{cut}: {csv} ({tex})."


def _varied(
    heads: Sequence[str], rows: Sequence[Sequence[Cell]], first: int
) -> tuple[str, list[str], list[list[Cell]]]:
    """Return the constant columns in words, and the table without them."""
    alike = [len(rows) > 1 and all(row[at].shown == rows[0][at].shown for row in rows) for at in range(len(heads))]
    empty = [at >= first and all(row[at].shown == MISSING for row in rows) for at in range(len(heads))]
    shown = [at for at in range(len(heads)) if not (alike[at] or empty[at])]
    if not rows or not shown:
        return "", list(heads), [list(row) for row in rows]
    constant = [at for at in range(len(heads)) if alike[at] and rows[0][at].shown != MISSING]
    stated = [f"{heads[at]} {rows[0][at].shown}" for at in constant]
    more = f" and {len(stated) - MOST_CONSTANTS} more" if len(stated) > MOST_CONSTANTS else ""
    constants = f"In every row: {', '.join(stated[:MOST_CONSTANTS])}{more}." if stated else ""
    return constants, [heads[at] for at in shown], [[row[at] for at in shown] for row in rows]

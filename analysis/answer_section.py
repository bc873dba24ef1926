"""The report's first screen: the question, a grid of who is first where, how to read it, and one chart."""

import re
from collections.abc import Sequence
from html import escape

from analysis.answer import Entry, Grid
from analysis.page import paragraph


def answer_section(
    asked: str, descriptions: Sequence[str], cautions: Sequence[str], found: Grid, scored: str, chart: str
) -> str:
    """Return the section: `cautions` are shown above the grid, `scored` says what was scored."""
    more = f"{found.left_out} conditions more are in tables/first.csv." if found.left_out else ""
    parts = [
        *(paragraph(words, "lead") for words in descriptions),
        *(f'<p class="warning" role="note"><strong>Note:</strong> {escape(words)}</p>' for words in cautions),
        f'<div class="first" tabindex="0" role="group" aria-label="{escape(found.title)}">{_table(found)}</div>',
        paragraph(" ".join(filter(None, [found.note, more, scored])), "note"),
        chart,
    ]
    return f'<section id="answer"><h2>{escape(asked)}</h2>\n' + "\n".join(filter(None, parts)) + "\n</section>"


def _table(found: Grid) -> str:
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in found.heads)
    rows = "".join(
        f'<tr><th scope="row">{escape(label)}</th>{"".join(map(_cell, entries))}</tr>' for label, entries in found.rows
    )
    return f"<table><caption>{escape(found.title)}</caption><tbody><tr>{heads}</tr>{rows}</tbody></table>"


def _cell(entry: Entry) -> str:
    first, *more = entry.parts
    return f"<td><strong>{_unbroken(first)}</strong>{'<br>' if more else ''}{_unbroken(', '.join(more))}</td>"


def _unbroken(words: str) -> str:
    """Return the words as HTML, no line of which ends between a number and its unit."""
    return re.sub(r"(?<=\d) (?=(?:%|[mµn]?s|min|h|d|[kMGT]?B)(?!\w))", "\u00a0", escape(words))

"""The report's first screen: the question, the answer in words, notes on it, and one chart."""

import re
from collections.abc import Sequence
from html import escape

from analysis.answer import Finding
from analysis.page import paragraph


def answer_section(
    asked: str, descriptions: Sequence[str], findings: Sequence[Finding], notes: Sequence[str],
    cautions: Sequence[str], chart: str,
) -> str:  # fmt: skip
    """Return the section: `notes` say what was scored and what a lead means, `cautions` are shown above the answer."""
    answers = "".join(f"<p><strong>{escape(one.about)}:</strong> {_unbroken(one.found)}</p>" for one in findings)
    parts = [
        *(paragraph(words, "lead") for words in descriptions),
        *(f'<p class="warning" role="note"><strong>Note:</strong> {escape(words)}</p>' for words in cautions),
        f'<div class="first">{answers}</div>' if answers else "",
        paragraph(" ".join(filter(None, notes)), "note"),
        chart,
    ]
    return f'<section id="answer"><h2>{escape(asked)}</h2>\n' + "\n".join(filter(None, parts)) + "\n</section>"


def _unbroken(words: str) -> str:
    """Return the words as HTML, no line of which ends between a number and its unit."""
    return re.sub(r"(?<=\d) (?=(?:%|[mµn]?s|min|h|d|[kMGT]?B)(?!\w))", "\u00a0", escape(words))

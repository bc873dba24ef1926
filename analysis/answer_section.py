"""The report's first screen: the question, the answer in words, what it stands on, and one chart."""

from collections.abc import Sequence
from html import escape

from analysis.answer import Finding
from analysis.page import paragraph


def answer_section(
    asked: str, descriptions: Sequence[str], findings: Sequence[Finding], notes: Sequence[str],
    cautions: Sequence[str], chart: str,
) -> str:  # fmt: skip
    """Return the section: `notes` say what was scored and what a lead means, `cautions` stand above the answer."""
    told = "".join(f"<p><strong>{escape(one.about)}:</strong> {escape(one.found)}</p>" for one in findings)
    parts = [
        *(paragraph(words, "lead") for words in descriptions),
        *(f'<p class="warning" role="note"><strong>Note:</strong> {escape(words)}</p>' for words in cautions),
        f'<div class="first">{told}</div>' if told else "",
        paragraph(" ".join(filter(None, notes)), "note"),
        chart,
    ]
    return f'<section id="answer"><h2>{escape(asked)}</h2>\n' + "\n".join(filter(None, parts)) + "\n</section>"

"""Plain Markdown as HTML: paragraphs, lists and code, which is all that the page's own texts have."""

import re
from html import escape

ITEM = "- "


def prose(text: str, kind: str = "") -> str:
    """Return the blocks of a text, which blank lines part; a block whose lines begin with "- " is a list."""
    named = f' class="{kind}"' if kind else ""
    blocks = [block.strip().splitlines() for block in re.split(r"\n\s*\n", text.strip())]
    return "\n".join(_listed(lines) if lines[0].startswith(ITEM) else f"<p{named}>{_inline(' '.join(lines))}</p>"
                     for lines in blocks if lines)  # fmt: skip


def _listed(lines: list[str]) -> str:
    items = " ".join(f"\n{line}" if line.startswith(ITEM) else line.strip() for line in lines).split(f"\n{ITEM}")
    return f"<ul>{''.join(f'<li>{_inline(item.strip())}</li>' for item in items if item.strip())}</ul>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))

"""Pieces of the report's HTML: sections, tables that sort on a click, and figures; everything inside one file.

A figure is an inline SVG, so that the page needs neither a network nor scripts; the few lines of script only sort.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

CSS = """
:root { --ink: #1d2733; --soft: #5b6775; --line: #dde3ea; --tint: #f5f7fa; --accent: #0072b2; }
* { box-sizing: border-box; }
body { font: 15px/1.55 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
       margin: 0 auto; max-width: 1120px; padding: 32px 28px 80px; }
h1 { font-size: 28px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 44px 0 10px; padding-top: 14px;
     border-top: 1px solid var(--line); } h3 { font-size: 16px; margin: 22px 0 6px; }
p.lead { color: var(--soft); margin: 0 0 14px; } p.note, figcaption { color: var(--soft); font-size: 13px; }
nav { font-size: 14px; margin: 14px 0; } nav a { margin-right: 14px; white-space: nowrap; } a { color: var(--accent); }
.wide { overflow-x: auto; margin: 10px 0; } table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--tint); cursor: pointer; position: sticky; top: 0; font-weight: 600; }
th.text, td.text { text-align: left; } td.prose { text-align: left; white-space: normal; max-width: 760px; }
tbody tr:hover { background: var(--tint); } td { font-variant-numeric: tabular-nums; }
figure { margin: 18px 0 26px; overflow-x: auto; } figure svg { max-width: 100%; height: auto; display: block; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: 12px; font-size: 12.5px;
      overflow-x: auto; } .first { background: #eaf4fb; border-left: 4px solid var(--accent); padding: 10px 16px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; } dt { font-weight: 600; } dd { margin: 0; }
@media print { body { max-width: none; padding: 0; font-size: 11px; } nav { display: none; } figure, tr { break-inside:
  avoid; } h2, h3 { break-after: avoid; } th { position: static; } .wide, figure { overflow: visible; }
  table { font-size: 9px; } th, td { padding: 3px 5px; } }
"""

SORT = """
document.querySelectorAll("th").forEach(head => head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0], at = head.cellIndex, up = head.dataset.up !== "1";
  const key = row => row.cells[at].dataset.key;
  const by = (a, b) => {
    const x = key(a), y = key(b);
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return up ? order : -order;
  };
  [...body.rows].sort(by).forEach(row => body.append(row));
  head.closest("tr").querySelectorAll("th").forEach(other => delete other.dataset.up);
  head.dataset.up = up ? "1" : "0";
}));
"""


@dataclass(frozen=True)
class Cell:
    """A table's cell: what is shown, and what it sorts by ("" goes last)."""

    shown: str
    key: float | str
    kind: str = ""  # "" for a number, "text" or "prose"


def text(value: str, key: float | str | None = None) -> Cell:
    """Return a cell of text, which sorts by itself unless a key is given."""
    return Cell(value, value if key is None else key, "text")


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table; a head is aligned as the cells below it."""
    kinds = [cell.kind for cell in rows[0]] if rows else [""] * len(heads)
    head = "".join(f"<th{_class(kind)}>{escape(name)}</th>" for name, kind in zip(heads, kinds, strict=True))
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def section(name: str, title: str, *parts: str) -> str:
    """Return a section; `name` is its anchor."""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f"<p{_class(kind)}>{escape(words)}</p>"


def figure(svg: str, name: str, caption: str = "") -> str:
    """Return an SVG as part of the page, with its descriptions shown on hovering.

    Identifiers are made unique by `name`, for several drawings in one page share one space of them.
    """
    drawing = svg[svg.index("<svg") :]
    drawing = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r'(<path aria-label="([^"]*)"[^>]*?)(?:/>|></path>)', r"\1><title>\2</title></path>", drawing)
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure id="figure-{escape(name)}">{drawing}{words}</figure>'


def glossary(terms: dict[str, str]) -> str:
    """Return a list of terms and what they mean."""
    return f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{escape(words)}</dd>' for term, words in terms.items())}</dl>"


def page(title: str, lead: str, sections: dict[str, str]) -> str:
    """Return the whole document; `sections` maps a section's title to its HTML."""
    links = "".join(
        f'<a href="#{name}">{escape(head)}</a>'
        for name, head in ((_anchor(html), head) for head, html in sections.items())
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>\n"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{links}</nav>\n'
        + "\n".join(sections.values())
        + f"\n<script>{SORT}</script></body></html>\n"
    )


def _anchor(html: str) -> str:
    found = re.match(r'<section id="([^"]*)"', html)
    return found[1] if found else ""


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _cell(cell: Cell) -> str:
    return f'<td{_class(cell.kind)} data-key="{escape(str(cell.key))}">{escape(cell.shown)}</td>'

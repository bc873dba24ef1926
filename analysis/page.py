"""Pieces of the report's HTML: sections, tables that sort on a click, and figures; everything inside one file.

A figure is drawn by the page itself from its description, with the scripts of Vega-Lite inside the file (see
`vega_script`); readers without scripts see the drawing that lies beside it. The page forbids itself the network.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from analysis.vega_script import CHARTS, library

CSS = """
:root { --ink: #1d2733; --soft: #5b6775; --line: #dde3ea; --tint: #f5f7fa; --accent: #0072b2; }
* { box-sizing: border-box; }
body { font: 15px/1.55 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
       margin: 0 auto; max-width: 1120px; padding: 32px 28px 80px; }
h1 { font-size: 28px; margin: 0 0 4px; } h2 { font-size: 20px; margin: 44px 0 10px; padding-top: 14px;
     border-top: 1px solid var(--line); } h3 { font-size: 16px; margin: 22px 0 6px; }
p.lead { color: var(--soft); margin: 0 0 14px; } p.note, figcaption { color: var(--soft); font-size: 13px; }
nav { font-size: 14px; margin: 14px 0; display: flex; flex-wrap: wrap; gap: 0 14px; }
nav a { white-space: nowrap; } a { color: var(--accent); }
.wide { overflow: auto; max-height: 520px; margin: 10px 0; } table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { background: var(--tint); cursor: pointer; position: sticky; top: 0; font-weight: 600; }
th.text, td.text, th.prose { text-align: left; } td.prose { text-align: left; white-space: normal; max-width: 760px; }
tbody tr:hover { background: var(--tint); } td { font-variant-numeric: tabular-nums; }
figure { margin: 18px 0 26px; overflow-x: auto; } figure svg { max-width: 100%; height: auto; display: block; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: 12px; font-size: 12.5px;
      overflow-x: auto; } .first { background: #eaf4fb; border-left: 4px solid var(--accent); padding: 10px 16px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; } dt { font-weight: 600; } dd { margin: 0; }
#all { position: fixed; right: 22px; bottom: 22px; padding: 9px 16px; border: 0; border-radius: 6px; font: inherit;
  background: var(--accent); color: white; cursor: pointer; z-index: 5; box-shadow: 0 2px 8px #0004; }
@media (max-width: 760px) { figure svg { max-width: none; } }
#vg-tooltip-element { pointer-events: none; } /* or it would hide the next mark from the pointer */
.chart { min-height: 60px; } .vega-embed .vega-actions a { font-size: 13px; }
@media print { #all, .vega-embed summary { display: none !important; }
  body { max-width: none; padding: 0; font-size: 11px; } nav { display: none; } figure, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; } th { position: static; } .wide, figure { overflow: visible;
  max-height: none; }
  table { font-size: 9px; } th, td { padding: 3px 5px; } }
"""

# Vega compiles its expressions, which is what 'unsafe-eval' allows; nothing may be fetched from anywhere
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"

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


MOST_ROWS = 200  # of a table on the page


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
    """Return a table; a head is aligned as the cells below it. Of very many rows the first MOST_ROWS are shown."""
    more = f"The first {MOST_ROWS} of {len(rows)} rows; tables/ has all." if len(rows) > MOST_ROWS else ""
    rows = rows[:MOST_ROWS]
    kinds = [cell.kind for cell in rows[0]] if rows else [""] * len(heads)
    head = "".join(f"<th{_class(kind)}>{escape(name)}</th>" for name, kind in zip(heads, kinds, strict=True))
    body = "".join(f"<tr>{''.join(_cell(cell) for cell in row)}</tr>\n" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>' + (
        paragraph(more, "note") if more else ""
    )


def section(name: str, title: str, *parts: str) -> str:
    """Return a section; `name` is its anchor."""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f"<p{_class(kind)}>{escape(words)}</p>"


def figure(svg: str, name: str, caption: str = "") -> str:
    """Return the place of a chart, with a drawing of it for readers without scripts ("": the file is named instead).

    Identifiers are made unique by `name`, for several drawings in one page share one space of them.
    """
    drawing = svg[svg.index("<svg") :] if svg else paragraph(f"figures/{name}.svg", "note")
    drawing = re.sub(r'(\sid="|url\(#|href="#)', rf"\g<1>{name}-", drawing)
    drawing = re.sub(r'(<path aria-label="([^"]*)"[^>]*?)(?:/>|></path>)', r"\1><title>\2</title></path>", drawing)
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    place = f'<div class="chart" data-chart="{escape(name)}"></div><noscript>{drawing}</noscript>'
    return f'<figure id="figure-{escape(name)}">{place}{words}</figure>'


def glossary(terms: dict[str, str]) -> str:
    """Return a list of terms and what they mean."""
    return f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{escape(words)}</dd>' for term, words in terms.items())}</dl>"


def page(title: str, lead: str, sections: dict[str, str], charts: Mapping[str, Any]) -> str:
    """Return the whole document; `sections` maps a section's title to its HTML, `charts` a figure's name to what the
    page draws there (see choosing.interactive)."""
    links = "".join(
        f'<a href="#{name}">{escape(head)}</a>'
        for name, head in ((_anchor(html), head) for head, html in sections.items())
    )
    # a "</script>" in somebody's name must not end the element
    described = json.dumps(charts, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>\n"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p><nav>{links}</nav>\n'
        + "\n".join(sections.values())
        + '\n<button id="all" hidden>Show all again</button>'
        + f'\n<script type="application/json" id="descriptions">{described}</script>'
        + f'\n<script id="vega">{library()}</script>\n<script>{SORT}{CHARTS}</script></body></html>\n'
    )


def _anchor(html: str) -> str:
    found = re.match(r'<section id="([^"]*)"', html)
    return found[1] if found else ""


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _cell(cell: Cell) -> str:
    key = f"{cell.key:.6g}" if isinstance(cell.key, float) else str(cell.key)
    return f'<td{_class(cell.kind)} data-key="{escape(key)}">{escape(cell.shown)}</td>'

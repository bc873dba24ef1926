"""Pieces of the report's HTML: sections, tables that sort on a click or a key, and figures; everything inside one file.

A figure is a still picture until it comes into view; then the page draws it from its description, with the scripts of
Vega-Lite inside the file (see `vega_script`). Readers without scripts, and print, have the stills. The page's policy
forbids network access. If the reader prefers dark pages, charts are dark too, by rules that replace their colours (see
looks); print is always light. Very large charts, which are painted on a canvas, stay on white.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from analysis.looks import dark_rules
from analysis.vega_script import CHARTS, library

MOST_ROWS = 200  # of a table on the page
MOST_SEEN = 15  # that fit into its height, which CSS limits, and that are printed
CSS = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --line: #dde3ea; --tint: #f5f7fa; --accent: #00639b;
        --page: #ffffff; --mark: #eaf4fb; --caution: #fdf3e1; --amber: #b25e00; }
* { box-sizing: border-box; }
body { font: 15px/1.55 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink);
       background: var(--page); margin: 0 auto; max-width: 1120px; padding: 22px 28px 80px; overflow-wrap: break-word; }
h1 { font-size: 26px; margin: 0 14px 0 0; display: inline-block; }
h2 { font-size: 20px; margin: 44px 0 10px; padding-top: 14px;
     border-top: 1px solid var(--line); } h3 { font-size: 16px; margin: 22px 0 6px; }
p.lead { color: var(--soft); margin: 0 0 10px; } h1 + p.lead { display: inline-block; margin: 0; }
p.note { color: var(--soft); font-size: 13px; }
nav { font-size: 13px; margin: 8px 0; display: flex; flex-wrap: wrap; gap: 0 14px; }
nav a { white-space: nowrap; line-height: 26px; }
#answer h2 { border: 0; margin: 16px 0 6px; padding: 0; } #answer figure { margin: 12px 0; }
.first { overflow-x: auto; } .first th, .first td { text-align: left; vertical-align: top; }
.first caption { text-align: left; font-weight: 600; }
.part { margin: 0 0 26px; } #answer > p.note { margin: 8px 0; }
p.warning { background: var(--caution); border-left: 4px solid var(--amber); padding: 8px 16px; margin: 10px 0; }
 a { color: var(--accent); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.wide { overflow: auto; max-height: 520px; margin: 10px 0; }
.wide, .chart { background: /* a shadow where more can be scrolled to */
  linear-gradient(var(--page) 30%, transparent) top / 100% 40px local,
  linear-gradient(transparent, var(--page) 70%) bottom / 100% 40px local,
  linear-gradient(to right, var(--page) 30%, transparent) left / 40px 100% local,
  linear-gradient(to left, var(--page) 30%, transparent) right / 40px 100% local,
  linear-gradient(#0003, transparent) top / 100% 10px scroll,
  linear-gradient(transparent, #0003) bottom / 100% 10px scroll,
  linear-gradient(to right, #0003, transparent) left / 10px 100% scroll,
  linear-gradient(to left, #0003, transparent) right / 10px 100% scroll; background-repeat: no-repeat; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 5px 10px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
thead th { background: var(--tint); position: sticky; top: 0; padding: 0; } tbody th { font-weight: normal; }
th button { font: inherit; font-weight: 600; color: inherit; background: none; border: 0; margin: 0; padding: 5px 10px;
            width: 100%; text-align: inherit; cursor: pointer; white-space: nowrap; }
th button::after { content: " \\2195"; color: var(--soft); opacity: 0.5; font-weight: normal; }
th[aria-sort=ascending] button::after { content: " \\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: " \\2193"; opacity: 1; }
th.text, td.text, th.prose { text-align: left; } td.prose { text-align: left; white-space: normal; max-width: 760px; }
tbody tr:hover { background: var(--tint); } td { font-variant-numeric: tabular-nums; }
figure { margin: 22px 0 30px; }
figcaption { font-size: 13px; color: var(--soft); max-width: 820px; margin-bottom: 8px; }
figcaption strong { display: block; font-size: 15px; color: var(--ink); }
.chart { min-height: 60px; overflow-x: auto; } figcaption select { font: inherit; min-height: 24px; max-width: 100%; }
.chart > .vega-embed { display: block; } /* which is inline, and so as wide as its drawing, by its own rules */
figure svg, .still { max-width: 100%; height: auto; display: block; }
.chart canvas { background: white; border-radius: 4px; }
.chart [role=button] { cursor: pointer; } .chart [aria-pressed=true] { font-weight: bold; }
summary { cursor: pointer; line-height: 26px; } .data { font-size: 13px; } .data summary { color: var(--soft); }
.hint { display: none; }
pre { background: var(--tint); border: 1px solid var(--line); border-radius: 6px; padding: 12px; font-size: 12.5px;
      overflow-x: auto; } .first { background: var(--mark); border-left: 4px solid var(--accent); padding: 10px 16px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; } dt { font-weight: 600; } dd { margin: 0; }
#all { position: fixed; right: 22px; bottom: 22px; padding: 9px 16px; border: 0; border-radius: 6px; font: inherit;
  background: #0072b2; color: white; cursor: pointer; z-index: 5; box-shadow: 0 2px 8px #0004; }
#vg-tooltip-element { pointer-events: none; } /* or it would hide the next mark from the pointer */
.vega-embed .vega-actions a { font-size: 13px; }
@media (max-width: 760px) { body { padding: 20px 14px 70px; } h1 { font-size: 23px; }
  figure svg, .still { max-width: none; } .scrolls + .hint { display: block; }
  dl { display: block; } dd { margin: 0 0 8px; } }
@media screen and (prefers-color-scheme: dark) {
:root { --ink: #e3e7ec; --soft: #aab3bd; --line: #333b44; --tint: #20262d; --accent: #6db8f2; --page: #15191e;
        --mark: #1a2b38; --caution: #33270f; --amber: #e6a23c; }
figure svg [stroke="white"] { stroke: var(--page); }
#vg-tooltip-element.vg-tooltip { background: #20262d; color: var(--ink); border-color: #475059; }
#vg-tooltip-element table tr td.key { color: var(--soft); }
.vega-embed summary { background: #20262d !important; border-color: #475059 !important; color: var(--ink) !important; }
.vega-embed .vega-actions { background: #20262d; border-color: #475059; }
.vega-embed .vega-actions a { color: var(--ink); } .vega-embed .vega-actions a:hover { background: #333b44; }
DARK_CHARTS
}
@media print { :root { color-scheme: light; } @page { margin: 14mm; }
  #all, nav, .data, .hint, .vega-embed summary, .vega-embed .vega-actions, #vg-tooltip-element {
    display: none !important; }
  section:not(#run) tr:nth-child(n + CUT), #summary .wide, #summary .scroll, #run .scroll { display: none; }
  .scroll { font-size: 0 !important; } .scroll::after { content: attr(data-printed); font-size: 10px; }
  dl { font-size: 9px; line-height: 1.3; grid-template-columns: max-content 1fr max-content 1fr; gap: 2px 8px; }
  select { appearance: none; border: 0; background: none; color: inherit; padding: 0; }
  body { max-width: none; padding: 0; font-size: 11px; } figure, tr, .first, p.warning { break-inside: avoid; }
  p.note, figcaption { font-size: 10px; } figcaption strong { font-size: 12px; }
  h2 { font-size: 15px; margin: 14px 0 4px; padding-top: 6px; } h3 { font-size: 12px; margin: 8px 0 2px; }
  p { margin: 3px 0; } .part { margin: 0 0 8px; } figure, .wide { margin: 6px 0 !important; } .chart { min-height: 0; }
  h2, h3, figcaption { break-after: avoid; } thead th { position: static; } thead { display: table-header-group; }
  .wide, .chart { overflow: visible; max-height: none; background: none; }
  figure svg, .still, .chart canvas { max-width: 100% !important; max-height: 78mm; height: auto !important; }
  .vega-embed { display: block !important; padding: 0 !important; }
  thead { break-inside: avoid; } table { font-size: 7.5px; }
  th, td, th button { padding: 1px 3px; white-space: normal; }
  th button::after { content: none !important; } a { color: inherit; text-decoration: none; } }
""".replace("DARK_CHARTS", dark_rules("figure svg")).replace("CUT", str(MOST_SEEN + 1))

# Vega compiles its expressions, which is what 'unsafe-eval' allows; nothing may be fetched from anywhere
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"

SORT = """
document.querySelectorAll("thead button").forEach(button => button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0], at = head.cellIndex;
  const up = head.getAttribute("aria-sort") !== "ascending", key = row => row.cells[at].dataset.key;
  const by = (a, b) => {
    const x = key(a), y = key(b);
    if (x === "" || y === "") return (x === "") - (y === "");
    const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
    return up ? order : -order;
  };
  [...body.rows].sort(by).forEach(row => body.append(row));
  head.closest("tr").querySelectorAll("th").forEach(other => other.setAttribute("aria-sort", "none"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
}));
"""

HINT = "Scroll the chart sideways to see all of it."
SAFE = " !$'()*+,-./:;=?@[]^_`{|}~"  # characters of a drawing that its address may hold


@dataclass(frozen=True)
class Cell:
    """A table's cell: what is shown, and what it sorts by ("" goes last)."""

    shown: str
    key: float | str
    kind: str = ""  # "" for a number, "text", "prose", or another class of the page's CSS
    link: str = ""  # the anchor on the page that it leads to, if any
    hint: str = ""  # what a pointer over the link shows


def text(value: str, key: float | str | None = None) -> Cell:
    """Return a cell of text, which sorts by itself unless a key is given."""
    return Cell(value, value if key is None else key, "text")


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table; a head is aligned as the cells below it. Of very many rows the first MOST_ROWS are shown.

    Heads are buttons that sort. The texts that a row begins with, such as its condition and algorithm, are its heads.
    """
    notes = _scrolls(len(rows)) if len(rows) > MOST_SEEN else ""
    if len(rows) > MOST_ROWS:
        notes += paragraph(f"The first {MOST_ROWS} of {len(rows)} rows; the full table is in tables/.", "note")
    rows = rows[:MOST_ROWS]
    kinds = [cell.kind for cell in rows[0]] if rows else [""] * len(heads)
    leading = next((place for place, kind in enumerate(kinds) if kind != "text"), len(kinds))
    head = "".join(_head(name, kind) for name, kind in zip(heads, kinds, strict=True))
    body = "".join(
        f"<tr>{''.join(_cell(cell, place < leading) for place, cell in enumerate(row))}</tr>\n" for row in rows
    )
    place = f'<div class="wide" tabindex="0" role="group" aria-label="{escape("Table: " + ", ".join(heads))}">'
    whole = f"{place}<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>"
    return whole + notes


def _scrolls(rows: int) -> str:
    """Return the note below a table that is longer than what fits, for the screen and for print."""
    printed = f"The first {MOST_SEEN} of {rows} rows."
    return f'<p class="note scroll" data-printed="{printed}">{rows} rows: scroll inside the table.</p>'


def section(name: str, title: str, *parts: str) -> str:
    """Return a section; `name` is its anchor."""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f"<p{_class(kind)}>{escape(words)}</p>"


def figure(svg: str, name: str, title: str, note: str, says: str, choices: Sequence[str] = ("",)) -> str:
    """Return the place of a chart and a still picture of it, which the chart replaces once it comes into view.

    Its caption is title and note; `says` describes it for readers who cannot see it. Of several `choices` the picture
    is of the first. Without an `svg` the file is named instead.
    """
    inside, anchor = escape(note), escape(name)
    still = f'<img class="still" alt="{escape(says)}" src="{inline(svg)}">' if svg else f"figures/{anchor}.svg"
    where = f'<span class="where" data-of="{anchor}">At {escape(choices[0])}</span>. ' if choices[0] else ""
    words = f'<figcaption id="caption-{anchor}"><strong>{escape(title)}</strong> {where}{inside}</figcaption>'
    described = f'tabindex="0" role="group" aria-label="{escape(says)}"'
    place = f'<div class="chart" data-chart="{anchor}" {described}>{still}</div><p class="hint note">{HINT}</p>'
    table = f'<details class="data" data-of="{anchor}"><summary>Data of this chart</summary></details>'
    return f'<figure id="figure-{anchor}" aria-labelledby="caption-{anchor}">{words}{place}{table}</figure>'


def inline(svg: str) -> str:
    """Return a drawing as the address of a picture, dark where the reader prefers that."""
    own = svg.replace("'", "&#39;").replace('"', "'")  # quotation marks would be three characters each
    style = f"<style>@media (prefers-color-scheme: dark) {{ {dark_rules('svg')} }}</style>"
    at = own.index(">") + 1
    return f"data:image/svg+xml,{quote(own[:at] + style + own[at:], safe=SAFE)}"


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
    # a "</script>" in a name must not end the element
    described = json.dumps(charts, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="color-scheme" content="light dark">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{CSS}</style></head><body>\n"
        f'<header><h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>'
        f'<nav aria-label="Sections">{links}</nav></header>\n<main>'
        + "\n".join(sections.values())
        + '</main>\n<button id="all" hidden>Show all again</button>'
        + f'\n<script type="application/json" id="descriptions">{described}</script>'
        + f'\n<script id="vega">{library()}</script>\n<script>{SORT}{CHARTS}</script></body></html>\n'
    )


def _anchor(html: str) -> str:
    found = re.match(r'<section id="([^"]*)"', html)
    return found[1] if found else ""


def _head(name: str, kind: str) -> str:
    return f'<th scope="col" aria-sort="none"{_class(kind)}><button type="button">{escape(name)}</button></th>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _cell(cell: Cell, heading: bool = False) -> str:
    key = f"{cell.key:.6g}" if isinstance(cell.key, float) else str(cell.key)
    open_, close = ('th scope="row"', "th") if heading else ("td", "td")
    shown = escape(cell.shown)
    if cell.link:
        shown = f'<a href="#{escape(cell.link)}" title="{escape(cell.hint)}">{shown}</a>'
    return f'<{open_}{_class(cell.kind)} data-key="{escape(key)}">{shown}</{close}>'

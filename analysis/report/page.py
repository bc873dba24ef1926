"""Pieces of the report's HTML: sections, tables that sort on a click or a key, and figures; everything inside one file.

A figure is a still picture until it comes into view; then the page draws it from its description, with the scripts of
Vega-Lite inside the file (templates/page.js). Readers without scripts, and print, have the stills. The page's policy
forbids network access. If the reader prefers dark pages, charts are dark too, by rules that replace their colours (see
palette); print is always light. Very large charts, which are painted on a canvas, stay on white.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2

from analysis.charts.palette import dark_rules

MOST_ROWS = 200  # of a table on the page
MOST_SEEN = 15  # that fit into its height, which CSS limits, and that are printed
TEMPLATES = Path(__file__).parent / "templates"

# Vega compiles its expressions, which is what 'unsafe-eval' allows; nothing may be fetched from anywhere
POLICY = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob:"

SAFE = " !$'()*+,-./:;=?@[]^_`{|}~"  # characters of a drawing that its address may hold


@dataclass(frozen=True)
class Cell:
    """A table's cell: what is shown, and what it sorts by ("" goes last)."""

    shown: str
    key: float | str
    kind: str = ""  # "" for a number, "text", "prose", or another class of the page's CSS
    link: str = ""  # the anchor on the page that it leads to, if any
    hint: str = ""  # what a pointer over the link shows

    @property
    def sorts(self) -> str:
        """The key as the page's script reads it."""
        return f"{self.key:.6g}" if isinstance(self.key, float) else str(self.key)


def text(value: str, key: float | str | None = None) -> Cell:
    """Return a cell of text, which sorts by itself unless a key is given."""
    return Cell(value, value if key is None else key, "text")


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table; a head is aligned as the cells below it. Of very many rows the first MOST_ROWS are shown.

    Heads are buttons that sort. The texts that a row begins with, such as its condition and algorithm, are its heads.
    """
    kinds = [cell.kind for cell in rows[0]] if rows else [""] * len(heads)
    leading = next((place for place, kind in enumerate(kinds) if kind != "text"), len(kinds))
    named = [*zip(heads, kinds, strict=True)]
    return str(_pieces().table(named, rows[:MOST_ROWS], leading, len(rows), MOST_ROWS, MOST_SEEN))


def section(name: str, title: str, *parts: str) -> str:
    """Return a section; `name` is its anchor."""
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>\n' + "\n".join(parts) + "\n</section>"


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f'<p class="{kind}">{escape(words)}</p>' if kind else f"<p>{escape(words)}</p>"


def figure(svg: str, name: str, title: str, note: str, says: str, choices: Sequence[str] = ("",)) -> str:
    """Return the place of a chart and a still picture of it, which the chart replaces once it comes into view.

    Its caption is title and note; `says` describes it for readers who cannot see it. Of several `choices` the picture
    is of the first. Without an `svg` the file is named instead.
    """
    return str(_pieces().figure(name, title, note, says, inline(svg) if svg else "", choices[0]))


def inline(svg: str) -> str:
    """Return a drawing as the address of a picture, dark where the reader prefers that."""
    own = svg.replace("'", "&#39;").replace('"', "'")  # quotation marks would be three characters each
    style = f"<style>@media (prefers-color-scheme: dark) {{ {dark_rules('svg')} }}</style>"
    at = own.index(">") + 1
    return f"data:image/svg+xml,{quote(own[:at] + style + own[at:], safe=SAFE)}"


def note(name: str, **facts: Any) -> str:
    """Return the text of a block of templates/notes.jinja, in which `facts` are filled in."""
    notes = template("notes.jinja")
    return " ".join("".join(notes.blocks[name](notes.new_context(facts))).split())


def page(title: str, lead: str, sections: dict[str, str], charts: Mapping[str, Any], library: str) -> str:
    """Return the whole document; `sections` maps a section's title to its HTML, `charts` a figure's name to what the
    page draws there (see choosing.interactive) with the scripts of `library`."""
    # a "</script>" in a name must not end the element
    described = json.dumps(charts, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    css = _read("page.css").replace("DARK_CHARTS", dark_rules("figure svg")).replace("CUT", str(MOST_SEEN + 1))
    return template("page.html.jinja").render(
        title=title, lead=lead, sections={head: (_anchor(html), html) for head, html in sections.items()},
        policy=POLICY, css=css, charts=described, library=library, script=_read("page.js"),
    )  # fmt: skip


@cache
def template(name: str, folder: Path = TEMPLATES) -> jinja2.Template:
    """Return a template of a folder; one of HTML escapes what it is given unless that is marked as safe."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), autoescape=name.endswith(".html.jinja"),
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return templates.get_template(name)


def _pieces() -> Any:
    """Return the macros `table` and `figure`."""
    return template("pieces.html.jinja").module


def _read(name: str) -> str:
    return "\n" + (TEMPLATES / name).read_text("utf-8")


def _anchor(html: str) -> str:
    found = re.match(r'<section id="([^"]*)"', html)
    return found[1] if found else ""

"""Charts as files: SVG and PDF with a title above, and the drawing alone for the page, which has titles of its own.

Not modelled: the widths of letters; the subtitle is wrapped by their mean.
"""

import re
import textwrap
from html import escape
from pathlib import Path
from typing import Any

import vl_convert

from analysis.charts.palette import INK, SOFT
from analysis.charts.panels import FONT

NARROWEST, LETTER = 420, 5.4  # of a titled drawing, and the mean letter of its subtitle (px)


def draw(spec: dict[str, Any], path: Path) -> str:
    """Write a description as SVG and PDF beside each other, with its title; return the SVG without title and ground.

    `path` lacks the ending. Raises OSError if the folder cannot be written.
    """
    plain = {key: value for key, value in spec.items() if key not in ("title", "background")}
    silent = spec["config"] | {"aria": False, "mark": {"aria": False}}
    svg: str = vl_convert.vegalite_to_svg(plain | {"background": None, "config": silent})
    whole = _titled(svg, spec["title"]["text"], spec["title"]["subtitle"])
    path.with_suffix(".svg").write_text(whole, "utf-8", newline="")
    path.with_suffix(".pdf").write_bytes(vl_convert.svg_to_pdf(whole))
    return svg


def _titled(svg: str, title: str, subtitle: str) -> str:
    """Return a drawing on white with its title above; the subtitle is wrapped at the drawing's width."""
    head = re.match(r'<svg [^>]*width="(\d+)" height="(\d+)" viewBox="[^"]*">', svg)
    assert head is not None
    width, height = max(int(head[1]), NARROWEST), int(head[2])
    lines = textwrap.wrap(subtitle, int(width / LETTER))
    above = 34 + 14 * len(lines)
    texts = [f'<text x="5" y="{18 - above}" font-size="14" font-weight="bold" fill="{INK}">{escape(title)}</text>']
    for at, line in enumerate(lines):
        texts.append(f'<text x="5" y="{34 + 14 * at - above}" font-size="11" fill="{SOFT}">{escape(line)}</text>')
    box = f'width="{width}" height="{height + above}" viewBox="0 {-above} {width} {height + above}"'
    ground = f'<rect y="{-above}" width="{width}" height="{height + above}" fill="white"/>'
    words = f'<g font-family="{FONT}">{"".join(texts)}</g>'
    start = re.sub(r'width="\d+" height="\d+" viewBox="[^"]*"', box, head[0])
    return f"{start}{ground}{words}{svg[head.end() :]}"

"""docs/reference.html: the same as the Markdown page, with tables that sort, charts, and matrices of pairs.

Every number leads to the command that makes it alone, which then stands at the foot of the window. The page is one file
and asks for nothing from a network.
"""

from collections.abc import Iterator
from html import escape
from typing import Any

import pandas as pd
import vl_convert

from analysis.cells import key, shown_in_points
from analysis.choosing import interactive
from analysis.looks import Looks, dressed
from analysis.page import Cell, figure, page, paragraph, section, table, text
from fedsim.reference import curves, markdown, matrix
from fedsim.reference.cell import GIVEN
from fedsim.reference.findings import Findings, Outcome
from fedsim.reference.prose import prose
from fedsim.reference.sentences import sentences
from fedsim.reference.standings import Standing
from fedsim.reference.terms import COSTS, SHARES, command
from fedsim.reference.words import HOW_TO_READ, INTRODUCTION, PAIRS, TITLE, about_flips, budgets_of, counted_pairs

STYLE = f"""<style>
.wide {{ max-height: none; }} p.scroll {{ display: none; }}
td.leader {{ font-weight: 700; }} td.leader, td.level {{ background: var(--mark); }}
td a {{ color: inherit; text-decoration: none; }} td a:hover, td a:focus {{ text-decoration: underline; }}
p.command {{ display: none; }}
p.command:target {{ display: block; position: fixed; left: 0; right: 0; bottom: 0; margin: 0; padding: 12px 28px;
  background: var(--tint); border-top: 2px solid var(--accent); z-index: 6; }}
p.command a {{ margin-left: 18px; }} @media print {{ p.command:target {{ display: none; }} }}
{matrix.STYLE}</style>"""


def html(found: Findings, made: str) -> str:
    """Return the whole page; `made` is as in markdown.markdown."""
    charts: dict[str, Any] = {}
    looks = Looks(tuple(dict.fromkeys(str(name) for one in found.outcomes for name in curves.drawn(one))))
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences(found))
    parts = {
        "Ten sentences": section("sentences", "Ten sentences", f'{STYLE}<div class="first"><ol>{said}</ol></div>'),
        "How it was made": section("made", "How it was made", prose(made)),
        "How to read the tables": section("reading", "How to read the tables", prose(HOW_TO_READ)),
    }
    for one in found.outcomes:
        name = str(one.setting)
        parts[name] = section(_anchor(one), name, *_setting(one, found.courses, charts, looks))
    parts["Halved links"] = section("halved", "What changes with halved links", *_flips(found))
    return page(TITLE, INTRODUCTION, parts, charts)


def _setting(one: Outcome, courses: pd.DataFrame, charts: dict[str, Any], looks: Looks) -> Iterator[str]:
    yield paragraph(budgets_of(one), "note")
    yield table(markdown.heads(), [[*_row(one, row)] for row in one.final.rows])
    yield "".join(_command(one, row) for row in one.final.rows)
    for cost in COSTS:
        spec = curves.chart(one, courses, cost)
        if spec is not None:
            name = f"{_anchor(one)}-{cost}"
            spec = dressed(spec, looks)
            charts[name] = interactive(spec)
            title = spec["title"]
            drawing: str = vl_convert.vegalite_to_svg(spec)
            yield figure(drawing, name, title["text"], title["subtitle"], spec["description"])
    yield f"<details><summary>Pairs that cannot be told apart: {escape(counted_pairs(one))}</summary>"
    yield f"{prose(f'{PAIRS} {matrix.SIGNS}', 'note')}{matrix.matrix(one)}</details>"


def _row(one: Outcome, row: Standing) -> Iterator[Cell]:
    anchor, hint = _cell_of(one, row), command(one.setting, row.contender)
    yield text(str(row.contender))
    for budget in SHARES:
        standing = one.at[budget]
        own = standing.of(row.contender)
        kind = own.kind if own and own.kind in ("leader", "level") else ""
        mean = key(own.score.mean) if own else ""
        told = f"{_behind(own)}{hint}"
        yield Cell(markdown.score(own, one.final.seeds).replace("*", ""), mean, kind, anchor, told)
    cost = one.costs[row.contender]
    shown = markdown.spent(cost)
    keys = (key(cost.bytes), key(cost.seconds), cost.reached)
    for words, sorts in zip(shown, keys, strict=True):
        yield Cell(words, sorts, "", anchor, hint)


def _behind(row: Standing | None) -> str:
    """Return the paired difference from the leader in words, before the command; "" where there is none."""
    if row is None or row.kind not in ("level", "behind"):
        return ""
    apart = row.difference
    ends = f"{shown_in_points(apart.low)} to {shown_in_points(apart.high)}"
    return f"{shown_in_points(apart.mean)} points from the leader ({ends}); "


def _command(one: Outcome, row: Standing) -> str:
    words = escape(command(one.setting, row.contender))
    return f'<p class="command" id="{escape(_cell_of(one, row))}"><code>{words}</code><a href="#closed">close</a></p>'


def _flips(found: Findings) -> Iterator[str]:
    yield paragraph(about_flips(found))
    rows = [
        [text(str(one.setting)), text(str(one.budget)), *(text(str(name)) for name in (one.given, one.halved)),
         text("yes" if one.significant else "no")]
        for one in found.flips
    ]  # fmt: skip
    if rows:
        yield table(["setting", "budget", "leads as given", "leads with halved links", "significant"], rows)


def _anchor(one: Outcome) -> str:
    return "-".join(one.setting)


def _cell_of(one: Outcome, row: Standing) -> str:
    return f"{one.setting}/{row.contender}/{GIVEN}"

"""Names, values and texts that look like markup stay texts: on the page, in its scripts' data, and in the drawings."""

import json
import re
from collections import Counter
from contextlib import nullcontext
from html.parser import HTMLParser
from urllib.parse import unquote
from xml.etree import ElementTree

import pandas as pd
import pytest
import synthetic_sweep
import yaml

from analysis.charts import drawing
from analysis.report import write as reports
from analysis.report.write import write

pytestmark = pytest.mark.long

NASTY = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</script><svg onload=alert(1)>", "&amp;&lt;b&gt;",
    "</noscript><iframe src=//x>", "{{7*7}}${alert(1)}", "<!--<script>", "]]></style></title></textarea><b>",
    "javascript:alert(1)", "\u202e\u2066<i>\u2028", "' onmouseover='alert(1)", "\\u003cb\\u003e\\g<1>\\",
]  # fmt: skip
ALL = " ".join(NASTY)
DRAWN = {"svg", "g", "path", "text", "rect", "line", "defs", "clipPath", "title", "tspan", "style", "marker"}
TAGS = DRAWN | {
    "html", "head", "meta", "body", "h1", "h2", "h3", "p", "nav", "a", "section", "div", "table", "thead", "tbody",
    "tr", "th", "td", "figure", "figcaption", "dl", "dt", "dd", "pre", "details", "summary", "button", "script",
    "strong", "img", "main", "header", "span", "caption", "br",
}  # fmt: skip


class Page(HTMLParser):
    """What a page is made of: its elements, the names of their attributes, addresses, scripts and words."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.addresses, self.scripts, self.words = Counter(), set(), [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value for name, value in attrs if "href" in name or name in ("src", "action", "data")]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.lasttag == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        self.words.append(data)

    def handle_comment(self, data):
        self.tags["a comment"] += 1


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A reported sweep in which whatever can be named is named so."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(synthetic_sweep.LEARNS, ALL, (0.8, 0.1))
        patch.setitem(synthetic_sweep.LATENCY, ALL, 0.3)
        patch.setattr(drawing.vl_convert, "svg_to_pdf", lambda *args, **options: b"")  # it shows what the SVG does
        patch.setattr(reports, "bundled", lambda: nullcontext(str))  # Vega's own scripts hold no name
        run = synthetic_sweep.write_sweep(
            tmp_path_factory.mktemp("runs") / NASTY[1], ("fedavg", ALL), ("10 ms", ALL), ("1.0",), (0,), name=ALL
        )
        given = yaml.safe_load((run / "scenario.yaml").read_text()) | {"description": ALL}
        (run / "scenario.yaml").write_text(yaml.safe_dump(given) + f"# with --set {NASTY[0]}\n")
        summary = pd.read_csv(run / "summary.csv", dtype=str)
        lost = summary.iloc[0].copy()
        lost["run"], lost["status"] = "0123456789ab", "failed"
        pd.concat([summary, lost.to_frame().T]).to_csv(run / "summary.csv", index=False)
        write([run])
    return run


@pytest.fixture(scope="module")
def text(folder):
    return (folder / "report.html").read_text("utf-8")


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


@pytest.mark.long
def test_no_element_and_no_attribute_comes_of_a_name(page):
    assert not page.tags.keys() - TAGS
    assert (page.tags["caption"], page.tags["br"]) == (1, 2)  # the answer's title and its two conditions
    assert (page.tags["script"], page.tags["h1"], page.tags["style"], page.tags["title"] > 0) == (3, 1, 1, True)
    assert not [name for name in page.attributes if name.startswith("on")]
    assert all(re.match(r"#|tables/[\w.%]+$|data:image/svg", address) for address in page.addresses)


def test_names_are_shown_as_they_are(page):
    words = "".join(page.words)
    assert all(one.replace("\u2028", " ") in words for one in NASTY)


def test_a_still_picture_is_a_drawing_of_marks_with_the_names_in_it(page):
    stills = [address for address in page.addresses if address.startswith("data:")]
    assert len(stills) == page.tags["figure"] == page.tags["img"] > 10
    drawings = [ElementTree.fromstring(unquote(still.partition(",")[2])) for still in stills]
    elements = [element for drawing in drawings for element in drawing.iter()]
    assert {element.tag.rpartition("}")[2] for element in elements} <= DRAWN
    assert NASTY[0] in "".join(element.text or "" for element in elements)
    assert NASTY[-2] in "".join(element.text or "" for element in elements)


def texts(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [value] if isinstance(value, str) else [text for one in inner for text in texts(one)]


def test_no_name_ends_the_data_of_a_script(page):
    described, library, own = page.scripts
    assert library == ""
    assert ALL.replace("\u2028", " ") in texts(json.loads(described))
    assert not re.search(r"<|\u2028", described)
    assert "alert" not in own


def test_drawings_hold_no_element_but_marks(folder):
    files = sorted((folder / "figures").glob("*.svg"))
    assert len(files) > 10
    seen = ""
    for file in files:
        for element in ElementTree.parse(file).iter():
            assert element.tag.rpartition("}")[2] in DRAWN, file
            assert not [name for name in element.attrib if name.startswith("on") or "href" in name], file
            seen += element.text or ""
    assert NASTY[0] in seen

"""The page in a real Chromium: it draws every chart, complains of nothing, fetches nothing, and a legend chooses."""

import json

import pandas as pd
import pytest
from browsing import draw_all, opened

from analysis.charts import panels
from analysis.charts.choosing import interactive
from analysis.charts.library import bundled
from analysis.charts.palette import DARK, INK
from analysis.charts.score_curves import score_against
from analysis.charts.totals import stacked_bytes
from analysis.report import page
from analysis.report.privacy_section import against_epsilon

pytestmark = pytest.mark.long

AXES = ["protocol.participation"]
KINDS = ("train", "embed")
NASTY = "</script></noscript><img src=x onerror=alert(1)><b>power"
SIZES = {"b": 10.0, "a": 9.0, "c": 100.0}
MARKS = "name => document.querySelectorAll(`[data-chart=${name}] .role-mark path`).length"


@pytest.fixture(scope="module")
def charts():
    """A chart of lines and one of bars, each with a legend and a panel for either participation, and one of marks."""
    names, shares = ("fedavg", NASTY), ("0.1", "1.0")
    curves = pd.DataFrame(
        [
            (name, share, at, at / 10 + float(share) / 9, 0.1, 0.9, 2)
            for name in names
            for share in shares
            for at in (1.0, 5.0)
        ],
        columns=["algorithm", *AXES, "time", "score", "low", "high", "n"],
    )
    steps = pd.DataFrame(
        [(name, share, kind, 5e5 * float(share), 1e6, 0.0, 2) for name in names for share in shares for kind in KINDS],
        columns=["algorithm", *AXES, "kind", "bytes", "total", "total_sd", "n"],
    )
    private = pd.DataFrame(
        [(name, 0.5, epsilon, 1e6, 1e6, 2) for name in names for epsilon in (0.5, 8.0)],
        columns=["algorithm", "score", "epsilon", "bytes_up", "bytes_down", "n"],
    )
    return {
        "privacy": interactive(against_epsilon(private, [], "accuracy")),
        "curves": interactive(score_against(curves, "time", AXES, "accuracy", 0.6)),
        "lone": interactive(
            score_against(curves.drop_duplicates(["algorithm", *AXES]), "time", AXES, "accuracy", None)
        ),
        "steps": interactive(stacked_bytes(steps, "kind", AXES)),
    }


@pytest.fixture(scope="module")
def seen(charts, tmp_path_factory):
    """The page in a browser, with what it has complained of and asked for."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    parts = "".join(page.figure("<svg></svg>", name, NASTY, NASTY, NASTY) for name in charts)
    parts += page.table(["name", "size"], [[page.text(name), page.Cell(name, size)] for name, size in SIZES.items()])
    with bundled() as library:
        sections = {"Charts": page.section("charts", NASTY, parts)}
        path.write_text(page.page(NASTY, NASTY, sections, charts, library()), "utf-8")
    with opened(path) as page_in_browser:
        draw_all(page_in_browser[0])
        yield page_in_browser


def first_cells(tab):
    return tab.locator("tbody tr th").all_inner_texts()


def test_a_table_is_sorted_by_keys(seen):
    tab, _, _ = seen
    size = tab.locator("thead th", has_text="size")
    assert first_cells(tab) == ["b", "a", "c"]
    assert size.get_attribute("aria-sort") == "none"
    tab.locator("thead button", has_text="name").focus()
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert (first_cells(tab), size.get_attribute("aria-sort")) == (["a", "b", "c"], "ascending")
    tab.keyboard.press("Space")
    assert (first_cells(tab), size.get_attribute("aria-sort")) == (["c", "b", "a"], "descending")
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Enter")
    assert (first_cells(tab), size.get_attribute("aria-sort")) == (["a", "b", "c"], "none")


def test_a_single_score_is_a_point(seen):
    tab, _, _ = seen
    marks = tab.locator("[data-chart=lone] .mark-symbol.role-mark path[fill-opacity='1'], [data-chart=lone] "
                        ".mark-symbol.role-mark path[opacity='1']")  # fmt: skip
    assert marks.count() == 4
    assert min(box["width"] for box in (mark.bounding_box() for mark in marks.all())) > 4


def test_every_chart_is_told_to_whom_cannot_see_it(seen):
    tab, _, _ = seen
    for name in ("curves", "steps", "privacy"):
        place = tab.locator(f"[data-chart={name}]")
        told = place.locator("[role=graphics-document], [role=graphics-object]").first.get_attribute("aria-label")
        assert "accuracy" in told.lower() or "bytes" in told.lower()
        assert "fedavg" in told
        figure = tab.locator(f"#figure-{name}")
        assert tab.locator(f"#{figure.get_attribute('aria-labelledby')}").inner_text().startswith(NASTY)


INKS = """name => [...document.querySelectorAll(`[data-chart=${name}] text`)].map(one => getComputedStyle(one).fill)"""


def rgb(colour):
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_charts_and_page_are_dark_where_that_is_preferred_and_light_in_print(seen):
    tab, wrong, _ = seen
    ground = "getComputedStyle(document.body).backgroundColor"
    assert rgb(INK) in tab.evaluate(INKS, "curves")
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    tab.emulate_media(color_scheme="dark")
    assert rgb(DARK[INK]) in tab.evaluate(INKS, "curves")
    assert rgb(INK) not in tab.evaluate(INKS, "curves")
    assert tab.evaluate(ground) == "rgb(21, 25, 30)"
    tab.emulate_media(color_scheme="dark", media="print")
    assert rgb(INK) in tab.evaluate(INKS, "curves")
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    assert tab.locator("#all").is_hidden()
    assert tab.locator(".vega-embed summary").first.is_hidden()
    tab.emulate_media(color_scheme="light", media="screen")
    assert wrong == []


@pytest.mark.parametrize("width", [390, 800])
def test_the_page_is_no_wider_than_the_window(seen, width):
    tab, _, _ = seen
    tab.set_viewport_size({"width": width, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.set_viewport_size({"width": 1280, "height": 720})


def test_every_chart_is_drawn_without_a_complaint_or_a_request(seen, charts):
    tab, wrong, asked = seen
    assert tab.locator(".chart").count() == tab.locator(".chart svg.marks").count() == len(charts)
    assert wrong == []
    assert [url.rsplit("/", 1)[-1] for url in asked] == ["report.html"]
    assert tab.locator("h1").inner_text() == NASTY
    assert tab.locator("img, b").count() == 0


def test_a_click_on_a_legend_chooses_in_every_chart_and_can_be_taken_back(seen):
    tab, wrong, _ = seen
    before = {name: tab.evaluate(MARKS, name) for name in ("curves", "steps")}
    assert tab.locator("#all").is_hidden()
    tab.locator("[data-chart=curves] .role-legend-label text", has_text="fedavg").click()
    tab.wait_for_function(f"({MARKS})('curves') < {before['curves']} && ({MARKS})('steps') < {before['steps']}")
    tab.locator("#all").click()
    tab.wait_for_function(f"({MARKS})('curves') == {before['curves']} && ({MARKS})('steps') == {before['steps']}")
    assert wrong == []


def test_a_mark_tells_its_row(seen):
    tab, _, _ = seen
    tab.locator("[data-chart=steps] .mark-rect.role-mark path").first.hover(force=True)
    tab.wait_for_selector("#vg-tooltip-element.visible")
    told = tab.locator("#vg-tooltip-element").inner_text()
    assert "algorithm" in told
    assert "step" in told


def test_a_name_in_a_tooltip_is_a_text(seen):
    tab, wrong, _ = seen
    for mark in tab.locator("[data-chart=steps] .mark-rect.role-mark path").all():
        if min(mark.bounding_box()["width"], mark.bounding_box()["height"]) < 2:
            continue  # no pointer hits it
        mark.hover(force=True)
        tab.wait_for_selector("#vg-tooltip-element.visible")
        if NASTY in tab.locator("#vg-tooltip-element").inner_text():
            break
    else:
        pytest.fail("no mark tells of it")
    assert tab.locator("img, b").count() == 0
    assert wrong == []


def test_names_cannot_end_the_script(charts):
    text = page.page("t", "l", {}, charts, "")
    inside = text.split('id="descriptions">')[1].split("</script>")[0]
    assert json.loads(inside).keys() == charts.keys()
    assert NASTY in json.dumps(json.loads(inside))


def test_a_chart_of_very_many_conditions_is_bounded(charts):
    axis = [f"{i} ms" for i in range(1, 201)]
    rows = [(a, m, t, i / 200, 0.4, 0.6, 1) for i, a in enumerate(axis) for m in "abcde" for t in (1.0, 2.0)]
    frame = pd.DataFrame(rows, columns=["latency", "algorithm", "time", "score", "low", "high", "n"])
    spec = score_against(frame, "time", ["latency"], "accuracy", None)
    drawn = {row["column"] for row in spec["datasets"]["rows"]}
    assert len(drawn) == panels.MOST_IN_A_ROW
    assert {"latency 1 ms", "latency 200 ms"} <= drawn
    assert "24 of 200 panels" in spec["title"]["subtitle"]

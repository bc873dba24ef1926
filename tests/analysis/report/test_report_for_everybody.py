"""A report in a real Chromium, for readers with a keyboard, a phone, a screen reader, a dark screen or a printer."""

import re

import pytest
from browsing import NO_BROWSER, draw_all, opened
from synthetic_sweep import write_sweep

from analysis.report.write import write

pytestmark = pytest.mark.long

NODES = "document.querySelectorAll('*').length"
PAGES = 13  # of this report in print
MARKS = "name => document.querySelectorAll(`[data-chart=${name}] .role-mark path`).length"
LEGEND = "[data-chart=score_time] .role-legend-label text"


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    sweep = write_sweep(
        tmp_path_factory.mktemp("runs") / "sweep", ("fedavg", "power"), ("10 ms", "1 s"), ("0.1", "1.0"), (0, 1, 2)
    )
    return write([sweep])


@pytest.fixture(scope="module")
def seen(path):
    with opened(path) as page_in_browser:
        yield page_in_browser


def test_charts_are_drawn_when_they_come_into_view(path):
    with opened(path) as (tab, wrong, _):
        charts, before = tab.locator(".chart").count(), tab.evaluate(NODES)
        assert int(tab.locator("body").get_attribute("data-drawn")) < charts / 3
        assert tab.locator(".still").count() > charts / 2
        alts = tab.locator(".still").evaluate_all("stills => stills.map(one => one.alt)")
        assert min(map(len, alts)) > 20
        last = tab.locator("[data-chart=link_use]")
        assert last.locator("svg.marks").count() == 0
        last.scroll_into_view_if_needed()
        last.locator("svg.marks").wait_for(state="attached")
        draw_all(tab)
        assert tab.locator(".still").count() == 0
        assert tab.evaluate(NODES) > 2 * before
        assert wrong == []


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (400, "dark")])
def test_axe_finds_nothing_serious(path, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason=NO_BROWSER)
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
    with opened(path, scheme) as (tab, _, _):
        tab.set_viewport_size({"width": width, "height": 900})
        draw_all(tab)
        opens = "document.querySelectorAll('details:not(.data), #figure-ranking .data').forEach(one => one.open = true)"
        tab.evaluate(opens)
        tab.locator("#figure-ranking .data table").wait_for()
        found = axe.Axe().run(tab, options={"runOnly": {"type": "tag", "values": rules}}).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"][:200]) for one in serious] == []


def test_a_legend_is_used_by_keys(seen):
    tab, wrong, _ = seen
    draw_all(tab)
    entry = tab.locator(LEGEND, has_text="fedavg")
    before = {name: tab.evaluate(MARKS, name) for name in ("score_time", "ranking")}
    assert (entry.get_attribute("role"), entry.get_attribute("aria-pressed")) == ("button", "false")
    tab.locator("[data-chart=score_time]").focus()
    for _ in range(3):
        tab.keyboard.press("Tab")
        if tab.evaluate("document.activeElement.textContent") == "fedavg":
            break
    assert tab.evaluate("document.activeElement.getAttribute('role')") == "button"
    tab.keyboard.press("Enter")
    tab.wait_for_function(f"({MARKS})('score_time') < {before['score_time']}")
    tab.wait_for_function(f"({MARKS})('ranking') < {before['ranking']}")
    assert entry.get_attribute("aria-pressed") == "true"
    tab.keyboard.press("Space")
    tab.wait_for_function(f"({MARKS})('ranking') == {before['ranking']}")
    assert entry.get_attribute("aria-pressed") == "false"
    assert wrong == []


def test_the_data_of_a_chart_open_by_keys(seen):
    tab, wrong, _ = seen
    tab.locator("#figure-ranking details.data summary").focus()
    tab.keyboard.press("Enter")
    table = tab.locator("#figure-ranking details.data table")
    table.wait_for()
    assert table.locator("thead th").all_inner_texts()[:2] == ["algorithm", "where"]
    assert table.locator("tbody tr").count() == 2 * 4  # two algorithms in four conditions
    assert re.search(r"\d\d\.\d%", table.inner_text())
    assert wrong == []


def test_a_condition_is_chosen_in_every_chart_that_shows_one(seen):
    tab, wrong, _ = seen
    draw_all(tab)
    menu = tab.locator("#figure-link_use select")
    assert menu.input_value() == "latency 1 s, participation 0.1"
    tab.locator("#figure-link_use details.data summary").click()
    table = tab.locator("#figure-link_use details.data table")
    table.wait_for()
    before = table.inner_text()
    menu.focus()
    tab.keyboard.press("End")
    assert menu.input_value() == "latency 10 ms, participation 1.0"
    assert tab.locator("#figure-forgetting select").input_value() == "latency 10 ms, participation 1.0"
    assert tab.locator("#figure-timeline select").input_value().startswith("latency 1 s, participation 0.1")
    assert table.inner_text() != before
    assert not tab.locator("#all").is_visible()  # nothing is hidden that could be shown again
    assert wrong == []


def test_charts_that_scroll_say_so_on_a_phone(seen):
    tab, _, _ = seen
    tab.set_viewport_size({"width": 400, "height": 800})
    draw_all(tab)
    tab.wait_for_function("document.querySelectorAll('.scrolls').length > 0")
    wide = "one => one.scrollWidth > one.clientWidth"
    for chart in tab.locator(".chart").all():
        hint = tab.locator(f"#figure-{chart.get_attribute('data-chart')} .hint")
        assert hint.is_visible() == chart.evaluate(wide)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    tab.set_viewport_size({"width": 1400, "height": 800})
    assert not tab.locator(".hint >> visible=true").count()


def test_it_prints_on_few_pages_whether_or_not_its_charts_are_drawn(seen):
    tab, _, _ = seen
    tab.emulate_media(color_scheme="dark")
    tab.reload()
    for _ in range(2):
        assert len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4"))) <= PAGES
        draw_all(tab)

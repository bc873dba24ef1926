"""The page in a real Chromium: it draws every chart, complains of nothing, fetches nothing, and a legend chooses."""

import json
import shutil

import pandas as pd
import pytest

from analysis import page, panels
from analysis.charts import score_against, stacked_bytes
from analysis.choosing import interactive
from analysis.privacy_section import against_epsilon

AXES = ["protocol.participation"]
NASTY = "</script></noscript><img src=x onerror=alert(1)><b>power"
MARKS = "name => document.querySelectorAll(`[data-chart=${name}] .role-mark path`).length"
NO_BROWSER = "needs playwright (extra dev) and a Chromium on this machine"


@pytest.fixture(scope="module")
def charts():
    """A chart of lines and one of bars, each with a legend and a panel for either participation, and one of marks."""
    names, shares = ("fedavg", NASTY), ("0.1", "1.0")
    curves = pd.DataFrame(
        [(name, share, time, time / 10, 0.1, 0.9, 2) for name in names for share in shares for time in (1.0, 5.0)],
        columns=["algorithm", *AXES, "time", "score", "low", "high", "n"],
    )
    steps = pd.DataFrame(
        [(name, share, kind, 5e5, 1e6, 0.0, 2) for name in names for share in shares for kind in ("train", "embed")],
        columns=["algorithm", *AXES, "kind", "bytes", "total", "total_sd", "n"],
    )
    private = pd.DataFrame(
        [(name, 0.5, epsilon, 1e6, 1e6, 2) for name in names for epsilon in (0.5, 8.0)],
        columns=["algorithm", "score", "epsilon", "bytes_up", "bytes_down", "n"],
    )
    return {
        "privacy": interactive(against_epsilon(private, [], "accuracy")),
        "curves": interactive(score_against(curves, "time", AXES, "accuracy", 0.6)),
        "steps": interactive(stacked_bytes(steps, "kind", AXES)),
    }


@pytest.fixture(scope="module")
def seen(charts, tmp_path_factory):
    """The page in a browser, with what it has complained of and asked for."""
    browsers = pytest.importorskip("playwright.sync_api", reason=NO_BROWSER)
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip(NO_BROWSER)
    path = tmp_path_factory.mktemp("page") / "report.html"
    parts = "".join(page.figure("<svg></svg>", name) for name in charts)
    path.write_text(page.page(NASTY, NASTY, {"Charts": page.section("charts", NASTY, parts)}, charts), "utf-8")
    wrong, asked = [], []
    with browsers.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page()
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(path.as_uri())
        tab.wait_for_selector("body[data-drawn]", state="attached")
        yield tab, wrong, asked
        browser.close()


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
    text = page.page("t", "l", {}, charts)
    inside = text.split('id="descriptions">')[1].split("</script>")[0]
    assert json.loads(inside).keys() == charts.keys()
    assert NASTY in json.dumps(json.loads(inside))


def test_a_chart_of_very_many_conditions_is_bounded(charts):
    axis = [f"{i} ms" for i in range(1, 201)]
    rows = [(a, m, t, 0.5, 0.4, 0.6, 1) for a in axis for m in "abcde" for t in (1.0, 2.0)]
    frame = pd.DataFrame(rows, columns=["latency", "algorithm", "time", "score", "low", "high", "n"])
    spec = score_against(frame, "time", ["latency"], "accuracy", None)
    drawn = {row["column"] for row in spec["datasets"]["rows"]}
    assert len(drawn) == panels.MOST_IN_A_ROW
    assert {"latency 1 ms", "latency 200 ms"} <= drawn
    assert "24 of 200 panels" in spec["title"]["subtitle"]

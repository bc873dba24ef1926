"""The page in a real Chromium: it draws its charts without a complaint or a request; a number shows its command."""

import pytest
from browsing import draw_all, opened
from made_up_tables import plan, seeds, tables

from fedsim.reference.page import write

pytestmark = pytest.mark.long

PLACE = "campus/digits/static"
HIGH, LOW = (0.80, 0.81, 0.82, 0.81, 0.80), (0.70, 0.72, 0.71, 0.70, 0.72)


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """The page in a browser, with what it has complained of and asked for."""
    runs = seeds(f"{PLACE}/fedavg/sync/given", LOW, 4e5, 20) | seeds(f"{PLACE}/power/sync/given", HIGH, 5e4, 40)
    path = write(plan(PLACE), tables(runs), [], tmp_path_factory.mktemp("docs"))[1]
    with opened(path) as page_in_browser:
        yield page_in_browser


def test_both_charts_are_drawn_without_a_complaint_or_a_request(seen):
    tab, wrong, asked = seen
    draw_all(tab)
    assert tab.locator(".chart svg.marks").count() == 2
    assert wrong == []
    assert [url.rsplit("/", 1)[-1] for url in asked] == ["reference_table.html"]


def test_a_table_sorts_by_a_score_and_back(seen):
    tab, _, _ = seen
    first = tab.locator("section#campus-digits-static tbody th").first
    assert first.inner_text() == "power/sync"
    tab.locator("thead button", has_text="100 % B").click()
    assert first.inner_text() == "fedavg/sync"
    tab.locator("thead button", has_text="100 % B").click()
    assert first.inner_text() == "power/sync"


def test_a_number_shows_the_command_that_makes_it_and_hides_it_again(seen):
    tab, _, _ = seen
    command = tab.locator("p.command:visible")
    assert command.count() == 0
    tab.locator("td a", has_text="80.8").first.click()
    words = f"python -m fedsim.reference --cell {PLACE}/power/sync/given"
    assert command.locator("code").all_inner_texts() == [words]
    command.locator("a").click()
    assert command.count() == 0


def test_the_page_is_no_wider_than_a_small_window(seen):
    tab, _, _ = seen
    tab.set_viewport_size({"width": 390, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390

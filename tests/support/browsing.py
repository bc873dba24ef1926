"""A page in a real Chromium, with what it has complained of and asked for."""

import shutil
from contextlib import contextmanager

import pytest

NO_BROWSER = "needs playwright (extra dev) and a Chromium on this machine"


@contextmanager
def opened(path, scheme="light"):
    """Yield the page's tab once its first charts are drawn, its complaints and the addresses that it asked for; or
    skip.  `scheme` is what the reader prefers, light or dark pages."""
    browsers = pytest.importorskip("playwright.sync_api", reason=NO_BROWSER)
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if found is None:
        pytest.skip(NO_BROWSER)
    wrong, asked = [], []
    with browsers.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        tab = browser.new_page(color_scheme=scheme)
        tab.on("console", lambda message: wrong.append(message.text))
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(path.as_uri())
        tab.evaluate("void draw(places[0])")  # it may lie below what is seen first
        tab.wait_for_selector("body[data-drawn]", state="attached")
        yield tab, wrong, asked
        browser.close()


def draw_all(tab):
    """Have the page draw the charts that are not in view yet."""
    tab.evaluate("Promise.all(places.map(draw))")
